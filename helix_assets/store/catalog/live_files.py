"""The files that are part of the store: part files of sessions, and files of facts. What is not named here is not."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from helix_assets.model.facts import FACTS
from helix_assets.store.catalog.conditions import Versions, covered
from helix_assets.store.catalog.connection import Connection, Row, marks
from helix_assets.store.fact_files import FactFile

_FEW = 50
_FACT_FILES = f"SELECT {', '.join(FactFile._fields)} FROM fact_files"


def parts_of(connection: Connection, session_ids: Collection[int]) -> dict[int, list[Row]]:
    """Live part files by session, in order."""
    found: dict[int, list[Row]] = {}
    query = "SELECT * FROM raw_files WHERE session_id IN ({}) ORDER BY session_id, part"
    for row in connection.for_each(query, session_ids):
        found.setdefault(row.session_id, []).append(row)
    return found


def parts_to_search(connection: Connection) -> list[Row]:
    """Live part files with their sessions, without those that are being evicted."""
    return connection.rows("""SELECT name, bytes, hash, session_uid, sessions.id
        FROM raw_files JOIN sessions ON sessions.id = session_id WHERE evicting_at IS NULL""")


def parts_with_sessions(connection: Connection, session_uid: str | None = None) -> list[Row]:
    """Live part files with the session of each, without those being evicted, the newest first; of one or of all."""
    return connection.rows(
        """SELECT name, bytes, hash, part, text_bytes, session_uid, redaction_version
        FROM raw_files JOIN sessions ON sessions.id = session_id
        WHERE evicting_at IS NULL AND (:uid IS NULL OR session_uid = :uid) ORDER BY raw_files.id DESC""",
        {"uid": session_uid},
    )


def newest(connection: Connection) -> tuple[int | None, int | None]:
    """The numbers of the newest part file and of the newest eviction: they change when other files may be live."""
    files, evictions = connection.execute(
        "SELECT (SELECT max(id) FROM raw_files), (SELECT max(id) FROM evictions)"
    ).fetchone()
    return files, evictions


def raw_usage(connection: Connection) -> int:
    """Bytes of Tier 1: the sum over live files, without the search index."""
    return int(connection.value("SELECT coalesce(sum(bytes), 0) FROM raw_files"))


def fact_bytes(connection: Connection) -> int:
    """Bytes of the live fact files."""
    return int(connection.value("SELECT coalesce(sum(bytes), 0) FROM fact_files"))


def usage_by_session(connection: Connection, versions: Versions) -> list[Row]:
    """Every session with bytes in the raw cache that is not marked for eviction already, and whether it is covered.

    A session whose digest is gone is not covered, whatever its row says.
    """
    return connection.rows(f"""
        SELECT sessions.session_uid, sessions.flavor, sessions.day, sessions.generation, ingest_order, ingested_at,
            analyze_order, ended_us, is_pinned, on_disk.bytes, records, text_bytes,
            {covered(versions)} AND coalesce(digests.generation = sessions.generation, 0) AS is_covered
        FROM sessions JOIN (
            SELECT session_id, sum(bytes) AS bytes, sum(record_count) AS records,
                coalesce(sum(text_bytes), 0) AS text_bytes
            FROM raw_files GROUP BY session_id) AS on_disk ON on_disk.session_id = sessions.id
        LEFT JOIN digests ON digests.session_uid = sessions.session_uid
        WHERE evicting_at IS NULL""")


def part_names(connection: Connection) -> set[str]:
    """The names of all live part files."""
    return set(connection.column("SELECT name FROM raw_files"))


def parts_of_evicted(connection: Connection) -> list[tuple[str, str]]:
    """Live part files of evicted sessions, of which there must be none: uid and name."""
    return connection.tuples("""SELECT session_uid, name FROM raw_files
        JOIN sessions ON sessions.id = session_id WHERE evicted_at IS NOT NULL""")


def put_parts(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Name published part files as live."""
    connection.insert("raw_files", rows)


def replace_part(connection: Connection, number: int, **values: Any) -> None:
    """Replace a live part file by another."""
    connection.update("raw_files", values, "id = ?", number)


def drop_parts(connection: Connection, session_ids: Collection[int]) -> list[str]:
    """Remove the live part files of sessions. Returns their names so that they can be unlinked after the commit."""
    statement = "DELETE FROM raw_files WHERE session_id IN ({}) RETURNING name"
    return [row.name for row in connection.for_each(statement, session_ids)]


def drop_named(connection: Connection, names: Collection[str]) -> None:
    """Remove the live part files of these names."""
    connection.run_for("DELETE FROM raw_files WHERE name IN ({})", names)


def fact_files(connection: Connection, partitions: Collection[tuple[str, str]] | None = None) -> list[FactFile]:
    """Live fact files, of these (flavor, day) partitions or of all; settled rows before recent ones."""
    where, values = "", list[str]()
    if partitions is not None and len(partitions) <= _FEW:
        flavors, days = {flavor for flavor, _ in partitions}, {day for _, day in partitions}
        where = f"WHERE fact IN ({marks(FACTS)}) AND flavor IN ({marks(flavors)}) AND day IN ({marks(days)})"
        values = [*FACTS, *flavors, *days]
    rows = connection.tuples(f"{_FACT_FILES} {where} ORDER BY fact, flavor, day, is_recent", values)
    files = map(FactFile._make, rows)
    return [file for file in files if partitions is None or (file.flavor, file.day) in partitions]


def put_fact_files(connection: Connection, files: Sequence[FactFile], gone: Sequence[FactFile]) -> None:
    """Name these files as live, each replacing the one before. `gone` ones have no successor."""
    connection.upsert("fact_files", [file._asdict() for file in files], ["fact", "flavor", "day", "is_recent"])
    connection.run_for("DELETE FROM fact_files WHERE name IN ({})", [file.name for file in gone])
