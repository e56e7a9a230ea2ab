"""The memory as SQL views in DuckDB: one per table that a person or a report may read, over the live files.

Belongs here: which views there are, how each reads the catalog's rows and the live files, and their connection, which
can read nothing else. Not here: which statements a person may run (`ask.sql`), or what is withheld (`ask.withheld`).
docs/sql.md documents every column.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, TypeAlias

import orjson

from helix_assets.agents.roles import main_log
from helix_assets.ask.reading import T, read_consistently, refuse_changed
from helix_assets.ask.snapshot import LiveFile, Parts, Snapshot, read_snapshot
from helix_assets.ask.view_columns import selected
from helix_assets.derive.patterns import SEEN_IN, Sighting, find_patterns, key_of_hex, sightings
from helix_assets.model.errors import SettingsError
from helix_assets.model.event import AFTER_THE_END, UNPLACED
from helix_assets.model.facts import FACTS
from helix_assets.store.proof import is_proven
from helix_assets.store.store import Store

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

ROW_VIEWS = ("events", "records")
FACT_VIEWS = tuple(FACTS)
SESSION_VIEWS = ("sessions", "places", "schema_versions")
"""`places` is only for reports: those columns of sessions that need no digest."""
DIGEST_VIEWS = ("sessions", "digests", "patterns", "schema_versions")
SOURCE_VIEWS = ("sessions", "records")
VIEWS = ("sessions", "digests", *ROW_VIEWS, *FACT_VIEWS, "patterns", "losses", "schema_versions")
MEMORY = "1GiB"
Connect: TypeAlias = "Callable[[], AbstractContextManager[duckdb.DuckDBPyConnection]]"
"""Opens an empty DuckDB in memory."""
_THREADS = 2


@dataclass(frozen=True)
class Views:
    """An open connection with the views, the names of what is damaged and missing in them, and how many sessions'
    rows are withheld.
    """

    connection: duckdb.DuckDBPyConnection
    left_out: tuple[str, ...]
    withheld: int


def with_views(  # noqa: PLR0913 - what is wanted, and in which engine
    store: Store,
    names: Collection[str],
    ask: Callable[[Views], T],
    *,
    memory: str = MEMORY,
    rows_of: str | None = None,
    connect: Connect | None = None,
) -> T:
    """The answer of `ask`, which gets a DuckDB in memory with these views of the store. It can read their files and
    nothing else. It is called again, with new views, if any of the files disappears before it has its answer.

    With `rows_of` the views over rows contain only those of that session. `connect` opens the DuckDB, such as
    Dagster's resource does; the limits are set here, whoever opened it.
    """

    def once() -> T:
        with _open_views(store, names, memory=memory, rows_of=rows_of, connect=connect or _in_memory) as views:
            return ask(views)

    return read_consistently(once)


def _in_memory() -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    import duckdb

    return closing(duckdb.connect())


@contextmanager
def _open_views(
    store: Store, names: Collection[str], *, memory: str, rows_of: str | None, connect: Connect
) -> Iterator[Views]:
    import duckdb

    import helix_assets.store.arrow  # noqa: F401 - makes pyarrow do without pandas

    wanted = Parts(
        facts=[name for name in names if name in FACTS],
        rows_of=rows_of,
        sessions=not set(SESSION_VIEWS).isdisjoint(names),
        digests=not set(DIGEST_VIEWS).isdisjoint(names),
        rows=not set(ROW_VIEWS).isdisjoint(names),
        sources=not set(SOURCE_VIEWS).isdisjoint(names),
    )
    snapshot = read_snapshot(store, wanted)
    with connect() as connection:
        try:
            _limit(connection, memory)
            damaged = _create_views(store, connection, snapshot, names)
            _shut(connection, snapshot.files)
            yield Views(connection, tuple(sorted({*snapshot.left_out, *damaged})), snapshot.withheld)
        except (duckdb.IOException, duckdb.PermissionException):  # the second if it searches for a missing file
            refuse_changed(store, [(file.path, file.hash) for file in snapshot.files if not file.path.exists()])
            raise
        finally:
            connection.close()  # Dagster's resource leaves it open after an error


def _limit(connection: duckdb.DuckDBPyConnection, memory: str) -> None:
    """Set the limits of memory and threads. SettingsError if texts of sessions would be written into a file."""
    if connection.execute("SELECT path FROM duckdb_databases() WHERE path IS NOT NULL").fetchone():
        raise SettingsError("reports are computed in memory: give DuckDBResource the database ':memory:', not a file")
    limits = {
        "memory_limit": memory,
        "threads": _THREADS,
        "temp_directory": "",  # raw text is never spilled to disk
        "python_enable_replacements": False,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "TimeZone": "UTC",
    }
    for name, value in limits.items():
        connection.execute(f"SET {name} = ?", [value])


def _shut(connection: duckdb.DuckDBPyConnection, files: Sequence[LiveFile]) -> None:
    """Leave the connection these files to read, and nothing else: no other file, no network, no change of settings."""
    connection.execute("SET allowed_paths = ?", [[str(file.path) for file in files]])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _create_views(
    store: Store, connection: duckdb.DuckDBPyConnection, snapshot: Snapshot, names: Collection[str]
) -> list[str]:
    """Make the views. Returns the sessions whose digest is damaged."""
    damaged: list[str] = []
    if not set(SESSION_VIEWS).isdisjoint(names):
        _create_table(connection, "_sessions", _session_table(snapshot))
    if not set(DIGEST_VIEWS).isdisjoint(names):
        table, damaged = _digest_table(store, snapshot)
        _create_table(connection, "_digests", table)
        if "patterns" in names:
            _create_table(connection, "_patterns", _pattern_table(store, connection))
    if "losses" in names:
        _create_table(connection, "_losses", _loss_table(snapshot))
    if "records" in names:
        _create_table(connection, "_sources", _source_table(snapshot))
    for name in names:
        if name in FACTS:
            sql = _fact_view(connection, name, snapshot.facts.get(name, ()))
        elif name in ROW_VIEWS:
            sql = _row_view(connection, name, snapshot.rows)
        elif name == "digests":
            sql = _digest_view()
        else:
            sql = _CATALOG_VIEWS[name].format(digests=_digest_view())
        connection.execute(f"CREATE VIEW {name} AS {sql}")
    return damaged


def _create_table(connection: duckdb.DuckDBPyConnection, name: str, table: pa.Table) -> None:
    connection.register("_given", table)
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM _given")
    connection.unregister("_given")


# -- from the catalog ------------------------------------------------------------------------------------------------

_SESSION_TEXTS = ("session_uid", "flavor", "day", "native_session_id", "repo", "domain", "task_ref", "title", "model",
                  "cwd", "git_branch", "parent_uid", "outcome", "discovered_at", "ingested_at", "analyzed_at",
                  "evicted_at", "failure", "redaction_version")  # fmt: skip
_SESSION_NUMBERS = ("started_us", "ended_us", "source_bytes", "raw_bytes", "record_count", "unparsed_count",
                    "generation", "schema_version", "parser_version", "derivation_version")  # fmt: skip
_SESSION_FLAGS = ("is_covered", "is_pinned", "is_partial")
_FIGURES: dict[str, tuple[str, ...]] = {
    "wall_clock_s": ("cost", "wall_clock_s"), "active_s": ("cost", "active_s"), "turns": ("cost", "turns"),
    "retries": ("cost", "retries"), "input_tokens": ("tokens", "input"), "output_tokens": ("tokens", "output"),
    "cache_read_tokens": ("tokens", "cache_read"), "cache_write_tokens": ("tokens", "cache_write"),
    "reasoning_tokens": ("tokens", "reasoning"), "user_prompts": ("user_prompts",),
    "assistant_messages": ("assistant_messages",), "tool_calls": ("tool_calls",), "tool_errors": ("tool_errors",),
    "tool_denied": ("tool_denied",), "tool_cancelled": ("tool_cancelled",), "interrupts": ("interrupts",),
    "interventions": ("interventions",), "compactions": ("compactions",),
    "longest_failure_streak": ("longest_failure_streak",), "test_runs": ("tests", "runs"),
    "test_runs_failed": ("tests", "failed"), "edits": ("edits", "count"), "lines_added": ("edits", "lines_added"),
    "lines_removed": ("edits", "lines_removed"), "files_touched": ("files_touched",), "events": ("event_count",),
    "records": ("record_count",), "unparsed_lines": ("unparsed_lines",), "generation": ("coverage", "generation"),
    "schema_version": ("schema_version",),
}  # fmt: skip
_COSTS = ("cost_usd", "cost_usd_main", "cost_usd_subagent")
_DIGEST_TEXTS = ("session_uid", "flavor", "repo", "domain", "title", "task_ref", "parent_uid", "model", "cwd",
                 "git_branch", "outcome", "outcome_reason", "outcome_confidence",
                 "first_prompt", "last_assistant", "source_path")  # fmt: skip
_DIGEST_TIMES = ("started_at", "ended_at", "discovered_at")

_PATTERN_TEXTS = ("pattern_id", "kind", "error_class", "tool", "file_path", "snippet", "trend")
_PATTERN_NUMBERS = ("sessions", "days", "repos", "times", "recent", "before")
_PATTERN_DAYS = ("first_seen", "last_seen")

_CATALOG_VIEWS = {
    "sessions": """
        SELECT s.session_uid, s.flavor, TRY_CAST(s.day AS DATE) AS day, s.native_session_id, s.repo, s.domain,
            s.task_ref, s.title, s.model, s.cwd, s.git_branch, s.parent_uid,
            TRY(make_timestamp(s.started_us)) AS started_at, TRY(make_timestamp(s.ended_us)) AS ended_at, s.outcome,
            d.wall_clock_s, d.active_s, d.turns, d.user_prompts, d.assistant_messages, d.tool_calls, d.tool_errors,
            d.input_tokens, d.output_tokens, d.cache_read_tokens, d.cache_write_tokens, d.cost_usd, d.events,
            s.record_count AS records, s.unparsed_count AS unparsed_lines, s.source_path, s.source_bytes, s.raw_bytes,
            s.generation, s.schema_version, TRY_CAST(s.discovered_at AS TIMESTAMP) AS discovered_at,
            TRY_CAST(s.ingested_at AS TIMESTAMP) AS ingested_at, TRY_CAST(s.analyzed_at AS TIMESTAMP) AS analyzed_at,
            TRY_CAST(s.evicted_at AS TIMESTAMP) AS evicted_at, s.is_covered, s.is_pinned, s.is_partial, s.failure
        FROM _sessions s LEFT JOIN ({digests}) d USING (session_uid)""",
    "places": "SELECT session_uid, repo, domain FROM _sessions",
    "schema_versions": """
        SELECT s.session_uid, s.flavor, TRY_CAST(s.day AS DATE) AS day, s.parser_version, s.redaction_version,
            s.derivation_version, s.schema_version AS row_schema_version,
            TRY_CAST(json_extract_string(d.digest, '$.schema_version') AS BIGINT) AS digest_schema_version
        FROM _sessions s LEFT JOIN _digests d USING (session_uid)""",
    "patterns": """
        SELECT pattern_id, kind, error_class, tool, file_path, snippet, sessions, days, repos, times, first_seen,
            last_seen, recent, before, trend, TRY_CAST(evidence AS JSON) AS evidence
        FROM _patterns ORDER BY sessions DESC, times DESC, pattern_id""",
    "losses": """
        SELECT TRY_CAST(at_text AS TIMESTAMP) AS lost_at, session_uid, flavor, TRY_CAST(day AS DATE) AS day, bytes,
            records, generation, reason
        FROM _losses""",
}  # fmt: skip


def _session_table(snapshot: Snapshot) -> pa.Table:
    import pyarrow as pa

    files: dict[str, list[tuple[str, int, str]]] = {}
    for file in snapshot.sources:
        files.setdefault(file.session_uid, []).append((file.role, file.file_rank, file.path))
    names = (*_SESSION_TEXTS, *_SESSION_NUMBERS)
    rows = [
        {name: row[name] for name in names}
        | {name: bool(row[name]) for name in _SESSION_FLAGS}
        | {"source_path": main_log(files.get(row.session_uid, ()))}
        for row in snapshot.sessions
    ]
    texts = dict.fromkeys((*_SESSION_TEXTS, "source_path"), pa.string())
    numbers, flags = dict.fromkeys(_SESSION_NUMBERS, pa.int64()), dict.fromkeys(_SESSION_FLAGS, pa.bool_())
    return pa.Table.from_pylist(rows, _schema(texts | numbers | flags))


def _digest_table(store: Store, snapshot: Snapshot) -> tuple[pa.Table, list[str]]:
    """The digests, and the sessions whose digest is damaged.

    DuckDB parses their JSON, and only for the columns that a query asks for.
    """
    import pyarrow as pa

    found: dict[str, list[str]] = {"session_uid": [], "digest": []}
    damaged = []
    for row in snapshot.digests:
        if not is_proven(row, store.key):
            damaged.append(row.session_uid)
            continue
        found["session_uid"].append(row.session_uid)
        found["digest"].append(row.digest)
    return pa.table({name: pa.array(values, pa.string()) for name, values in found.items()}), damaged


def _digest_view() -> str:
    """Every column of the view `digests` by its path in the JSON, all extracted at once."""
    paths = {name: (name,) for name in (*_DIGEST_TEXTS, *_DIGEST_TIMES, *_COSTS)} | _FIGURES
    types = (
        dict.fromkeys(_DIGEST_TIMES, "TIMESTAMP") | dict.fromkeys(_COSTS, "DOUBLE") | dict.fromkeys(_FIGURES, "BIGINT")
    )
    wanted = ", ".join(f"'$.{'.'.join(path)}'" for path in paths.values())
    columns = [
        f"TRY_CAST(found[{place}] AS {types[name]}) AS {name}" if name in types else f"found[{place}] AS {name}"
        for place, name in enumerate(paths, start=1)
    ]
    return f"""
        SELECT {", ".join(columns)}, TRY_CAST(digest AS JSON) AS digest
        FROM (SELECT digest, json_extract_string(digest, [{wanted}]) AS found FROM _digests)"""


def _pattern_table(store: Store, connection: duckdb.DuckDBPyConnection) -> pa.Table:
    import pyarrow as pa

    paths = ", ".join(f"'$.{name}'" for name in SEEN_IN)
    texts = connection.execute(f"SELECT json_extract(digest, [{paths}])::VARCHAR[] FROM _digests").fetchall()
    parts = ({name: orjson.loads(text or b"null") for name, text in zip(SEEN_IN, row, strict=True)} for (row,) in texts)
    seen = [sighting for digest in parts for sighting in sightings(digest)]
    newest = max((sighting.day for sighting in seen), default=date.min)
    rows = []
    for pattern in find_patterns(seen, store.key, newest):
        shown = {name: getattr(pattern, name) for name in (*_PATTERN_TEXTS, *_PATTERN_NUMBERS, *_PATTERN_DAYS)}
        rows.append(shown | {"evidence": orjson.dumps(list(map(_evidence, pattern.evidence))).decode()})
    types = dict.fromkeys(_PATTERN_TEXTS, pa.string()) | dict.fromkeys(_PATTERN_NUMBERS, pa.int64())
    types |= dict.fromkeys(_PATTERN_DAYS, pa.date32()) | {"evidence": pa.string()}
    return pa.Table.from_pylist(rows, _schema(types))


def _evidence(sighting: Sighting) -> dict[str, Any]:
    """Where a sighting can be looked at, with record keys in the form of the other views, and what it shows."""
    return {
        "session_uid": sighting.session_uid,
        "record_keys": [key_of_hex(key) for key in sighting.record_keys],
        "day": sighting.day.isoformat(),
        "repo": sighting.repo,
        "times": sighting.times,
        "snippet": sighting.text,
    }


def _loss_table(snapshot: Snapshot) -> pa.Table:
    import pyarrow as pa

    texts, numbers = ("at_text", "session_uid", "flavor", "day", "reason"), ("bytes", "records", "generation")
    names = (*texts[1:], *numbers)
    rows = [{"at_text": row.at, **{name: row[name] for name in names}} for row in snapshot.losses]
    return pa.Table.from_pylist(rows, _schema(dict.fromkeys(texts, pa.string()) | dict.fromkeys(numbers, pa.int64())))


def _source_table(snapshot: Snapshot) -> pa.Table:
    import pyarrow as pa

    names = ("session_uid", "file_rank", "path")
    rows = [{name: row[name] for name in names} for row in snapshot.sources]
    return pa.Table.from_pylist(
        rows, _schema({"session_uid": pa.string(), "file_rank": pa.int64(), "path": pa.string()})
    )


def _schema(types: dict[str, pa.DataType]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(list(types.items()))


# -- from files ------------------------------------------------------------------------------------------------------

_PART = r"TRY_CAST(regexp_extract(filename, '\.([0-9]+)(\.[a-z]+)*\.parquet$', 1) AS INT)"


def _scan(files: Sequence[LiveFile]) -> str:
    """All rows of files. Uniting columns by name takes as long as reading, so only files that may lack some need it."""
    scans = []
    for may_lack in (False, True):
        paths = ["'" + str(file.path).replace("'", "''") + "'" for file in files if file.may_lack == may_lack]
        if paths:
            how = f"union_by_name={may_lack}, filename=true, hive_partitioning=false"
            scans.append(f"SELECT * FROM read_parquet([{', '.join(paths)}], {how})")
    return "(" + " UNION ALL BY NAME ".join(scans) + ")"


def _rows_of(connection: duckdb.DuckDBPyConnection, name: str, files: Sequence[LiveFile], schema: pa.Schema) -> str:
    """All rows of files. An empty table gives every column its type, also those that files of an older version lack."""
    import pyarrow as pa

    _create_table(connection, f"_no_{name}", schema.append(pa.field("filename", pa.string())).empty_table())
    none = f"SELECT * FROM _no_{name}"
    return f"{none} UNION ALL BY NAME SELECT * FROM {_scan(files)}" if files else none


def _fact_view(connection: duckdb.DuckDBPyConnection, fact: str, files: Sequence[LiveFile]) -> str:
    from helix_assets.store.fact_files import schema_of

    rows = _rows_of(connection, fact, files, schema_of(fact))
    return f"SELECT {selected(fact)} FROM ({rows}) r"


def _row_view(connection: duckdb.DuckDBPyConnection, name: str, files: Sequence[LiveFile]) -> str:
    from helix_assets.store.parquet import SCHEMA

    rows = _rows_of(connection, name, files, SCHEMA)
    if name == "events":
        return f"SELECT {selected(name)} FROM ({rows}) r WHERE kind IS NOT NULL"
    grown = [file for file in files if file.has_siblings]
    # A document is stored again with each part of a growing session: the newest counts.
    unplaced = f"""SELECT * FROM ({_rows_of(connection, "grown", grown, SCHEMA)}) WHERE seq = {UNPLACED}
        QUALIFY row_number() OVER (PARTITION BY session_uid, file, line ORDER BY {_PART} DESC) = 1"""
    alone = _rows_of(connection, "alone", [file for file in files if not file.has_siblings], SCHEMA)
    placed = f"SELECT * FROM ({rows}) WHERE seq <> {UNPLACED}"
    return f"""
        SELECT {selected(name)}
        FROM ({placed} UNION ALL BY NAME SELECT * FROM ({alone}) WHERE seq = {UNPLACED} UNION ALL BY NAME {unplaced}) r
        LEFT JOIN _sources s ON s.session_uid = r.session_uid AND s.file_rank = r.file
        WHERE r.raw IS NOT NULL AND r.native_type <> '{AFTER_THE_END}'"""
