"""The catalog's tables, and the numbered steps that upgrade an older catalog.

Belongs here: shapes only. Times are ISO UTC text (sortable); `*_us` are microseconds; sizes are bytes. A column of the
type JSON is decoded when it is read (`store.catalog.connection`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from helix_assets.store.catalog.connection import Connection
from helix_assets.store.catalog.feed import go_on_after_upgrade, make_feed

KEYS_SINCE = "keys_since"
"""In the order of work, what was derived later than this has its keys recorded; an upgraded store has it in `meta`."""

TABLES: Mapping[str, str] = {
    "meta": """
        name TEXT NOT NULL PRIMARY KEY,
        value TEXT NOT NULL
    """,
    "sessions": """
        id INTEGER NOT NULL PRIMARY KEY,
        session_uid TEXT NOT NULL UNIQUE,
        flavor TEXT NOT NULL,
        native_session_id TEXT NOT NULL,
        day TEXT NOT NULL,
        file_key TEXT NOT NULL,
        repo TEXT,
        domain TEXT,
        cwd TEXT,
        git_branch TEXT,
        model TEXT,
        title TEXT,
        task_ref TEXT,
        parent_uid TEXT,
        facts JSON NOT NULL,
        started_us BIGINT,
        ended_us BIGINT,
        outcome TEXT NOT NULL DEFAULT 'unknown',
        source_bytes BIGINT NOT NULL DEFAULT 0,
        raw_bytes BIGINT NOT NULL DEFAULT 0,
        row_count BIGINT NOT NULL DEFAULT 0,
        record_count BIGINT NOT NULL DEFAULT 0,
        unparsed_count BIGINT NOT NULL DEFAULT 0,
        last_row JSON,
        schema_version INTEGER NOT NULL,
        parser_version INTEGER NOT NULL,
        redaction_version TEXT NOT NULL,
        generation INTEGER NOT NULL,
        derived_generation INTEGER,
        derivation_version INTEGER,
        discovered_at TEXT NOT NULL,
        ingested_at TEXT NOT NULL,
        analyzed_at TEXT,
        -- Set while raw bytes are being evicted: the next writer finishes it, for the reason kept here.
        evicting_at TEXT,
        evicting_reason TEXT,
        evicted_at TEXT,
        -- Places in the order of work: they distinguish older from newer even if the clock was wrong.
        ingest_order BIGINT NOT NULL,
        analyze_order BIGINT,
        failure TEXT,
        failures INTEGER NOT NULL DEFAULT 0,
        retry_at TEXT,
        is_pinned BOOLEAN NOT NULL DEFAULT 0,
        -- Whether its digest was merged, because the log contained only a part of what the digest counts.
        is_partial BOOLEAN NOT NULL DEFAULT 0,
        -- How many of the records that it counts are no longer stored, and how many without their texts.
        evicted_records BIGINT NOT NULL DEFAULT 0,
        light_records BIGINT NOT NULL DEFAULT 0
    """,
    "sources": """
        id INTEGER NOT NULL PRIMARY KEY,
        -- The path as it is on disk, or a keyed hash of it if the path itself contains a secret.
        path_key TEXT NOT NULL UNIQUE,
        path TEXT NOT NULL,
        flavor TEXT NOT NULL,
        role TEXT NOT NULL,
        native_id TEXT,
        session_id INTEGER REFERENCES sessions (id),
        file_rank BIGINT NOT NULL,
        dev BIGINT NOT NULL,
        inode BIGINT NOT NULL,
        size BIGINT NOT NULL,
        mtime_ns BIGINT NOT NULL,
        -- The hash of all bytes before the offset: reading goes on from there only if it still fits.
        read_hash TEXT,
        "offset" BIGINT NOT NULL DEFAULT 0,
        line BIGINT NOT NULL DEFAULT 1,
        -- Whether the next sweep reads it from the start and compares it with what is stored of it.
        is_doubted BOOLEAN NOT NULL DEFAULT 0,
        -- Whether records are stored that it no longer contains: it was rewritten, and is not all there was.
        is_outlived BOOLEAN NOT NULL DEFAULT 0,
        order_us BIGINT,
        parser_state JSON,
        status TEXT NOT NULL,
        problem TEXT,
        discovered_at TEXT NOT NULL,
        ingested_at TEXT,
        gone_at TEXT
    """,
    "raw_files": """
        id INTEGER NOT NULL PRIMARY KEY,
        session_id INTEGER NOT NULL REFERENCES sessions (id),
        part INTEGER NOT NULL,
        name TEXT NOT NULL UNIQUE,
        bytes BIGINT NOT NULL,
        hash TEXT NOT NULL,
        row_count BIGINT NOT NULL,
        record_count BIGINT NOT NULL,
        -- How many bytes of the file are the texts of its records; null for files of older versions.
        text_bytes BIGINT
    """,
    # Two live files at most per fact and partition: the settled rows, and the recent ones (`store.fact_merge`). A new
    # version replaces the old one in the same transaction as the digests.
    "fact_files": """
        id INTEGER NOT NULL PRIMARY KEY,
        fact TEXT NOT NULL,
        flavor TEXT NOT NULL,
        day TEXT NOT NULL,
        version INTEGER NOT NULL,
        name TEXT NOT NULL UNIQUE,
        bytes BIGINT NOT NULL,
        hash TEXT NOT NULL,
        row_count BIGINT NOT NULL,
        is_recent BOOLEAN NOT NULL DEFAULT 0,
        UNIQUE (fact, flavor, day, is_recent)
    """,
    # The read contract of kaizen: session_uid and digest stay as they are, columns are only ever added.
    # The positions in the feed, the digest's and its session's first, are set by triggers: see `store.catalog.feed`.
    "digests": """
        session_uid TEXT NOT NULL PRIMARY KEY,
        digest TEXT NOT NULL,
        flavor TEXT NOT NULL,
        repo TEXT,
        domain TEXT,
        outcome TEXT NOT NULL,
        started_at TEXT,
        ended_at TEXT,
        schema_version INTEGER NOT NULL,
        day TEXT NOT NULL,
        generation INTEGER NOT NULL,
        hash TEXT NOT NULL,
        written_at TEXT NOT NULL,
        position BIGINT,
        first_position BIGINT,
        -- Zeros that make large rows of growing sessions keep their size: see `store.catalog.digests`.
        padding BLOB
    """,
    # The digests that are gone, by their first position; null if it is not known which.
    "removals": """
        position BIGINT NOT NULL PRIMARY KEY,
        first_position BIGINT
    """,
    # Which sessions contain a record or message that others may contain too: ids of agents that copy history.
    "ledger": """
        key BIGINT NOT NULL,
        session_id INTEGER NOT NULL,
        PRIMARY KEY (key, session_id)
    """,
    # New claims of the ledger, one row for each session and commit, until there are many: see `store.catalog.ledger`.
    "ledger_news": """
        id INTEGER NOT NULL PRIMARY KEY,
        session_id INTEGER NOT NULL,
        count BIGINT NOT NULL,
        told JSON NOT NULL
    """,
    # The keys of all that a session counts, as 64-bit integers: see `store.catalog.session_keys`.
    "session_keys": """
        id INTEGER NOT NULL PRIMARY KEY,
        session_id INTEGER NOT NULL REFERENCES sessions (id),
        records BLOB NOT NULL,
        bad_lines BLOB NOT NULL,
        -- Pairs: a message, and the record whose usage counts for it.
        messages BLOB NOT NULL,
        -- Whether they come from facts and claims, which is all that earlier versions kept: some may be missing.
        is_gathered BOOLEAN NOT NULL DEFAULT 0
    """,
    # Who owns a key that several sessions contain; `message_id` is set if the key is a message's.
    "shared_keys": """
        key BIGINT NOT NULL PRIMARY KEY,
        owner_id INTEGER NOT NULL REFERENCES sessions (id),
        message_id TEXT
    """,
    "problems": """
        id INTEGER NOT NULL PRIMARY KEY,
        path_key TEXT NOT NULL,
        path TEXT NOT NULL,
        flavor TEXT NOT NULL,
        line BIGINT,
        "offset" BIGINT,
        reason TEXT NOT NULL,
        seen_at TEXT NOT NULL,
        UNIQUE (path_key, line, reason)
    """,
    "evictions": """
        id INTEGER NOT NULL PRIMARY KEY,
        at TEXT NOT NULL,
        session_uid TEXT NOT NULL,
        flavor TEXT NOT NULL,
        day TEXT NOT NULL,
        bytes BIGINT NOT NULL,
        generation INTEGER NOT NULL,
        reason TEXT NOT NULL,
        usage_after BIGINT
    """,
    "losses": """
        id INTEGER NOT NULL PRIMARY KEY,
        at TEXT NOT NULL,
        session_uid TEXT NOT NULL,
        flavor TEXT NOT NULL,
        day TEXT NOT NULL,
        bytes BIGINT NOT NULL,
        records BIGINT NOT NULL,
        generation INTEGER NOT NULL,
        reason TEXT NOT NULL
    """,
    # A mark per day of work, by which the age of raw bytes is counted (`model.days`).
    "day_marks": """
        id INTEGER NOT NULL PRIMARY KEY,
        "order" BIGINT NOT NULL,
        days FLOAT NOT NULL,
        at TEXT NOT NULL
    """,
    "sweeps": """
        id INTEGER NOT NULL PRIMARY KEY,
        started_at TEXT NOT NULL,
        ended_at TEXT,
        seconds FLOAT,
        counters JSON NOT NULL,
        raw_bytes BIGINT,
        soft_cap_bytes BIGINT,
        hard_cap_bytes BIGINT
    """,
    # What a person has had forgotten: keyed hashes of session uids and of source paths, so that no sweep brings it
    # back.
    "forgotten": """
        mark TEXT NOT NULL PRIMARY KEY,
        at TEXT NOT NULL,
        -- The uid, as long as traces of it may be left outside the catalog: the next writer removes them.
        unfinished TEXT
    """,
    # Sessions that could not be read, or whose new lines could not: the reason, and the pause until `retry_at`.
    "retries": """
        session_uid TEXT NOT NULL PRIMARY KEY,
        path_keys JSON NOT NULL,
        failure TEXT NOT NULL,
        failures INTEGER NOT NULL,
        retry_at TEXT NOT NULL
    """,
    # When things happened according to the agents' own hooks: times that their logs do not contain.
    "hook_events": """
        id INTEGER NOT NULL PRIMARY KEY,
        session_uid TEXT NOT NULL,
        at TEXT NOT NULL,
        event TEXT NOT NULL,
        -- The agent's id of a tool call; empty for other events, so that the same event is the same row.
        call_id TEXT NOT NULL,
        UNIQUE (session_uid, at, event, call_id)
    """,
    # kaizen: the projects' files of executions, how far each was read, and their records (redacted).
    "execution_files": """
        id INTEGER NOT NULL PRIMARY KEY,
        path_key TEXT NOT NULL UNIQUE,
        project TEXT NOT NULL,
        agent TEXT NOT NULL,
        dev BIGINT NOT NULL,
        inode BIGINT NOT NULL,
        size BIGINT NOT NULL,
        mtime_ns BIGINT NOT NULL,
        "offset" BIGINT NOT NULL,
        line BIGINT NOT NULL,
        -- The hash of all bytes before the offset: if they changed, the file is read from the start.
        read_hash TEXT NOT NULL,
        unparsed BIGINT NOT NULL
    """,
    "executions": """
        id INTEGER NOT NULL PRIMARY KEY,
        file_id INTEGER NOT NULL REFERENCES execution_files (id),
        line BIGINT NOT NULL,
        session_uid TEXT,
        record JSON NOT NULL
    """,
}

INDEXES: Mapping[str, str] = {
    # Every scan of the disk reads these two.
    "sources_by_state": "sources (path_key, dev, inode, size, mtime_ns)",
    "sources_not_fine": "sources (status) WHERE status != 'ok'",
    "ix_sources_session_id": "sources (session_id)",
    "sessions_by_partition": "sessions (flavor, day)",
    # Every writer looks here first.
    "sessions_being_evicted": "sessions (evicting_at) WHERE evicting_at IS NOT NULL",
    "ix_raw_files_session_id": "raw_files (session_id)",
    "ix_session_keys_session_id": "session_keys (session_id)",
    "ix_shared_keys_owner_id": "shared_keys (owner_id)",
    "ix_problems_path_key": "problems (path_key)",
    "ix_evictions_session_uid": "evictions (session_uid)",
    "ix_losses_session_uid": "losses (session_uid)",
    "ix_executions_file_id": "executions (file_id)",
    "ix_executions_session_uid": "executions (session_uid)",
}
_WITHOUT_ROWID = {"ledger"}


_COLUMN = re.compile(r'^\s*"?([a-z_]+)"? ([A-Z]+)\b', re.MULTILINE)


def columns_of(table: str) -> dict[str, str]:
    """The columns of a table and their types, as they are declared."""
    return dict(_COLUMN.findall(TABLES[table]))


def upgrade(connection: Connection, version: int) -> None:
    """Bring a catalog of this version to the current one: new tables, what the later steps do, indexes, the feed."""
    for name, columns in TABLES.items():
        kind = " WITHOUT ROWID" if name in _WITHOUT_ROWID else ""
        connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({_plain(columns)}){kind}")
    for number, step in _STEPS.items():
        if number > version:
            step(connection)
    for name, what in INDEXES.items():
        connection.execute(f"CREATE INDEX IF NOT EXISTS {name} ON {what}")
    make_feed(connection)
    connection.upsert("meta", [{"name": "catalog_version", "value": str(CATALOG_VERSION)}], ["name"])


def _plain(columns: str) -> str:
    """The columns without comments: SQLite cannot drop a column of a table whose definition contains any."""
    return re.sub(r"\s*--.*", "", columns)


def _texts_go_first(connection: Connection) -> None:
    """Texts can go before light rows do. Files stored already go as a whole."""
    _add_columns(connection, "raw_files", "text_bytes BIGINT")


def _rewritten_files(connection: Connection) -> None:
    """Files that contain less than what is stored of them. Those rewritten before are noticed at their next change."""
    flags = (f"{name} BOOLEAN NOT NULL DEFAULT 0" for name in ("is_doubted", "is_outlived"))
    _add_columns(connection, "sources", *flags)


def _identity_counts(connection: Connection) -> None:
    """Identity decides what counts. The next sweep rereads the logs that were judged by places: of evicted sessions."""
    counts = (f"{name} BIGINT NOT NULL DEFAULT 0" for name in ("evicted_records", "light_records"))
    _add_columns(connection, "sessions", *counts)
    _add_columns(connection, "sources", "read_hash TEXT")
    # The true numbers are known once the log was read again; until then it matters that they are not zero. The places
    # of a log that was rewritten since were set back to its start.
    without_texts = "SELECT session_id FROM raw_files WHERE row_count > 0 AND record_count = 0"
    for new, went in (
        ("evicted_records", "evicted_at IS NOT NULL OR is_partial"),
        ("light_records", f"id IN ({without_texts})"),
    ):
        connection.execute(f"UPDATE sessions SET {new} = max(row_count, 1) WHERE {went}")
    for old, new in (("evicted_offset", "evicted_records"), ("dropped_offset", "light_records")):
        if old in _columns(connection, "sources"):
            went = f"SELECT session_id FROM sources WHERE {old} > 0"
            connection.execute(f"UPDATE sessions SET {new} = max(row_count, 1) WHERE id IN ({went})")
    for gone in _columns(connection, "sources") & {"evicted_offset", "dropped_offset", "head_hash", "tail_hash"}:
        connection.execute(f"ALTER TABLE sources DROP COLUMN {gone}")
    connection.execute(
        f"INSERT OR REPLACE INTO meta (name, value) SELECT '{KEYS_SINCE}', value FROM meta WHERE name = 'order'"
    )
    judged = "SELECT id FROM sessions WHERE evicted_records > 0 OR light_records > 0 OR is_partial"
    connection.execute(f"UPDATE sources SET mtime_ns = -1 WHERE status = 'ok' AND session_id IN ({judged})")


def _positions(connection: Connection) -> None:
    """The feed is a view. Its positions go on from the files that were the feed before."""
    _add_columns(connection, "digests", "position BIGINT", "first_position BIGINT")
    go_on_after_upgrade(connection)


def _recent_facts(connection: Connection) -> None:
    """Partitions can have a second file of each fact, for recent rows. SQLite cannot change what must be unique."""
    _add_columns(connection, "digests", "padding BLOB")
    there = _columns(connection, "fact_files")
    if "is_recent" in there:
        return
    connection.execute("ALTER TABLE fact_files RENAME TO old_fact_files")
    connection.execute(f"CREATE TABLE fact_files ({_plain(TABLES['fact_files'])})")
    names = ", ".join(sorted(there))
    connection.execute(f"INSERT INTO fact_files ({names}) SELECT {names} FROM old_fact_files")
    connection.execute("DROP TABLE old_fact_files")


def _columns(connection: Connection, table: str) -> set[str]:
    return {row.name for row in connection.execute(f"PRAGMA table_info({table})")}


def _add_columns(connection: Connection, table: str, *columns: str) -> None:
    there = _columns(connection, table)
    for column in columns:
        if column.split()[0] not in there:
            connection.execute(f"ALTER TABLE {table} ADD COLUMN {column}")


CATALOG_VERSION = 12
_STEPS: Mapping[int, Callable[[Connection], None]] = {
    6: _texts_go_first,
    8: _rewritten_files,
    10: _identity_counts,
    11: _positions,
    12: _recent_facts,
}
"""What an upgrade to a version does beyond making new tables and indexes."""
