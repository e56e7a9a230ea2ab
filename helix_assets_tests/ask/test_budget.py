"""How long the budget lasts follows from what sweeps and evictions recorded."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from helix_assets.ask.budget import Filled, Outlook, bytes_per_day, history, outlook, rate_of
from helix_assets.model.time import iso, microseconds
from helix_assets.store.catalog import losses, sweeps
from helix_assets.store.store import Store
from helix_assets_tests.home import Memory

NOW = datetime(2026, 3, 20, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    memory = Memory(tmp_path)
    yield memory.store
    memory.close()


def days_ago(days: float) -> str:
    return iso(microseconds(NOW - timedelta(days=days))) or ""


def note_sweep(store: Store, days: float, size: int, **more: Any) -> None:
    with store.catalog.writing() as connection:
        sweeps.put(
            connection, started_at=days_ago(days), ended_at=days_ago(days), seconds=1.0, counters={}, raw_bytes=size,
            soft_cap_bytes=more.get("soft", 1000), hard_cap_bytes=2000,
        )  # fmt: skip


def note_eviction(store: Store, days: float, size: int, left: int) -> None:
    with store.catalog.writing() as connection:
        losses.put_eviction(
            connection, at=days_ago(days), session_uid="claude:x", flavor="claude", day="2026-01-05", bytes=size,
            generation=1, reason="over_soft_cap", usage_after=left,
        )  # fmt: skip


def test_what_was_evicted_meanwhile_counts_as_taken_in(store: Store) -> None:
    note_sweep(store, 10, 500)
    note_sweep(store, 5, 900)
    note_eviction(store, 4, 400, 500)
    note_sweep(store, 0, 600)
    assert bytes_per_day(store, NOW) == pytest.approx((600 - 500 + 400) / 10)


def test_what_lies_longer_back_than_two_weeks_has_no_say(store: Store) -> None:
    note_sweep(store, 30, 0)
    note_sweep(store, 10, 5000)
    note_sweep(store, 0, 5100)
    assert bytes_per_day(store, NOW) == pytest.approx(10)


@pytest.mark.parametrize(("last", "grown"), [(0.5, 100), (5.0, 0), (5.0, -100)])
def test_no_rate_before_a_day_or_without_growth(last: float, grown: int) -> None:
    assert rate_of([Filled(days_ago(last), 100), Filled(days_ago(0), 100 + grown)], 0) is None


def test_outlook_counts_days_to_the_cap_and_days_it_holds() -> None:
    told = outlook(10.0, used_bytes=700, soft_cap_bytes=1000)
    assert told == Outlook(bytes_per_day=10, days_the_budget_holds=100.0, days_until_soft_cap=30.0)
    over = outlook(10.0, used_bytes=1200, soft_cap_bytes=1000)
    assert over is not None
    assert over.days_until_soft_cap == 0
    assert outlook(None, used_bytes=0, soft_cap_bytes=1000) is None


def test_history_has_sweeps_with_the_caps_of_then_and_evictions(store: Store) -> None:
    note_sweep(store, 3, 500, soft=800)
    note_eviction(store, 2, 50, 450)
    note_eviction(store, 2, 50, 400)
    note_sweep(store, 1, 450)
    assert [(point.bytes, point.soft_cap) for point in history(store)] == [(500, 800), (400, None), (450, 1000)]
