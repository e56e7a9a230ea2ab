"""The logs of what went: evictions of what a digest covers, and losses without one. They are only ever added to."""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, timedelta
from typing import Any, NamedTuple

from helix_assets.store.catalog.connection import Connection, Row

_ON = "at >= ? AND at < ?"
_UNNAMED = "SELECT id, at, flavor, day, bytes, records, reason FROM losses"


def put_eviction(connection: Connection, **values: Any) -> None:
    """Record raw bytes that went and are covered."""
    connection.insert("evictions", [values])


def of_time(connection: Connection, at: str) -> list[Row]:
    """What was lost by the eviction of this time."""
    return connection.rows("SELECT * FROM losses WHERE at = ? ORDER BY id", (at,))


def every(connection: Connection) -> list[Row]:
    """All losses, in order."""
    return connection.rows("SELECT * FROM losses ORDER BY id")


def count_sessions(connection: Connection) -> int:
    """How many sessions have lost anything."""
    return int(connection.value("SELECT count(DISTINCT session_uid) FROM losses"))


def rename(connection: Connection, session_uid: str, name: str) -> None:
    """Replace a session's name in both logs, whose figures stay true."""
    for log in ("evictions", "losses"):
        connection.update(log, {"session_uid": name}, "session_uid = ?", session_uid)


def put_loss(connection: Connection, **values: Any) -> None:
    """Record raw bytes that go without a digest."""
    connection.insert("losses", [values])


def evictions_on(connection: Connection, day: date) -> list[Row]:
    """What was evicted on a day: how many sessions and bytes of each partition for each reason."""
    query = f"""SELECT flavor, day, reason, count(*) AS sessions, sum(bytes) AS bytes FROM evictions WHERE {_ON}
        GROUP BY flavor, day, reason ORDER BY flavor, day, reason"""
    return connection.rows(query, _span(day))


def count_evictions(connection: Connection) -> int:
    """How many sessions were ever evicted, each time counted."""
    return int(connection.value("SELECT count(*) FROM evictions"))


def count_on(connection: Connection, day: date) -> int:
    """How many sessions were lost on a day."""
    return int(connection.value(f"SELECT count(*) FROM losses WHERE {_ON}", _span(day)))


def totals(connection: Connection) -> tuple[int, int]:
    """How many sessions were ever lost, each time counted, and of how many bytes."""
    count, size = connection.execute("SELECT count(*), coalesce(sum(bytes), 0) FROM losses").fetchone()
    return count, size


def after(connection: Connection, number: int) -> list[Row]:
    """The losses after the one of this number, in order, without the names of their sessions."""
    return connection.rows(f"{_UNNAMED} WHERE id > ? ORDER BY id", (number,))


def newest(connection: Connection, limit: int) -> list[Row]:
    """The newest losses, without the names of their sessions."""
    return connection.rows(f"{_UNNAMED} ORDER BY id DESC LIMIT ?", (limit,))


def _span(day: date) -> tuple[str, str]:
    return day.isoformat(), (day + timedelta(days=1)).isoformat()


class WithoutCover(NamedTuple):
    """A session that lost texts or raw bytes `before` a digest covered them, or is evicted without cover `now`."""

    session_uid: str
    before: bool
    now: bool


def without_cover(connection: Connection) -> list[WithoutCover]:
    """Sessions of which something went that neither a digest covers nor a loss record names."""
    # An eviction is of texts too, whose rows stay, so a session that is not evicted may have some.
    query = """
        WITH gone AS (
            SELECT s.session_uid, s.generation, s.evicted_at IS NOT NULL OR s.evicting_at IS NOT NULL AS is_evicted,
                CASE WHEN d.session_uid IS NULL THEN -1 ELSE s.derived_generation END AS covered
            FROM sessions s LEFT JOIN digests d
                ON d.session_uid = s.session_uid AND d.generation >= s.derived_generation
            WHERE is_evicted OR s.session_uid IN (SELECT session_uid FROM evictions)
        )
        SELECT session_uid,
            EXISTS (SELECT 1 FROM evictions e WHERE e.session_uid = gone.session_uid AND e.generation > covered
                AND NOT EXISTS (SELECT 1 FROM losses l
                    WHERE l.session_uid = e.session_uid AND l.generation = e.generation)) AS was_uncovered,
            is_evicted AND covered != generation AND NOT EXISTS (SELECT 1 FROM losses l
                WHERE l.session_uid = gone.session_uid AND l.generation = gone.generation) AS is_uncovered
        FROM gone WHERE was_uncovered OR is_uncovered ORDER BY session_uid"""
    return [WithoutCover(uid, bool(before), bool(now)) for uid, before, now in connection.tuples(query)]


def evicted_count(connection: Connection) -> tuple[int, int]:
    """How many sessions are evicted or on their way out, and how many of these a loss record names."""
    query = """SELECT count(*), coalesce(sum(EXISTS (SELECT 1 FROM losses l
            WHERE l.session_uid = sessions.session_uid AND l.generation = sessions.generation)), 0)
        FROM sessions WHERE evicted_at IS NOT NULL OR evicting_at IS NOT NULL"""
    ((evicted, lost),) = connection.tuples(query)
    return evicted, lost


def evicted_file_keys(connection: Connection) -> list[str]:
    """What the file names of each evicted session begin with."""
    return connection.column("SELECT file_key FROM sessions WHERE evicted_at IS NOT NULL")


def of_which_something_went(connection: Connection, uids: Collection[str]) -> set[str]:
    """Those of these sessions of which something was evicted or lost."""
    logs = (f"SELECT DISTINCT session_uid FROM {log} WHERE session_uid IN ({{}})" for log in ("evictions", "losses"))
    return {row.session_uid for query in logs for row in connection.for_each(query, uids)}


def usage_after(connection: Connection, newest: int) -> list[tuple[str, int]]:
    """When the newest evictions were, and the bytes of the raw cache after each. The usage falls from row to row."""
    query = """SELECT at, min(usage_after) FROM evictions WHERE usage_after IS NOT NULL
        GROUP BY at ORDER BY at DESC LIMIT ?"""
    return connection.tuples(query, (newest,))


def evicted_bytes(connection: Connection, after: str, until: str) -> int:
    """The raw bytes that went between two times."""
    query = "SELECT coalesce(sum(bytes), 0) FROM evictions WHERE at > ? AND at <= ?"
    return int(connection.value(query, (after, until)))
