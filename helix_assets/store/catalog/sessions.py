"""Sessions: one row each, with what is stored of it and by which versions."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from helix_assets.model.errors import NotFoundError
from helix_assets.store.catalog.conditions import Versions, outdated
from helix_assets.store.catalog.connection import Connection, Row, marks
from helix_assets.store.catalog.retries import due

_MANY = 5_000

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
    return connection.rows(query, (repo,))


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
    return connection.rows(query, (*values, limit)), int(total)


def identities(connection: Connection) -> list[Row]:
    """What identifies the stored rows of each session: its partition, its uid, and their generation."""
    query = "SELECT flavor, day, session_uid, generation FROM sessions ORDER BY session_uid"
    return connection.rows(query)


def of_days(connection: Connection, days: Collection[str]) -> Iterator[Row]:
    """The counts of the sessions of these days."""
    query = """SELECT flavor, day, row_count, record_count, unparsed_count, raw_bytes, source_bytes, evicted_at
        FROM sessions WHERE day IN ({})"""
    return connection.for_each(query, days)


def count_by_day(connection: Connection, first_day: str) -> list[Row]:
    """How many sessions each agent had on each day since the first, as rows of agent, day and count."""
    query = "SELECT flavor, day, count(*) FROM sessions WHERE day >= ? GROUP BY flavor, day ORDER BY flavor, day"
    return connection.rows(query, (first_day,))


def count_rows(connection: Connection) -> int:
    """How many rows of all sessions are stored."""
    query = "SELECT coalesce(sum(row_count), 0) FROM sessions WHERE evicted_at IS NULL"
    return int(connection.value(query))


def being_evicted(connection: Connection) -> list[Row]:
    """Sessions that are marked: the next writer finishes their eviction."""
    # Sorted here: an `order by` would read all sessions instead of the index of the marked ones.
    rows = connection.rows("SELECT * FROM sessions WHERE evicting_at IS NOT NULL")
    return sorted(rows, key=lambda row: row.id)


def mark_evicting(connection: Connection, session_uid: str, generation: int, at: str, reason: str) -> None:
    """Mark a session for eviction, if it has not changed since it was planned."""
    changes = {"evicting_at": at, "evicting_reason": reason}
    connection.update("sessions", changes, "session_uid = ? AND generation = ?", session_uid, generation)


def bytes_with_texts(connection: Connection) -> tuple[int, int]:
    """Bytes stored of all sessions with texts, and bytes of their sources."""
    stored, read = connection.execute(
        """SELECT coalesce(sum(raw_bytes), 0), coalesce(sum(source_bytes), 0) FROM sessions
            WHERE record_count > 0 AND raw_bytes > 0"""
    ).fetchone()
    return stored, read


def every(connection: Connection) -> list[Row]:
    """All sessions, by uid."""
    return connection.rows("SELECT * FROM sessions ORDER BY session_uid")


def count(connection: Connection) -> int:
    return int(connection.value("SELECT count(*) FROM sessions"))


def is_any_redacted_otherwise(connection: Connection, redaction: str) -> bool:
    """Whether any session is redacted by other rules than these."""
    return connection.value("SELECT id FROM sessions WHERE redaction_version != ? LIMIT 1", (redaction,)) is not None


def stale(
    connection: Connection, versions: Versions, redaction: str, now: datetime, among: Collection[str] | None
) -> list[Row]:
    """Sessions with rows of older rules that may be tried now, the oldest first; `among` these, if it names few.

    `by_rules` (of redaction) and `otherwise` (parser, digest) say why.
    """
    query = f"""SELECT session_uid, day, flavor, raw_bytes, redaction_version != ? AS by_rules,
            {outdated(versions)} AS otherwise
        FROM sessions WHERE evicted_at IS NULL AND row_count > 0 AND (by_rules OR otherwise)
            AND (failure IS NULL OR {due(now)}) AND {_is_among(among)}
        ORDER BY ingest_order"""
    return connection.rows(query, (redaction, *_few(among)))


def is_any_stale(connection: Connection, versions: Versions, redaction: str, among: Collection[str] | None) -> bool:
    """Whether any session is of older rules, whenever it may be tried; `among` as above."""
    query = f"""SELECT id FROM sessions WHERE (redaction_version != ?
            OR evicted_at IS NULL AND row_count > 0 AND {outdated(versions)}) AND {_is_among(among)} LIMIT 1"""
    return connection.value(query, (redaction, *_few(among))) is not None


def _is_among(uids: Collection[str] | None) -> str:
    return f"session_uid IN ({marks(_few(uids))})" if uids is not None and len(uids) <= _MANY else "1"


def _few(uids: Collection[str] | None) -> tuple[str, ...]:
    return tuple(uids) if uids is not None and len(uids) <= _MANY else ()


def next_ids(connection: Connection, count: int) -> range:
    """Ids for so many new sessions. There is one writer, so they stay free until the transaction ends."""
    last = connection.value("SELECT coalesce(max(id), 0) FROM sessions")
    return range(last + 1, last + 1 + count)


def put(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert or update sessions by uid. Columns that never change are kept. All rows have the same columns."""
    keep = {"id", "day", "discovered_at", "file_key"} | (_AT_FIRST.keys() - rows[0].keys() if rows else set())
    connection.upsert("sessions", [{**_AT_FIRST, **row} for row in rows], ["session_uid"], keep)


def erase(connection: Connection, uids: Collection[str]) -> None:
    """Erase forgotten sessions, and the times that hooks noted of them."""
    connection.run_for("DELETE FROM hook_events WHERE session_uid IN ({})", uids)
    connection.run_for("DELETE FROM sessions WHERE session_uid IN ({})", uids)


def change(connection: Connection, session_id: int, **values: Any) -> None:
    """Change some columns of a session."""
    connection.update("sessions", values, "id = ?", session_id)
