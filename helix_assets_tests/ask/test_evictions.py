"""What went is reported by day and in all, without the names of sessions."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pytest

from helix_assets.ask.evictions import Evicted, Loss, gone_on, losses_after
from helix_assets.store.catalog import losses
from helix_assets.store.store import Store
from helix_assets_tests.home import Memory

FIRST, SECOND = date(2026, 1, 5), date(2026, 1, 6)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Two sessions evicted on the first day, one on the second; on each day one lost."""
    memory = Memory(tmp_path)
    with memory.store.catalog.writing() as connection:
        for at, uid in ((FIRST, "x"), (FIRST, "y"), (SECOND, "z")):
            losses.put_eviction(
                connection, at=f"{at}T10:00:00.000Z", session_uid=f"claude:{uid}", flavor="claude", day="2026-01-01",
                bytes=10, generation=1, reason="over_soft_cap", usage_after=5,
            )  # fmt: skip
        for at, size in ((FIRST, 7), (SECOND, 8)):
            losses.put_loss(
                connection, at=f"{at}T10:00:00.000Z", session_uid="claude:lost", flavor="claude", day="2026-01-02",
                bytes=size, records=1, generation=size, reason="overflow",
            )  # fmt: skip
    yield memory.store
    memory.close()


def test_what_went_on_a_day_and_in_all(store: Store) -> None:
    gone = gone_on(store, FIRST, 9)
    assert gone.evicted == (Evicted("claude", "2026-01-01", "over_soft_cap", sessions=2, bytes=20),)
    assert (gone.sessions_evicted_ever, gone.sessions_lost, gone.sessions_lost_ever) == (3, 1, 2)
    assert gone.bytes_lost_ever == 15


def test_the_newest_losses_come_first_and_name_no_session(store: Store) -> None:
    (newest,) = gone_on(store, FIRST, 1).newest_losses
    assert newest == Loss(2, "2026-01-06T10:00:00.000Z", "claude", "2026-01-02", 8, 1, "overflow")


def test_losses_after_a_known_one_are_in_order(store: Store) -> None:
    assert [loss.bytes for loss in losses_after(store, 0)] == [7, 8]
    assert [loss.bytes for loss in losses_after(store, 1)] == [8]
    assert losses_after(store, 2) == ()
