"""Following the agents' logs: small news is taken in within seconds, without a run.

In `helix up` a thread does it: it looks a moment after the watcher woke it and once a minute anyway, reports what
changed to Dagster every half minute, updates the tables of kaizen, and removes Dagster's old events. For what it leaves
it wants a run of the job `sweep`, which the sensor asks for. Where there is no such thread, the sensor's tick does the
same. Belongs here: when each of that is done. Not here: one look and one report (`defs.news`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg

from helix_assets.defs import kaizen
from helix_assets.defs.news import Taken, take_in, tell
from helix_assets.defs.record import Touched, is_recorded, state_of
from helix_assets.model.errors import RetryLater
from helix_assets.serve.dagster_private import has_run_of
from helix_assets.serve.old_events import evict_old_events
from helix_assets.settings import Settings, load_settings
from helix_assets.store.lock import holder, is_locked
from helix_assets.store.store import Store, open_store
from helix_assets.sweep.in_thread import LeftError
from helix_assets.sweep.look import scan
from helix_assets.sweep.warm import Warm

SWEEP = "sweep"
"""The job that takes in what is left."""
SETTLE_S = 0.4
"""How long to wait after a wake: what is written in one go is taken in together."""
EVERY_S, LOOK_S, TELL_S, KAIZEN_S, CLEAN_S = 5.0, 60.0, 30.0, 60.0, 3600.0
KAIZEN_SHARE = 0.01
"""Updating the tables may take so much of the time: they are made of all digests."""
RUNS_S, LONG_PAUSE_S, AT_ONCE_RUNS, HOUR_S = 60.0, 1200.0, 2, 3600.0
_LOST_RUN = timedelta(minutes=10)
"""A run that was created earlier and has not ended may be one whose processes were killed."""
_UNDER_WAY = [
    dg.DagsterRunStatus.NOT_STARTED,
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
]
_STOPS_WITHIN_S = 1.0
_LOST_AFTER_S = 300.0

is_expected = False
"""Set by the server's process before it loads the definitions: a thread of it will follow the logs."""
_log = logging.getLogger(__name__)
_current: Follower | None = None


def follow(instance: dg.DagsterInstance, woken: threading.Event, stop: threading.Event) -> None:
    """Follow the logs until `stop` is set. `woken` says that something was written."""
    global _current  # noqa: PLW0603 - a sensor of the same process asks whether it has to look itself
    follower = Follower(lambda: instance)
    _current = follower
    try:
        while not stop.is_set():
            if woken.wait(min(follower.pause_s(), _STOPS_WITHIN_S)):
                woken.clear()
                follower.wake()
            follower.work()
    finally:
        _current = None
        follower.close()


def current() -> Follower | None:
    """The follower of this process; None if there is none, or if it does not get on."""
    return _current if _current is not None and _current.is_alive() else None


class Follower:
    """What is to be done when. `clock` counts seconds; `instance` is asked for Dagster's instance when it is needed."""

    def __init__(
        self,
        instance: Callable[[], dg.DagsterInstance],
        settings: Callable[[], Settings] = load_settings,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.instance, self._settings, self._clock = instance, settings, clock
        self.said, self.left = "no news yet", ""
        self._store: Store | None = None
        self._warm = Warm()
        self._file: tuple[int, int] | None = None
        now = clock()
        self._look_at, self._tell_at, self._kaizen_at, self._clean_at = now, now, now + KAIZEN_S, now + CLEAN_S
        self._worked_at, self._beat, self._compare_at = now - EVERY_S, now, now + LOOK_S
        self._touched: Touched | None = None
        self._known = self._kaizen_of = ""
        self._asked: list[float] = []
        self._wanted: dg.RunRequest | None = None

    def wake(self) -> None:
        """Something was written: look soon."""
        self._look_at = min(self._look_at, max(self._clock() + SETTLE_S, self._worked_at + EVERY_S))

    def pause_s(self) -> float:
        """For how long there is nothing to do."""
        times = [self._look_at, self._kaizen_at, self._clean_at]
        times += [self._tell_at] if self._touched is not None else []
        return max(0.0, min(times) - self._clock())

    def is_alive(self) -> bool:
        """Whether it has worked lately."""
        return self._clock() - self._beat < _LOST_AFTER_S

    def wanted(self) -> dg.RunRequest | None:
        """The run that it wants, until there is one with its key: a tick that is only a preview creates none."""
        wanted = self._wanted
        if wanted and has_run_of(self.instance(), str(wanted.run_key)):
            wanted = self._wanted = None
        return wanted

    def work(self, *, at_once: bool = False) -> None:
        """Do what is due; `at_once` says that looking and reporting are."""
        now = self._beat = self._clock()
        self._try(self._look, is_due=at_once or self._look_at <= now)
        self._try(self._tell, is_due=self._touched is not None and (at_once or self._tell_at <= now))
        self._try(self._update_kaizen, is_due=self._kaizen_at <= now)
        self._try(self._clean, is_due=self._clean_at <= now)

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _try(self, step: Callable[[], None], *, is_due: bool) -> None:
        if not is_due:
            return
        try:
            step()
        except RetryLater as exc:  # another writer, or new redaction rules
            self.said = str(exc)
        except Exception as exc:  # noqa: BLE001 - the next time may go well
            # The error's text may be private.
            self.said = f"following the logs failed ({type(exc).__name__}); `helix doctor` may say why"
            _log.error(self.said)
            self._look_at = max(self._look_at, self._clock() + LOOK_S)

    def _look(self) -> None:
        self._look_at = self._clock() + LOOK_S
        store = self._opened()
        if is_locked(store.data_dir):
            self.said = f"the store is in use by {holder(store.data_dir)}"
            self._look_at = self._clock() + EVERY_S
            return
        self._look_at = self._clock() + EVERY_S  # for a writer that comes first
        taken = take_in(store, self._warm) if store.settings.up.in_process else self._left_all(store)
        self._worked_at = self._clock()
        self._look_at = self._worked_at + LOOK_S
        self.said = "no session log changed"
        is_compared = self._compare_at <= self._clock() and self._touched is None and taken.swept is None
        if (is_compared or taken.since != self._known) and not self._knows(store, taken.since):
            self._touched = Touched("")  # such as after a run for partitions, which hides the answers of the checks
        if is_compared:
            self._compare_at = self._clock() + LOOK_S
        if taken.swept is not None and taken.swept.touched:
            self.said = f"took in news of {len(taken.swept.touched)} sessions"
            self._touched = self._touched or Touched(taken.since)
            self._touched.partitions |= taken.swept.partitions
        self._known = state_of(store)
        self.left = taken.left or ""
        if taken.left:
            self._want_run(taken.left)

    def _left_all(self, store: Store) -> Taken:
        """By the settings all news is for a run, also what Dagster does not know of."""
        state, changes = state_of(store), scan(store).changes
        is_news = bool(changes) or (state != self._known and not is_recorded(self.instance(), store))
        return Taken(state, left="all news is left to runs" if is_news else None)

    def _knows(self, store: Store, state: str) -> bool:
        """Whether Dagster knows of a state that this object did not make: that of another process, or at the start."""
        if not store.settings.up.in_process:
            return True  # runs report what they did
        return self._touched is None and state == state_of(store) and is_recorded(self.instance(), store)

    def _tell(self) -> None:
        self._tell_at = self._clock() + TELL_S
        store, touched = self._opened(), self._touched
        if touched is None:
            return
        try:
            tell(self.instance(), store, touched)
            self._touched = None
        except LeftError as exc:
            self._touched, self._known = None, ""  # the run will report it; the next look asks whether it did
            self._want_run(str(exc))

    def _update_kaizen(self) -> None:
        self._kaizen_at = self._clock() + KAIZEN_S
        store = self._opened()
        if not store.settings.up.in_process or (state := state_of(store)) == self._kaizen_of:
            return
        begin = time.perf_counter()
        for event in kaizen.updated(self.instance(), store):
            self.instance().report_runless_asset_event(event)
        self._kaizen_of = state
        self._kaizen_at = self._clock() + max(KAIZEN_S, (time.perf_counter() - begin) / KAIZEN_SHARE)

    def _clean(self) -> None:
        self._clean_at = self._clock() + CLEAN_S
        evict_old_events(self.instance())

    def _want_run(self, reason: str) -> None:
        """Want a run while none is under way: two a minute apart, then one every twenty minutes.

        So an hour has at most four of them, and with those of the automation six. Without small news in this process
        there is no pause.
        """
        now = self._clock()
        self._asked = [at for at in self._asked if now - at < HOUR_S]
        pause = RUNS_S if len(self._asked) < AT_ONCE_RUNS else LONG_PAUSE_S
        if self._asked and now - self._asked[-1] < pause and self._opened().settings.up.in_process:
            self.said = f"{reason}: a run was asked for, another may be in {pause + self._asked[-1] - now:.0f} s"
            return
        recent = dg.RunsFilter(job_name=SWEEP, statuses=_UNDER_WAY, created_after=datetime.now(UTC) - _LOST_RUN)
        if self.instance().get_runs_count(recent):
            self.said = f"{reason}: a run is under way"
            return
        self._asked.append(now)
        self.said = f"{reason}: a run is asked for"
        # With spaces: Dagster stores it under a name that ends in "key", where a long word would look like a secret.
        self._wanted = dg.RunRequest(run_key=f"sweep of {time.time_ns() // 10**6}", tags={"helix/reason": reason})

    def _opened(self) -> Store:
        """The store, opened again if the settings or the catalog's file are others than before.

        It is made only at first: a folder that was deleted or moved since must not come back.
        """
        settings = self._settings()
        store = self._store
        if store is None or self._file != _identity(settings.catalog_path) or store.settings != settings:
            self.close()
            store = self._store = open_store(settings)
            self._warm = Warm()
            self._file = _identity(settings.catalog_path)
        return store


def _identity(place: Path) -> tuple[int, int]:
    info = place.stat()
    return info.st_dev, info.st_ino
