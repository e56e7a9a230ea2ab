"""Deriving chosen sessions again, from the records that are stored of them. No log is read for it.

Belongs here: which of the wanted sessions are derived, and what became of each. Not here: how a session is derived
(`sweep.rounds`), or what a sweep derives again on its own (`sweep.stale`).
"""

from __future__ import annotations

from dataclasses import dataclass

from helix_assets.ask.coverage import versions
from helix_assets.store.catalog import sessions
from helix_assets.store.catalog.connection import Row
from helix_assets.store.catalog.retries import FailedSession, failed_sessions
from helix_assets.store.catalog.sessions import Wanted
from helix_assets.store.store import Store
from helix_assets.sweep.found_files import Clock
from helix_assets.sweep.sweep import Again, sweep, utc_now
from helix_assets.sweep.sweep_report import Progress, SweepReport


@dataclass(frozen=True)
class Rederived:
    """What became of the sessions wanted: each is counted once. Evicted and failed ones keep their digest.

    `rows` counts the stored rows that were read for it.
    """

    derived: tuple[str, ...] = ()
    up_to_date: int = 0
    evicted: int = 0
    failed: tuple[FailedSession, ...] = ()
    rows: int = 0
    seconds: float = 0.0


def rederive(
    store: Store,
    wanted: Wanted,
    *,
    force: bool = False,
    clock: Clock = utc_now,
    progress: Progress | None = None,
) -> Rederived:
    """Derive sessions again that older rules made; with `force` all that are wanted, from their first record on.

    A session that failed is tried at once. Evicted ones keep their digest.
    """
    found = _found(store, wanted)
    tried = [row.session_uid for row in found if not row.is_evicted and (force or row.is_outdated)]
    report = sweep(store, clock=clock, progress=progress, again=Again(tried, reparse=force))
    return _outcome(store, _found(store, wanted), set(tried), report)


def _found(store: Store, wanted: Wanted) -> list[Row]:
    with store.catalog.reading() as connection:
        return sessions.to_derive(connection, wanted, versions())


def _outcome(store: Store, found: list[Row], tried: set[str], report: SweepReport) -> Rederived:
    with store.catalog.reading() as connection:
        failures = {one.session_uid: one for one in failed_sessions(connection)}
    derived, failed, up_to_date, evicted = [], [], 0, 0
    for row in found:
        uid = row.session_uid
        if row.is_evicted:
            evicted += 1
        elif uid in tried and uid in failures:
            failed.append(failures[uid])
        elif uid in report.touched:
            derived.append(uid)
        elif uid not in tried:
            up_to_date += 1
        elif row.is_lightened:  # not all that its digest counts can be read
            evicted += 1
        else:
            failed.append(FailedSession(uid, "it could not be stored", 0, None))
    seconds = round(report.seconds, 3)
    return Rederived(tuple(derived), up_to_date, evicted, tuple(failed), report.rows_rederived, seconds)
