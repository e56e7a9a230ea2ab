"""Clocks and file times that lie: nothing is evicted that the true clock would keep, and the order stays as it is."""

import os
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from helix_assets.keep import evict
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.prove.verify import verify
from helix_assets_tests.home import NOW, Memory, conversation

TEN_YEARS = timedelta(days=3650)
LIES = {"ten years behind": -TEN_YEARS, "ten years ahead": TEN_YEARS, "a day behind": -timedelta(days=1)}
MTIMES = {"now": None, "in 1970": 0, "in 2100": 4_102_444_800}


def work(memory: Memory, clock: list[datetime], mtime: float | None) -> None:
    """Take in a session per day of work, with the clock as it says."""
    for number, now in enumerate(clock):
        path = memory.write(f"s{number}", *conversation(2, session=f"s{number}-"))
        if mtime is not None:
            os.utime(path, (mtime, mtime))
        memory.now = now
        memory.sweep()
        evict.apply(memory.store, clock=lambda: memory.now)


def went(memory: Memory, now: datetime, policy: RetentionPolicy) -> list[str]:
    return [one.session_uid for one in evict.apply(memory.store, clock=lambda: now, policy=policy).gone]


@pytest.mark.parametrize("mtime", MTIMES.values(), ids=MTIMES)
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_lying_clock_evicts_nothing_by_age(tmp_path: Path, lie: timedelta, mtime: float | None) -> None:
    memory = Memory(tmp_path)
    days = [NOW + timedelta(days=day) for day in range(3)]
    work(memory, [*days, *(day + lie for day in days), days[-1] + timedelta(days=1)], mtime)
    assert len(list(memory.store.raw.names())) == 7
    assert verify(memory.store) == []
    memory.close()


@pytest.mark.parametrize("mtime", MTIMES.values(), ids=MTIMES)
@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
def test_lying_clock_leaves_the_order_of_eviction_as_it_is(tmp_path: Path, lie: timedelta, mtime: float | None) -> None:
    memory = Memory(tmp_path)
    work(memory, [NOW, NOW + lie, NOW + timedelta(days=1)], mtime)
    tight = RetentionPolicy(memory.raw_usage() // 3, 1 << 40, 45, 1 << 40)
    gone = went(memory, NOW + timedelta(days=1), tight)
    assert gone == sorted(gone) != []
    assert verify(memory.store) == []
    memory.close()
