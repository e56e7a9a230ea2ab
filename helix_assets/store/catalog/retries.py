"""Failed sessions: which could not be analysed, why, and when each is tried again.

Belongs here: their record in the catalog, and the back-off. A session whose digest failed is stored all the same, with
the reason in its own row. One that could not even be read has a row in the table `retries`. Neither counts as covered,
so neither is evicted. Not here: how sessions fail (`sweep.workers`, `sweep.read`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from helix_assets.model.time import iso, microseconds
from helix_assets.store.catalog import meta
from helix_assets.store.catalog.connection import Connection, Row, marks

LONGEST = timedelta(days=1)
_DOUBLINGS = 11
"""2 to this power of minutes is more than the longest pause."""
TRIED_WITH = "tried_with"
"""In `meta`: the code with which everything that failed was tried."""


@dataclass(frozen=True)
class FailedSession:
    """A session that failed, why, how often, and when it is tried again."""

    session_uid: str
    failure: str
    failures: int
    retry_at: str | None


@dataclass(frozen=True)
class Waiting:
    """What is not to be tried yet: sessions, and the files known to be theirs."""

    uids: frozenset[str] = frozenset()
    path_keys: frozenset[str] = frozenset()


def next_try(now: datetime, failures: int) -> str | None:
    """When it is tried again: after 2, 4, 8 ... minutes, at most a day."""
    pause = min(timedelta(minutes=2 ** min(failures, _DOUBLINGS)), LONGEST)
    return iso(microseconds(now + pause)) if failures else None


def is_waiting(session: Row | None, now: datetime) -> bool:
    """Whether a stored session failed and its pause is not over; the opposite of `is_due`."""
    if session is None or session.failure is None or session.evicted_at is not None or session.retry_at is None:
        return False
    return bool(iso(microseconds(now)) < session.retry_at <= iso(microseconds(now + LONGEST)))


def due(now: datetime) -> str:
    """The condition that a pause is over. One that ends in more than a day was set by a clock that ran ahead."""
    return f"(retry_at <= '{iso(microseconds(now))}' OR retry_at > '{iso(microseconds(now + LONGEST))}')"


def end_pauses(connection: Connection, uids: Sequence[str], now: datetime) -> None:
    """Let the next sweep try these sessions whatever their pause: they are about to be lost."""
    for table in ("sessions", "retries"):
        ends = f"UPDATE {table} SET retry_at = ? WHERE retry_at IS NOT NULL AND session_uid IN ({{}})"
        connection.run_for(ends, uids, (iso(microseconds(now)),))


def end_all_pauses(connection: Connection, code: str, now: datetime) -> None:
    """Let the next sweep try everything: what failed with other code may work with this."""
    for table in ("sessions", "retries"):
        connection.update(table, {"retry_at": iso(microseconds(now))}, "retry_at IS NOT NULL")
    meta.put(connection, TRIED_WITH, code)


def waiting(connection: Connection, now: datetime) -> Waiting:
    """What is not to be tried yet."""
    rows = connection.rows(f"SELECT session_uid, path_keys FROM retries WHERE NOT {due(now)}")
    return Waiting(frozenset(row[0] for row in rows), frozenset(key for row in rows for key in row[1]))


def failed_sessions(connection: Connection) -> list[FailedSession]:
    """All failed sessions, the newest first."""
    columns = "session_uid, failure, failures, retry_at"
    unread = f"SELECT {columns} FROM retries ORDER BY retry_at DESC"
    stored = f"""SELECT {columns} FROM sessions WHERE failure IS NOT NULL AND evicted_at IS NULL
        ORDER BY ingest_order DESC"""
    found = [FailedSession(*row) for query in (unread, stored) for row in connection.execute(query)]
    return list({one.session_uid: one for one in reversed(found)}.values())[::-1]


def failed_unread(connection: Connection, uid: str) -> bool:
    """Whether a session could not be read the last time."""
    return connection.value("SELECT 1 FROM retries WHERE session_uid = ?", (uid,)) is not None


def note_failure(
    connection: Connection, session_uid: str, *, path_keys: Collection[str], failure: str, now: datetime
) -> None:
    """Record that a session failed, or failed again. The pause doubles each time."""
    query = "SELECT failures, path_keys FROM retries WHERE session_uid = ?"
    before = connection.execute(query, (session_uid,)).fetchone()
    count, keys = (before.failures, before.path_keys) if before else (0, [])
    values = {
        "path_keys": sorted({*keys, *path_keys}),
        "failure": failure,
        "failures": count + 1,
        "retry_at": next_try(now, count + 1),
    }
    connection.upsert("retries", [{"session_uid": session_uid, **values}], ["session_uid"])


def clear(connection: Connection, uids: Iterable[str]) -> None:
    """Remove the failures of sessions that were brought up to date."""
    connection.run_for("DELETE FROM retries WHERE session_uid IN ({})", list(uids))


def drop(connection: Connection) -> None:
    """Remove all failures, so that everything is tried at once."""
    connection.execute("DELETE FROM retries")


def clear_rederivation(connection: Connection, session_uid: str) -> None:
    """An evicted session is not derived again. New lines in its files are tried all the same."""
    if connection.value("SELECT path_keys FROM retries WHERE session_uid = ?", (session_uid,)) == []:
        clear(connection, [session_uid])


def clear_gone(connection: Connection) -> None:
    """Remove failures of sessions whose files are all gone: nothing is left to try. The files count as lost unread."""
    for uid, keys in connection.rows("SELECT session_uid, path_keys FROM retries"):
        query = f"SELECT count(*) FROM sources WHERE status = 'gone' AND path_key IN ({marks(keys)})"
        if keys and connection.value(query, keys) == len(keys):
            clear(connection, [uid])
