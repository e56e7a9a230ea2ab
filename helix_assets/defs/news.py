"""News of the agents' logs outside of any run: looking, taking in what is small, and reporting it to Dagster.

The server's own thread does it (`defs.follow`), and the sensor's tick where there is no such thread. What is left needs
a run of the job `sweep`. Belongs here: one look and one report. Not here: what small news is (`sweep.in_thread`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import dagster as dg

from helix_assets.defs.checks import evaluations_without_a_run
from helix_assets.defs.record import Touched, report, state_of, was_ever_recorded
from helix_assets.store.store import Store
from helix_assets.sweep.in_thread import LeftError, look
from helix_assets.sweep.sweep import sweep, utc_now
from helix_assets.sweep.sweep_report import SweepReport
from helix_assets.sweep.warm import Warm


@dataclass(frozen=True)
class Taken:
    """What came of a look: the sweep, if there was small news, and why a run is needed for the rest."""

    since: str
    swept: SweepReport | None = None
    left: str | None = None

    @property
    def touched(self) -> Touched:
        """What is to be reported to Dagster."""
        return Touched(self.since, self.swept.partitions if self.swept else set())


def take_in(store: Store, warm: Warm | None = None) -> Taken:
    """Look, and take in small news. BusyError if another writer holds the store."""
    since = state_of(store)
    try:
        news = look(store, utc_now())
        if not news:
            return Taken(since)
        swept = sweep(store, warm=warm, small=news)
    except LeftError as exc:
        return Taken(since, left=str(exc))
    return Taken(since, swept, "; ".join(sorted(set(news.left.values()))) or None)


def tell(instance: dg.DagsterInstance, store: Store, touched: Touched) -> int:
    """Report to Dagster what was touched, and the answers of the checks, without a run. Returns how many partitions.

    LeftError if it is a lot, or if Dagster knows of nothing yet: a run also shows the other assets.
    """
    if not was_ever_recorded(instance):
        raise LeftError("Dagster knows of nothing in the memory yet")
    sent = report(instance, store, touched)
    for answer in evaluations_without_a_run(instance, store, time.time()):
        instance.report_runless_asset_event(answer)
    return sent


def take_in_small_news(instance: dg.DagsterInstance, store: Store, warm: Warm | None = None) -> Taken:
    """Look, take in small news, and report it at once, with what Dagster missed before."""
    taken = take_in(store, warm)
    if taken.left is None or taken.swept is not None:
        try:
            tell(instance, store, taken.touched)
        except LeftError as exc:
            return Taken(taken.since, taken.swept, taken.left or str(exc))
    return taken
