"""Sessions: one row each, with what is stored of it and by which versions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from helix_assets.model.errors import NotFoundError
from helix_assets.store.catalog.connection import Connection, Row, marks

_AT_FIRST = {
    "outcome": "unknown",
    **dict.fromkeys(("source_bytes", "raw_bytes", "row_count", "record_count", "unparsed_count", "failures"), 0),
    **dict.fromkeys(("is_pinned", "is_partial"), False),
}
"""Values of a new row. Tables that an earlier version made have no defaults of their own."""


class Wanted(NamedTuple):
    """Which sessions are wanted; None is no limit. Times are in microseconds."""

    agent: str | None = None
    repo: str | None = None
    day: str | None = None
    ended_since_us: int | None = None
    started_before_us: int | None = None
    outcome: str | None = None


_CONDITIONS = ("flavor = ?", "repo = ?", "day = ?", "ended_us >= ?", "started_us < ?", "outcome = ?")
"""What each field of `Wanted` limits, in the same order."""


def one(connection: Connection, session_uid: str) -> Row:
    """One session's row; NotFoundError when there is none."""
    row: Row | None = connection.execute("SELECT * FROM sessions WHERE session_uid = ?", (session_uid,)).fetchone()
    if row is None:
        raise NotFoundError(f"no session {session_uid!r} in the memory; `helix sessions` lists them")
    return row


def by_uid(connection: Connection, uids: Collection[str]) -> dict[str, Row]:
    """Those of the sessions that exist."""
    rows = connection.for_each("SELECT * FROM sessions WHERE session_uid IN ({})", uids)
    return {row.session_uid: row for row in rows}


def by_id(connection: Connection, ids: Collection[int]) -> dict[int, Row]:
    """Those of the sessions that exist."""
    return {row.id: row for row in connection.for_each("SELECT * FROM sessions WHERE id IN ({})", ids)}


def uids_by_partition(
    connection: Connection, partitions: Collection[tuple[str, str]]
) -> dict[tuple[str, str], set[str]]:
    """The sessions of these (flavor, day) partitions."""
    found: dict[tuple[str, str], set[str]] = {partition: set() for partition in partitions}
    flavors = sorted({flavor for flavor, _ in partitions})
    query = f"SELECT flavor, day, session_uid FROM sessions WHERE flavor IN ({marks(flavors)}) AND day IN ({{}})"
    for flavor, day, uid in connection.for_each(query, {day for _, day in partitions}, flavors):
        if (flavor, day) in found:
            found[flavor, day].add(uid)
    return found


def uids_by_native(connection: Connection, natives: Collection[str]) -> dict[str, str]:
    """The uids of those sessions that exist, by the agents' own ids."""
    query = "SELECT native_session_id, session_uid FROM sessions WHERE native_session_id IN ({})"
    return {row.native_session_id: row.session_uid for row in connection.for_each(query, natives)}


def of_repo(connection: Connection, repo: str) -> list[Row]:
    """The sessions of a repository, by day."""
    query = "SELECT * FROM sessions WHERE repo = ? ORDER BY day, session_uid"
    return list(connection.execute(query, (repo,)))


def agents(connection: Connection) -> list[str]:
    """The agents of which there are sessions."""
    return connection.column("SELECT DISTINCT flavor FROM sessions")


def newest(connection: Connection, wanted: Wanted, limit: int) -> tuple[list[Row], int]:
    """The newest sessions of those wanted, each with its digest if there is one, and how many are wanted."""
    limits = [(condition, value) for condition, value in zip(_CONDITIONS, wanted, strict=True) if value is not None]
    where = " AND ".join(f"sessions.{condition}" for condition, _ in limits) or "TRUE"
    values = [value for _, value in limits]
    query = f"""SELECT sessions.*, digest, hash FROM sessions
        LEFT JOIN digests ON digests.session_uid = sessions.session_uid WHERE {where}
        ORDER BY coalesce(sessions.started_us, 0) DESC, sessions.session_uid LIMIT ?"""
    total = connection.value(f"SELECT count(*) FROM sessions WHERE {where}", values)
    return list(connection.execute(query, (*values, limit))), int(total)


def identities(connection: Connection) -> list[Row]:
    """What identifies the stored rows of each session: its partition, its uid, and their generation."""
    query = "SELECT flavor, day, session_uid, generation FROM sessions ORDER BY session_uid"
    return list(connection.execute(query))


def of_days(connection: Connection, days: Collection[str]) -> Iterator[Row]:
    """The counts of the sessions of these days."""
    query = """SELECT flavor, day, row_count, record_count, unparsed_count, raw_bytes, source_bytes, evicted_at
        FROM sessions WHERE day IN ({})"""
    return connection.for_each(query, days)


def count_by_day(connection: Connection, first_day: str) -> list[Row]:
    """How many sessions each agent had on each day since the first, as rows of agent, day and count."""
    query = "SELECT flavor, day, count(*) FROM sessions WHERE day >= ? GROUP BY flavor, day ORDER BY flavor, day"
    return list(connection.execute(query, (first_day,)))


def count_rows(connection: Connection) -> int:
    """How many rows of all sessions are stored."""
    query = "SELECT coalesce(sum(row_count), 0) FROM sessions WHERE evicted_at IS NULL"
    return int(connection.value(query))


def next_ids(connection: Connection, count: int) -> range:
    """Ids for so many new sessions. There is one writer, so they stay free until the transaction ends."""
    last = connection.value("SELECT coalesce(max(id), 0) FROM sessions")
    return range(last + 1, last + 1 + count)


def put(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert or update sessions by uid. Columns that never change are kept. All rows have the same columns."""
    keep = {"id", "day", "discovered_at", "file_key"} | (_AT_FIRST.keys() - rows[0].keys() if rows else set())
    connection.upsert("sessions", [{**_AT_FIRST, **row} for row in rows], ["session_uid"], keep)


def change(connection: Connection, session_id: int, **values: Any) -> None:
    """Change some columns of a session."""
    connection.update("sessions", values, "id = ?", session_id)
