"""Source files: what is known of each, and how far it was read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from helix_assets.model.changes import FileState
from helix_assets.store.catalog.connection import Connection, Row, marks

PRESENT_UNREADABLE = "present_unreadable"
"""The status of a session's file that is known for what it is and cannot be read, such as an encrypted one."""
_AT_FIRST = {"offset": 0, "line": 1, "is_doubted": False, "is_outlived": False}
"""Values of a new row. Tables that an earlier version made have no defaults of their own."""


class KnownSources(NamedTuple):
    """What the catalog remembers of all files by path key: their states, and the status of those that are not fine."""

    states: dict[str, FileState]
    unusual: dict[str, str]


def known(connection: Connection) -> KnownSources:
    """Every file ever seen. This takes most of the time of a sweep that finds nothing new."""
    rows = connection.tuples("SELECT path_key, dev, inode, size, mtime_ns FROM sources")
    unusual = connection.tuples("SELECT path_key, status FROM sources WHERE status != 'ok'")
    return KnownSources({row[0]: row[1:] for row in rows}, dict(unusual))


def by_key(connection: Connection, path_keys: Collection[str]) -> dict[str, Row]:
    """The full rows of some files."""
    return {row.path_key: row for row in connection.for_each("SELECT * FROM sources WHERE path_key IN ({})", path_keys)}


def of_sessions(connection: Connection, session_ids: Collection[int]) -> dict[int, list[Row]]:
    """Source files by session."""
    found: dict[int, list[Row]] = {}
    for row in connection.for_each("SELECT * FROM sources WHERE session_id IN ({}) ORDER BY path_key", session_ids):
        found.setdefault(row.session_id, []).append(row)
    return found


def with_sessions(connection: Connection) -> list[Row]:
    """The path, place, role and agent of every file that belongs to a session, and which."""
    return connection.rows("""SELECT session_uid, sources.flavor, path, file_rank, role
        FROM sources JOIN sessions ON sessions.id = session_id""")


def count_by_status(connection: Connection) -> dict[str, int]:
    return dict(connection.tuples("SELECT status, count(*) FROM sources GROUP BY status"))


def count_never_read(connection: Connection) -> int:
    """How many files went before they were read."""
    return int(connection.value("SELECT count(*) FROM sources WHERE status = 'gone' AND ingested_at IS NULL"))


def unreadable_sessions(connection: Connection) -> dict[tuple[str, str], int]:
    """How many sessions of each agent cannot be read, by agent and reason."""
    query = "SELECT flavor, problem, count(*) FROM sources WHERE status = ? GROUP BY flavor, problem"
    rows = connection.execute(f"{query} ORDER BY flavor, problem", (PRESENT_UNREADABLE,))
    return {(flavor, reason): count for flavor, reason, count in rows}


def vanished_unread(connection: Connection) -> int:
    """How many files went before they were read."""
    return int(connection.value("SELECT count(*) FROM sources WHERE status = 'gone' AND ingested_at IS NULL"))


def left_out(connection: Connection) -> set[str]:
    """The path keys of files that the settings exclude."""
    return set(connection.column("SELECT path_key FROM sources WHERE status = 'excluded'"))


def parts_of_files(connection: Connection, roles: Collection[str]) -> Sequence[Row]:
    """The sessions of files that hold many, as they were when they were last listed there."""
    query = f"""SELECT path_key, path, role, native_id, dev, inode, size, mtime_ns FROM sources
        WHERE role IN ({marks(roles)}) AND native_id IS NOT NULL AND status != 'gone'"""
    return connection.rows(query, tuple(roles))


def identities(connection: Connection, days: Collection[str] | None = None) -> Iterator[Row]:
    """What identifies the content of each session's files: its partition, and their names, states and status."""
    query = """SELECT sessions.flavor, sessions.day, path_key, size, mtime_ns, status
        FROM sessions JOIN sources ON session_id = sessions.id {} ORDER BY path_key"""
    return connection.of_days(query, "sessions.day", days)


def of_days(connection: Connection, days: Collection[str]) -> Iterator[Row]:
    """The files of the sessions of these days."""
    query = """SELECT sessions.flavor, sessions.day, path_key, size, status
        FROM sessions JOIN sources ON session_id = sessions.id WHERE sessions.day IN ({})"""
    return connection.for_each(query, days)


def count(connection: Connection) -> int:
    """How many files of sessions are on disk."""
    query = "SELECT count(*) FROM sources WHERE session_id IS NOT NULL AND status != 'gone'"
    return int(connection.value(query))


def put(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert or update files by path key; every row must have the same columns."""
    keep = {"discovered_at"} | (_AT_FIRST.keys() - rows[0].keys() if rows else set())
    connection.upsert("sources", [{**_AT_FIRST, **row} for row in rows], ["path_key"], keep)


def without_session(connection: Connection) -> list[Row]:
    """Files that belong to no session, such as those that were skipped unread."""
    return connection.rows("SELECT * FROM sources WHERE session_id IS NULL")


def read_from_start(connection: Connection, path_key: str, roles: Collection[str]) -> None:
    """Forget where reading of a file and of the sessions in it stopped."""
    start = {"offset": 0, "line": 1, "read_hash": None, "parser_state": None}
    in_it = f"role IN ({marks(roles)}) AND (path_key = ? OR substr(path_key, 1, ?) = ?)"
    connection.update("sources", start, in_it, *roles, path_key, len(path_key) + 1, f"{path_key}#")


def mark(connection: Connection, path_keys: Collection[str], **values: Any) -> None:
    """Change some columns of some files."""
    changes = ", ".join(f'"{name}" = ?' for name in values)
    statement = f"UPDATE sources SET {changes} WHERE path_key IN ({{}})"
    connection.run_for(statement, path_keys, tuple(values.values()))


def drop(connection: Connection, path_keys: Collection[str]) -> None:
    """Remove files that were moved elsewhere."""
    connection.run_for("DELETE FROM sources WHERE path_key IN ({})", path_keys)


def change(connection: Connection, session_id: int, **values: Any) -> None:
    """Change some columns of a session's files."""
    connection.update("sources", values, "session_id = ?", session_id)


def doubt_all_of_whole_sessions(connection: Connection) -> None:
    """Have the next sweep compare the files of sessions that are stored whole with what is stored of them."""
    whole = "SELECT id FROM sessions WHERE evicted_at IS NULL AND evicted_records = 0 AND light_records = 0"
    connection.update("sources", {"is_doubted": True}, f"session_id IN ({whole})")


def forget_parser_states(connection: Connection) -> None:
    """Erase the text of unfinished records that parsers keep."""
    connection.update("sources", {"parser_state": None}, "parser_state IS NOT NULL")


def read_again(connection: Connection, session_id: int) -> str | None:
    """Let the next sweep read a session's files from the start. Returns its uid, or None if the files are gone.

    What was evicted of it is then derived along with the rest, as whenever it grows.
    """
    if connection.value("SELECT 1 FROM sources WHERE session_id = ? AND status = 'gone'", (session_id,)):
        return None
    change(connection, session_id, mtime_ns=-1, is_doubted=True)
    uid: str = connection.value("SELECT session_uid FROM sessions WHERE id = ?", (session_id,))
    return uid
