"""Failed sessions: which could not be analysed, why, and when each is tried again.

Belongs here: their record in the catalog, and the back-off. A session whose digest failed is stored all the same, with
the reason in its own row. One that could not even be read has a row in the table `retries`. Neither counts as covered,
so neither is evicted. Not here: how sessions fail (`sweep.workers`, `sweep.read`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, delete, or_, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from helix_assets.model.time import iso, microseconds
from helix_assets.store.catalog.catalog import Catalog
from helix_assets.store.catalog.schema import retries, sessions, sources

LONGEST = timedelta(days=1)
_DOUBLINGS = 11
"""2 to this power of minutes is more than the longest pause."""
_MANY = 5_000
_TRIED_WITH = "tried_with"


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


def is_waiting(session: Row[Any] | None, now: datetime) -> bool:
    """Whether a stored session failed and its pause is not over; the opposite of `is_due`."""
    if session is None or session.failure is None or session.evicted_at is not None or session.retry_at is None:
        return False
    return bool(iso(microseconds(now)) < session.retry_at <= iso(microseconds(now + LONGEST)))


def is_due(retry_at: ColumnElement[str | None], now: datetime) -> ColumnElement[bool]:
    """Whether the pause is over. One that ends in more than a day was set by a clock that ran ahead."""
    return or_(retry_at <= iso(microseconds(now)), retry_at > iso(microseconds(now + LONGEST)))


def end_pauses(connection: Connection, uids: Sequence[str], now: datetime) -> None:
    """Let the next sweep try these sessions whatever their pause: they are about to be lost."""
    for start in range(0, len(uids), _MANY):
        some = uids[start : start + _MANY]
        for table in (sessions, retries):
            waits = table.c.session_uid.in_(some) & table.c.retry_at.is_not(None)
            connection.execute(update(table).where(waits).values(_due(now)))


def try_all_with_new_code(catalog: Catalog, code: str, now: datetime) -> None:
    """End every pause if the code has changed since the last sweep: what failed with the old code may work now."""
    if catalog.meta_value(_TRIED_WITH) != code:
        with catalog.writing() as connection:
            for table in (sessions, retries):
                connection.execute(update(table).where(table.c.retry_at.is_not(None)).values(_due(now)))
            catalog.set_meta(connection, _TRIED_WITH, code)


def _due(now: datetime) -> dict[str, str | None]:
    return {"retry_at": iso(microseconds(now))}


def waiting(catalog: Catalog, now: datetime) -> Waiting:
    """What is not to be tried yet."""
    r = retries.c
    with catalog.reading() as connection:
        rows = connection.execute(select(r.session_uid, r.path_keys).where(~is_due(r.retry_at, now))).all()
    return Waiting(frozenset(row[0] for row in rows), frozenset(key for row in rows for key in row[1]))


def failed_sessions(connection: Connection) -> list[FailedSession]:
    """All failed sessions, the newest first."""
    s, r = sessions.c, retries.c
    stored = select(s.session_uid, s.failure, s.failures, s.retry_at)
    stored = stored.where(s.failure.is_not(None), s.evicted_at.is_(None)).order_by(s.ingest_order.desc())
    unread = select(r.session_uid, r.failure, r.failures, r.retry_at).order_by(r.retry_at.desc())
    found = [FailedSession(*row) for query in (unread, stored) for row in connection.execute(query)]
    return list({one.session_uid: one for one in reversed(found)}.values())[::-1]


def note_failure(
    connection: Connection, session_uid: str, *, path_keys: Collection[str], failure: str, now: datetime
) -> None:
    """Record that a session failed, or failed again. The pause doubles each time."""
    before = connection.execute(
        select(retries.c.failures, retries.c.path_keys).where(retries.c.session_uid == session_uid)
    ).one_or_none()
    count, keys = (before.failures, before.path_keys) if before else (0, [])
    values = {
        "path_keys": sorted({*keys, *path_keys}),
        "failure": failure,
        "failures": count + 1,
        "retry_at": next_try(now, count + 1),
    }
    row = upsert(retries).values(session_uid=session_uid, **values)
    connection.execute(row.on_conflict_do_update(index_elements=["session_uid"], set_=values))


def clear(connection: Connection, uids: Iterable[str]) -> None:
    """Remove the failures of sessions that were brought up to date."""
    names: Sequence[str] = list(uids)
    for start in range(0, len(names), _MANY):
        connection.execute(delete(retries).where(retries.c.session_uid.in_(names[start : start + _MANY])))


def clear_rederivation(connection: Connection, session_uid: str) -> None:
    """An evicted session is not derived again. New lines in its files are tried all the same."""
    held = connection.execute(select(retries.c.path_keys).where(retries.c.session_uid == session_uid)).scalar()
    if held == []:
        clear(connection, [session_uid])


def clear_gone(connection: Connection) -> None:
    """Remove failures of sessions whose files are all gone: nothing is left to try. The files count as lost unread."""
    held = connection.execute(select(retries.c.session_uid, retries.c.path_keys)).all()
    gone = sources.c.status == "gone"
    for uid, keys in held:
        left = select(sources.c.path_key).where(sources.c.path_key.in_(keys), gone)
        if keys and len(connection.execute(left).all()) == len(keys):
            clear(connection, [uid])
