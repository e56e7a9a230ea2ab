"""Who owns history that several sessions tell stays settled whatever else turns up."""

from dataclasses import replace
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from helix_assets.derive.digest_builder import DigestBuilder
from helix_assets.keep import evict
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.prove.verify import verify
from helix_assets.store.catalog import retries
from helix_assets.sweep import workers
from helix_assets.sweep.sweep import sweep
from helix_assets.sweep.task import IngestTask
from helix_assets_tests.home import Memory, conversation


@pytest.mark.parametrize("is_told_by", [1, 2])
def test_a_later_copy_of_a_part_changes_nothing_for_one_of_more(tmp_path: Path, is_told_by: int) -> None:
    """`first` owns three turns, `second` copied all of them, `third` some: `second` must not get the rest for that."""
    memory = Memory(tmp_path)
    memory.write("first", *conversation(3))
    memory.sweep()
    memory.write("second", *conversation(3), *conversation(1, start=20, session="b"))
    memory.sweep()
    before = memory.digest("claude:second")
    memory.write("third", *conversation(is_told_by), *conversation(1, start=30, session="c"))
    memory.sweep()
    prompts = [memory.digest(f"claude:{name}")["user_prompts"] for name in ("first", "second", "third")]
    assert prompts == [3, 1, 1]
    assert memory.digest("claude:second")["tokens"] == before["tokens"]
    assert verify(memory.store) == []
    memory.close()


def test_a_remade_copy_counts_what_the_others_own_no_more(tmp_path: Path) -> None:
    """An owner that turns up late takes two turns from both; what `second` shares with `first` alone stays as it is."""
    memory = Memory(tmp_path)
    late, told = conversation(2, start=10, session="l"), conversation(2, start=20)
    memory.write("first", *told)
    memory.sweep()
    memory.write("second", *late, *told, *conversation(1, start=40, session="s"))
    memory.sweep()
    memory.write("early", *conversation(1, start=5, session="e"), *late)
    memory.sweep()
    prompts = [memory.digest(f"claude:{name}")["user_prompts"] for name in ("early", "first", "second")]
    assert sum(prompts) == 6
    assert verify(memory.store) == []
    memory.close()


def test_what_an_evicted_copy_counts_stays_counted_there_once_its_log_is_gone(tmp_path: Path) -> None:
    """`copy` was swept before its owner told the same; evicted and cut, it can be counted down no more."""
    memory = Memory(tmp_path)
    told = conversation(3, start=10)
    memory.write("owner", *conversation(1, start=0, session="o"))
    memory.write("copy", *told)
    memory.sweep()
    policy = RetentionPolicy(1, 1 << 40, 45, 1 << 40)
    evict.apply(memory.store, clock=lambda: memory.now, policy=policy)
    memory.write("copy", *conversation(1, start=50, session="c"))
    memory.write("owner", *told, append=True)
    memory.sweep()
    prompts = [memory.digest(f"claude:{name}")["user_prompts"] for name in ("owner", "copy")]
    assert sum(prompts) == 5
    assert verify(memory.store) == []
    memory.close()


def test_session_that_cannot_give_up_its_share_now_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its records would count there and with their new owner, too, until it can be written anew."""
    ingested, memory = workers._ingested, Memory(tmp_path)

    def failing(shop: Any, task: IngestTask) -> Any:
        return workers.TooMuchError("too long") if task.session_uid == "claude:first" else ingested(shop, task)

    memory.write("first", *conversation(3, start=10))
    memory.sweep()
    monkeypatch.setattr(workers, "_ingested", failing)
    memory.write("early", *conversation(1, start=5, session="e"), *conversation(2, start=10))
    memory.sweep()
    assert verify(memory.store) == []
    assert [memory.digest(f"claude:{name}")["user_prompts"] for name in ("early", "first")] == [1, 3]
    monkeypatch.undo()
    memory.now += timedelta(days=2)
    memory.sweep()
    assert [memory.digest(f"claude:{name}")["user_prompts"] for name in ("early", "first")] == [3, 1]
    memory.close()


@pytest.mark.parametrize("is_lost", [True, False])
def test_session_whose_digest_fails_as_it_gives_up_its_share_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_lost: bool
) -> None:
    """Else what its digest counts would count with the new owner, too: for good where its rows go before it is made."""
    ingested, memory = workers._ingested, Memory(tmp_path)

    def failing(shop: Any, task: IngestTask) -> Any:
        is_it = task.session_uid == "claude:first"
        return ingested(shop, replace(task, no_digest_because="it fails") if is_it else task)

    def prompts() -> list[int]:
        return [memory.digest(f"claude:{name}")["user_prompts"] for name in ("early", "first")]

    memory.write("first", *conversation(3, start=10))
    memory.sweep()
    monkeypatch.setattr(workers, "_ingested", failing)
    memory.write("first", *conversation(1, start=50, session="f"), append=True)
    memory.write("early", *conversation(1, start=5, session="e"), *conversation(2, start=10))
    memory.sweep()
    if is_lost:
        evict.apply(memory.store, clock=lambda: memory.now, policy=RetentionPolicy(1, 1, 45, 1 << 40))
    assert prompts() == [1, 3]
    monkeypatch.undo()
    memory.now += timedelta(days=2)
    memory.write("early", *conversation(1, start=60, session="e"), append=True)
    memory.write("first", *conversation(1, start=70, session="f"), append=True)
    memory.sweep()
    assert sum(prompts()) == 7
    assert verify(memory.store) == []
    memory.close()


@pytest.mark.parametrize("is_evicted", [True, False])
def test_records_do_not_go_to_a_session_that_can_count_no_more(tmp_path: Path, is_evicted: bool) -> None:
    """`copy` stops first once `owner` has grown; without a log it cannot be written anew with them."""
    memory = Memory(tmp_path)
    told = conversation(2)
    memory.write("owner", *told)
    memory.write("copy", *told, *conversation(1, start=30, session="c"))
    memory.sweep()
    if is_evicted:
        evict.apply(memory.store, clock=lambda: memory.now, policy=RetentionPolicy(1, 1 << 40, 45, 1 << 40))
    memory.path("copy").unlink()
    memory.write("owner", *conversation(1, start=50, session="o"), append=True)
    memory.sweep()
    assert [memory.digest(f"claude:{name}")["user_prompts"] for name in ("owner", "copy")] == [3, 1]
    assert verify(memory.store) == []
    memory.close()


def test_copy_that_was_cut_gets_nothing_that_it_tells_no_more(tmp_path: Path) -> None:
    """`copy` comes to be the one that started first when its log holds the copied turns no more."""
    memory = Memory(tmp_path)
    told = conversation(3, start=10)
    memory.write("first", *told)
    memory.write("copy", *told, *conversation(1, start=30, session="c"))
    memory.sweep()
    memory.write("copy", *conversation(1, start=30, session="c"))
    memory.sweep()
    memory.write("copy", *conversation(1, start=5, session="c"), append=True)
    memory.sweep()
    assert [memory.digest(f"claude:{name}")["user_prompts"] for name in ("first", "copy")] == [3, 2]
    assert verify(memory.store) == []
    memory.close()


def test_excluded_copy_gains_nothing(tmp_path: Path) -> None:
    """`copy` stops first once `owner` has grown, but may not be read."""
    memory = Memory(tmp_path)
    told = conversation(2)
    memory.write("owner", *told)
    memory.write("copy", *told, *conversation(1, start=30, session="c"), project="-home-u-left-out")
    memory.sweep()
    memory.close()
    memory = Memory(tmp_path, {"HELIX_EXCLUDE_PATHS": str(memory.projects / "-home-u-left-out")})
    memory.write("owner", *conversation(1, start=50, session="o"), append=True)
    memory.sweep()
    assert [memory.digest(f"claude:{name}")["user_prompts"] for name in ("owner", "copy")] == [3, 1]
    assert verify(memory.store) == []
    memory.close()
    memory = Memory(tmp_path)
    memory.sweep()  # now it may
    assert [memory.digest(f"claude:{name}")["user_prompts"] for name in ("owner", "copy")] == [1, 3]
    memory.close()


def test_excluded_session_gives_up_records_and_is_not_read_for_it(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    told = conversation(3, start=10)
    log = memory.write("first", *told, project="-home-u-left-out")
    memory.sweep()
    memory.close()
    memory = Memory(tmp_path, {"HELIX_EXCLUDE_PATHS": str(memory.projects / "-home-u-left-out")})
    with log.open("ab") as file:
        file.write(b"".join(conversation(1, start=40, session="f")))
    memory.write("early", *conversation(1, start=5, session="e"), *told[:4])
    memory.sweep()
    assert [memory.digest(f"claude:{name}")["user_prompts"] for name in ("early", "first")] == [2, 2]
    assert verify(memory.store) == []
    memory.close()


def test_what_a_remade_session_has_gained_counts_once_too(tmp_path: Path) -> None:
    """`first` has grown by what `other` tells, and is read to its end although the sweep was not to look at it."""
    memory = Memory(tmp_path)
    told, others = conversation(3, start=10), conversation(2, start=20, session="o")
    memory.write("first", *told)
    memory.write("other", *others)
    memory.sweep()
    memory.write("first", *others, append=True)
    memory.write("early", *conversation(1, start=5, session="e"), *told[:4])
    sweep(memory.store, clock=lambda: memory.now, only=[("claude", "2026-01-01")])
    memory.sweep()
    prompts = [memory.digest(f"claude:{name}")["user_prompts"] for name in ("early", "first", "other")]
    assert prompts == [2, 4, 0]
    assert verify(memory.store) == []
    memory.close()


def test_copy_with_nothing_of_its_own_is_tried_again_when_its_digest_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is stored of it that could be derived later: it has to be read again."""
    memory = Memory(tmp_path)
    memory.write("first", *conversation(3))
    memory.sweep()
    memory.write("copy", *conversation(2, start=1))
    with monkeypatch.context() as failing:
        failing.setattr(DigestBuilder, "finish", Mock(side_effect=ValueError))
        memory.sweep()
    memory.now += timedelta(days=2)
    memory.sweep()
    with memory.store.catalog.reading() as connection:
        assert retries.failed_sessions(connection) == []
    assert memory.digest("claude:copy")["user_prompts"] == 0
    memory.close()


def test_what_was_given_up_to_a_new_session_that_failed_then_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory, ingested = Memory(tmp_path), workers._ingested
    told, tries = conversation(3, start=10), count()

    def failing(shop: Any, task: IngestTask) -> Any:
        is_it = task.session_uid == "claude:early" and next(tries) > 0
        return workers.TooMuchError("too long") if is_it else ingested(shop, task)

    memory.write("earliest", *conversation(1, start=1, session="x"))
    memory.write("first", *told)
    memory.sweep()
    monkeypatch.setattr(workers, "_ingested", failing)
    # of two turns that it tells the earliest owns one, so that it is written anew at once
    memory.write("early", *conversation(1, start=1, session="x"), *conversation(1, start=5, session="e"), *told[:4])
    memory.sweep()
    prompts = [memory.digest(f"claude:{name}")["user_prompts"] for name in ("earliest", "first")]
    assert prompts == [1, 3]
    assert verify(memory.store) == []
    memory.close()


def test_what_a_rewritten_log_gave_up_and_holds_no_more_stays_with_the_session_that_has_it(tmp_path: Path) -> None:
    """`first` owns what `copy` copied, is rewritten without it, and then `copy` is: nobody else could give it back."""
    memory, told = Memory(tmp_path), conversation(5)
    memory.write("first", *told[:10])
    memory.write("copy", *told[:12])
    memory.sweep()
    memory.write("first", *told[10:13])
    memory.sweep()
    memory.write("copy", *told[:4], *told[12:])
    memory.sweep()
    memory.sweep()
    assert sum(memory.digest(f"claude:{name}")["record_count"] for name in ("first", "copy")) == len(told)
    assert verify(memory.store) == []
    memory.close()
