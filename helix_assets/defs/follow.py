"""The thread of `helix up` that follows the agents' logs: it takes in small news within seconds, without a run.

It looks a moment after the watcher woke it and once a minute anyway, reports what changed to Dagster every half minute,
updates the tables of kaizen, and removes Dagster's old events. For what it leaves it asks for a run of the job `sweep`.
Belongs here: when each of that is done. Not here: one look and one report (`defs.news`).
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable

import dagster as dg

from helix_assets.defs import kaizen
from helix_assets.defs.news import take_in, tell
from helix_assets.defs.record import Touched, is_recorded, state_of
from helix_assets.model.errors import RetryLater
from helix_assets.serve.old_events import evict_old_events
from helix_assets.settings import load_settings
from helix_assets.store.catalog.catalog import CATALOG
from helix_assets.store.lock import is_locked
from helix_assets.store.store import Store, open_store
from helix_assets.sweep.in_thread import LeftError

SETTLE_S = 0.4
"""How long to wait after a wake: what is written in one go is taken in together."""
EVERY_S, LOOK_S, TELL_S, KAIZEN_S, CLEAN_S = 5.0, 60.0, 30.0, 60.0, 3600.0
KAIZEN_SHARE = 0.01
"""Updating the tables may take so much of the time: they are made of all digests."""
RUNS_S, LONGEST_PAUSE_S = 60.0, 900.0
_STOPS_WITHIN_S = 1.0
_LOST_AFTER_S = 300.0

_log = logging.getLogger(__name__)
_current: Follower | None = None


def follow(instance: dg.DagsterInstance, woken: threading.Event, stop: threading.Event) -> None:
    """Follow the logs until `stop` is set. `woken` says that something was written."""
    global _current  # noqa: PLW0603 - a sensor of the same process asks whether it has to look itself
    follower = Follower(instance)
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
    """What is to be done when. `clock` counts seconds."""

    def __init__(self, instance: dg.DagsterInstance, clock: Callable[[], float] = time.monotonic) -> None:
        self._instance, self._clock = instance, clock
        self._store: Store | None = None
        self._file: tuple[int, int] | None = None
        now = clock()
        self._look_at, self._tell_at, self._kaizen_at = now, now, now + KAIZEN_S
        self._clean_at = now + CLEAN_S
        self._worked_at, self._beat = now - EVERY_S, now
        self._touched: Touched | None = None
        self._known = self._kaizen_of = ""
        self._asked: list[float] = []
        self._wanted: str | None = None

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

    def take_wanted(self) -> str | None:
        """The name of the run that it wants and has not got yet, given once."""
        wanted, self._wanted = self._wanted, None
        return wanted

    def work(self) -> None:
        """Do what is due."""
        now = self._beat = self._clock()
        for at, step in (
            (self._look_at, self._look),
            (self._tell_at if self._touched is not None else now + 1, self._tell),
            (self._kaizen_at, self._update_kaizen),
            (self._clean_at, self._clean),
        ):
            if at <= now:
                try:
                    step()
                except RetryLater:  # another writer, or new redaction rules: next time
                    pass
                except Exception as exc:  # noqa: BLE001 - the next look may go well; its text may be private
                    _log.error("following the logs failed (%s); `helix doctor` may say why", type(exc).__name__)
                    self._look_at = max(self._look_at, now + LOOK_S)

    def close(self) -> None:
        """Close the store."""
        if self._store is not None:
            self._store.close()
            self._store = None

    def _look(self) -> None:
        self._look_at = self._clock() + LOOK_S
        store = self._opened()
        if not store.settings.up.in_process:
            return
        if is_locked(store.data_dir):
            self._look_at = self._clock() + EVERY_S
            return
        self._look_at = self._clock() + EVERY_S  # if it fails as another writer came first
        taken = take_in(store)
        self._worked_at = self._clock()
        self._look_at = self._worked_at + LOOK_S
        if taken.since != self._known and not self._knows(store, taken.since):
            self._touched = Touched("")
        if taken.swept is not None and taken.swept.touched:
            self._touched = self._touched or Touched(taken.since)
            self._touched.partitions |= taken.swept.partitions
        self._known = state_of(store)
        if taken.left:
            self._want_run()

    def _knows(self, store: Store, state: str) -> bool:
        """Whether Dagster knows of a state that this thread did not make: that of another process, or at the start."""
        return self._touched is None and state == state_of(store) and is_recorded(self._instance, store)

    def _tell(self) -> None:
        store, touched = self._opened(), self._touched
        if touched is None:
            return
        self._tell_at = self._clock() + TELL_S
        try:
            tell(self._instance, store, touched)
            self._touched = None
        except LeftError:
            self._touched, self._known = None, ""  # the run will report it; the next look asks whether it did
            self._want_run()

    def _update_kaizen(self) -> None:
        store = self._opened()
        self._kaizen_at = self._clock() + KAIZEN_S
        if not store.settings.up.in_process or (state := state_of(store)) == self._kaizen_of:
            return
        begin = time.perf_counter()
        for event in list(kaizen.updated(store)):
            self._instance.report_runless_asset_event(event)
        self._kaizen_of = state
        self._kaizen_at = self._clock() + max(KAIZEN_S, (time.perf_counter() - begin) / KAIZEN_SHARE)

    def _clean(self) -> None:
        self._clean_at = self._clock() + CLEAN_S
        evict_old_events(self._instance)

    def _want_run(self) -> None:
        """Ask for a run, after a pause that doubles with each run of the last hour."""
        now = self._clock()
        self._asked = [at for at in self._asked if now - at < CLEAN_S]
        pause = min(RUNS_S * 2 ** (len(self._asked) - 1), LONGEST_PAUSE_S)
        if not self._asked or now - self._asked[-1] >= pause:
            self._asked.append(now)
            self._wanted = f"sweep of large news {time.time_ns() // 1_000_000_000}"

    def _opened(self) -> Store:
        """The store, opened again if the settings or the catalog's file are others than before."""
        settings = load_settings()
        info = os.stat(settings.data_dir / CATALOG)
        file = info.st_dev, info.st_ino
        if self._store is None or self._store.settings != settings or self._file != file:
            self.close()
            self._store, self._file = open_store(settings), file
        return self._store
