"""A session whose analysis fails is set aside alone, told, retried ever more seldom, and not evicted meanwhile."""

import errno
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from helix_assets.ask.status import read_status
from helix_assets.derive.digest_builder import DigestBuilder
from helix_assets.keep import evict
from helix_assets.keep.evict import plan
from helix_assets.keep.forget import forget
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.prove.promises import every_session_is_derived
from helix_assets.prove.vanishing import vanishing
from helix_assets.prove.verify import verify
from helix_assets.settings import load_settings
from helix_assets.store.catalog import retries
from helix_assets.store.store import open_store
from helix_assets.sweep import workers
from helix_assets.sweep.look import scan
from helix_assets.sweep.task import IngestTask
from helix_assets.sweep.workers import TooMuchError
from helix_assets_tests.home import NOW, Memory, conversation, prompt

BAD = "claude:bad"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path)
    memory.write("good", *conversation(2, session="g"))
    memory.write("bad", *conversation(2))
    yield memory
    memory.close()


@pytest.fixture
def trouble(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], list[str]]:
    """Switches on and off that the session `bad` cannot be ingested; gives the tries since it was switched on."""
    ingested, tries = workers._ingested, list[str]()

    def failing(shop: Any, task: IngestTask) -> Any:
        if task.session_uid == BAD:
            tries.append(task.session_uid)
            return TooMuchError("it took longer than 1 s")
        return ingested(shop, task)

    def switch(on: bool) -> list[str]:
        tries.clear()
        monkeypatch.setattr(workers, "_ingested", failing if on else ingested)
        return tries

    return switch


def later(memory: Memory, minutes: float) -> None:
    memory.now += timedelta(minutes=minutes)


def aside(memory: Memory) -> list[retries.FailedSession]:
    with memory.store.catalog.reading() as connection:
        return retries.failed_sessions(connection)


def test_others_are_taken_in(memory: Memory, trouble: Callable[[bool], list[str]]) -> None:
    trouble(True)
    report = memory.sweep()
    assert (report.touched, report.sessions_failed) == ({"claude:good"}, 1)
    assert verify(memory.store) == []


def test_status_check_and_doctor_name_the_reason(memory: Memory, trouble: Callable[[bool], list[str]]) -> None:
    trouble(True)
    memory.sweep()
    (failed,) = read_status(memory.store).trouble.failed
    assert (failed.session_uid, failed.failure) == (BAD, "TooMuchError: it took longer than 1 s")
    answer = every_session_is_derived(memory.store)
    assert (answer.holds, answer.figures["set_aside"], answer.figures["reasons"]) == (False, 1, "TooMuchError: 1")


def test_pauses_double(memory: Memory, trouble: Callable[[bool], list[str]]) -> None:
    tries = trouble(True)
    found = []
    for minute in range(40):
        before = len(tries)
        memory.sweep()
        if len(tries) > before:
            found.append(minute)
        later(memory, 1)
    assert found == [0, 2, 6, 14, 30]


def test_nothing_counts_as_changed_while_it_waits(memory: Memory, trouble: Callable[[bool], list[str]]) -> None:
    trouble(True)
    memory.sweep()
    assert not scan(memory.store, memory.now).changes
    later(memory, 3)
    assert len(scan(memory.store, memory.now).changes.changed) == 1


def test_growth_does_not_bring_it_back_sooner(memory: Memory, trouble: Callable[[bool], list[str]]) -> None:
    tries = trouble(True)
    memory.sweep()
    memory.write("bad", *conversation(1, start=5), append=True)
    memory.put("claude/projects/-home-u-shop/bad/subagents/agent-x.jsonl", prompt("s", "10:00:00", "late"))
    count = len(tries)
    memory.sweep()
    assert len(tries) == count


def test_it_is_taken_in_whole_once_it_works(memory: Memory, tmp_path: Path, trouble: Callable[[bool], Any]) -> None:
    trouble(True)
    memory.sweep()
    trouble(False)
    later(memory, 3)
    memory.sweep()
    plain = Memory(tmp_path / "plain")
    plain.write("good", *conversation(2, session="g"))
    plain.write("bad", *conversation(2))
    plain.sweep()
    assert (memory.exported(), aside(memory)) == (plain.exported(), [])
    plain.close()


def test_pause_outlives_the_process(memory: Memory, trouble: Callable[[bool], list[str]]) -> None:
    tries = trouble(True)
    memory.sweep()
    memory.close()
    memory.store = open_store(memory.store.settings)
    count = len(tries)
    memory.sweep()
    assert len(tries) == count


def test_clock_set_back_does_not_hold_it_for_years(memory: Memory, trouble: Callable[[bool], list[str]]) -> None:
    memory.now = NOW + timedelta(days=3650)
    tries = trouble(True)
    memory.sweep()
    memory.now, count = NOW, len(tries)
    memory.sweep()
    assert len(tries) > count


def test_pause_is_a_day_at_most() -> None:
    assert retries.next_try(NOW, 12) == retries.next_try(NOW, 10_000) == "2026-06-21T12:00:00.000Z"


def test_grown_session_is_not_evictable_while_its_growth_fails(
    memory: Memory, trouble: Callable[[bool], list[str]]
) -> None:
    memory.sweep()
    trouble(True)
    memory.write("bad", *conversation(1, start=5), append=True)
    memory.sweep()
    planned = plan(memory.store, now=memory.now)
    assert {one.session_uid: one.reason for one in planned.stays}[BAD] == "not_covered"
    assert read_status(memory.store).trouble.uncovered == 1
    assert verify(memory.store) == []


def test_session_whose_digest_hangs_waits_with_its_records_stored(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DigestBuilder, "finish", lambda *_: 1 / 0)
    memory.sweep()
    assert {one.session_uid for one in aside(memory)} == {BAD, "claude:good"}
    assert [one.goes for one in plan(memory.store, now=memory.now).stays] == [False, False]
    monkeypatch.undo()
    later(memory, 3)
    memory.sweep()
    assert aside(memory) == []


def test_eviction_ends_the_wait_of_a_session_that_nothing_is_new_of(memory: Memory) -> None:
    memory.sweep()
    with memory.store.catalog.writing() as connection:
        for uid, keys in ((BAD, []), ("claude:good", ["a file"])):
            retries.note_failure(connection, uid, path_keys=keys, failure="it hung", now=memory.now)
    tiny = RetentionPolicy(1, 2, 45, 1 << 30)
    evicted = evict.apply(memory.store, clock=lambda: memory.now, policy=tiny, analyze=lambda: None)
    assert [decision.session_uid for decision in evicted.losses] == [BAD, "claude:good"]
    assert [one.session_uid for one in aside(memory)] == ["claude:good"]


def test_log_that_vanishes_meanwhile_is_told_as_lost_unread(
    memory: Memory, trouble: Callable[[bool], list[str]]
) -> None:
    trouble(True)
    memory.sweep()
    memory.path("bad").unlink()
    memory.sweep()
    assert aside(memory) == []
    assert vanishing(memory.store, memory.now).vanished == 1


def test_forgotten_session_is_not_tried_again(memory: Memory, trouble: Callable[[bool], list[str]]) -> None:
    memory.sweep()
    trouble(True)
    memory.write("bad", *conversation(1, start=5), append=True)
    memory.sweep()
    forget(memory.store, [BAD], now=memory.now)
    assert aside(memory) == []


def test_new_rules_try_all_at_once(memory: Memory, trouble: Callable[[bool], list[str]]) -> None:
    tries = trouble(True)
    memory.sweep()
    memory.close()
    config = memory.folder / "helix.toml"
    config.write_text('[[redaction.rules]]\nname = "own"\npattern = "zebra-[0-9]{9}"\n')
    environ = {**memory.environ, "HELIX_CONFIG": str(config), "HOME": str(memory.folder / "home")}
    environ |= {"HELIX_DATA_DIR": str(memory.folder / "data"), "CLAUDE_CONFIG_DIR": str(memory.projects.parent)}
    memory.store = open_store(load_settings(environ))
    count = len(tries)
    memory.sweep()
    assert len(tries) > count
    with memory.store.catalog.reading() as connection:
        assert connection.column("SELECT failures FROM retries") == [1]


def test_newer_code_tries_all_at_once(
    memory: Memory, trouble: Callable[[bool], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = trouble(True)
    memory.sweep()
    count = len(tries)
    monkeypatch.setattr("helix_assets.sweep.stale.__version__", "newer")
    assert len(scan(memory.store, memory.now).changes.changed) == 1
    memory.sweep()
    assert len(tries) > count
    assert not scan(memory.store, memory.now).changes


# -- sessions that can be derived only while their files are read ----------------------------------------------------


@pytest.fixture
def digests_fail(monkeypatch: pytest.MonkeyPatch) -> Callable[[int | None], None]:
    """Has the digest of every session but the first so many fail from now on; None ends that."""
    add = DigestBuilder.add

    def switch(spared: int | None) -> None:
        made: list[DigestBuilder] = []

        def failing(self: DigestBuilder, *rows: Any) -> None:
            if self not in made:
                made.append(self)
            if made.index(self) >= (spared or 0):
                raise ValueError("no")
            add(self, *rows)

        monkeypatch.setattr(DigestBuilder, "add", add if spared is None else failing)

    return switch


def test_newer_code_derives_at_once_what_failed(
    memory: Memory, digests_fail: Callable[[int | None], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    digests_fail(0)
    memory.sweep()
    digests_fail(None)
    memory.sweep()
    assert len(aside(memory)) == 2
    monkeypatch.setattr("helix_assets.sweep.stale.__version__", "newer")
    memory.sweep()
    assert aside(memory) == []


def evict_everything(memory: Memory) -> None:
    evict.apply(memory.store, clock=lambda: memory.now, policy=RetentionPolicy(1, 1 << 40, 45, 1 << 40))


@pytest.mark.parametrize("stays", [True, False])
def test_growth_that_fails_to_be_merged_is_stored_and_counts_later(
    memory: Memory, digests_fail: Callable[[int | None], None], stays: bool
) -> None:
    memory.sweep()
    evict_everything(memory)
    memory.write("bad", *conversation(2, start=2))  # the log that told the beginning is gone
    digests_fail(0)
    assert (memory.sweep().digests_failed, [one.session_uid for one in aside(memory)]) == (1, [BAD])
    digests_fail(None)
    if not stays:
        memory.path("bad").unlink()
    later(memory, 3)
    memory.sweep()
    assert (memory.digest(BAD)["user_prompts"], aside(memory), verify(memory.store)) == (4, [], [])


@pytest.mark.parametrize("then", [conversation(1, start=4), []], ids=["begins anew", "is gone"])
def test_growth_that_was_stored_without_a_digest_counts_once_its_log(
    memory: Memory, digests_fail: Callable[[int | None], None], then: list[bytes]
) -> None:
    memory.sweep()
    evict_everything(memory)
    memory.write("bad", *conversation(2, start=2), append=True)
    digests_fail(0)
    memory.sweep()
    digests_fail(None)
    memory.write("bad", *then) if then else memory.path("bad").unlink()
    for _ in range(2):
        later(memory, 3)
        memory.sweep()
    assert (memory.digest(BAD)["user_prompts"], aside(memory), verify(memory.store)) == (4 + bool(then), [], [])


def test_evicted_session_that_fails_as_its_share_changes_is_tried_again(
    memory: Memory, digests_fail: Callable[[int | None], None]
) -> None:
    """Nothing in its log is new, but what it copied counts in the session that it was copied from by now."""
    copy, original = (f"{letter * 8}-1111-4111-8111-000000000000" for letter in "ba")
    memory.write(copy, *conversation(2, session="s"), prompt("own", "10:40:00", "a question of its own"))
    memory.sweep()
    evict_everything(memory)
    memory.write(original, prompt("first", "09:00:00", "begin"), *conversation(2, session="s"))
    digests_fail(1)
    assert memory.sweep().sessions_failed == 1
    digests_fail(None)
    later(memory, 3)
    memory.sweep()
    assert [memory.digest(f"claude:{name}")["user_prompts"] for name in (copy, original)] == [1, 3]
    assert (aside(memory), verify(memory.store)) == ([], [])


def test_session_for_which_there_was_no_room_is_tried_by_the_next_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = Memory(tmp_path)
    memory.write("s", *conversation(1))
    with monkeypatch.context() as full:
        full.setattr(workers, "_ingested", lambda *_: OSError(errno.ENOSPC, "No space left on device"))
        assert "No space left on device" in str(memory.sweep().problems)
    assert memory.sweep().digests_written == 1
    memory.close()
