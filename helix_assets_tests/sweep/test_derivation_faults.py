"""A fault of what is derived from records costs none of them: they are stored, their session is named, and derived once
the fault is gone."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from helix_assets.agents.claude.adapter import ClaudeAdapter
from helix_assets.ask.search import Finder
from helix_assets.ask.status import read_status
from helix_assets.keep.evict import apply
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.model.event import DIGEST_VERSION
from helix_assets.prove.promises import every_session_is_derived
from helix_assets.prove.verify import verify
from helix_assets.store.catalog import retries
from helix_assets_tests.home import Memory, answer, call, conversation, prompt, result

BAD, GOOD = "claude:bad", "claude:good"
FIRST = [
    prompt("p1", "10:00:00", "this one is trouble"),
    call("c1", "10:00:05", "Bash", "toolu_1", command="pytest trouble"),
    result("r1", "10:00:10", "toolu_1", "Exit code 1\n1 failed, trouble", failed=True),
    answer("a1", "10:00:20", "there is trouble", message="msg_a1"),
]
MORE = [
    prompt("p2", "10:10:00", "more trouble"),
    call("c2", "10:10:05", "Bash", "toolu_2", command="pytest trouble"),
    result("r2", "10:10:10", "toolu_2", "Exit code 1\n2 failed, trouble", failed=True),
    answer("a2", "10:10:20", "trouble again", message="msg_a2"),
]
# Where a fault is planted: in what is called for a session's lines, rows or digest.
OF_LINES = [
    "derive.link:Linker.rows",
    "derive.link:parse_test_runs",
    "derive.digest_builder:DigestBuilder.add",
    "derive.fact_builder:FactBuilder.add",
    "store.words.hashing:WordHasher.words",
    "store.fact_files:table_of",
    "derive.merge:fitted",
]
WITHOUT_EVENTS = {
    "derive.link:Linker.rows",
    "derive.link:parse_test_runs",
    "agents.claude.adapter:ClaudeParser.finish",
    "agents.claude.adapter:ClaudeParser.state",
    "sweep.read:repository_root",
    "sweep.read:_settle_times",
}
OF_SESSIONS = [
    "agents.claude.adapter:ClaudeParser.finish",
    "agents.claude.adapter:ClaudeParser.state",
    "derive.digest_builder:DigestBuilder.counted_usage",
    "derive.digest_builder:DigestBuilder.finish",
    "derive.digest_builder:DigestBuilder.signal_rows",
    "derive.digest_builder:judge",
    "derive.digest_builder:written_digest",
    "derive.fact_builder:FactBuilder.finish",
    "sweep.read:_settle_times",
    "sweep.read:session_head",
    "derive.places:repo_of",
    "derive.places:task_of",
    "sweep.read:repository_root",
    "sweep.read:SessionHead",
    "sweep.pricing:price_rows",
    "sweep.pricing:costs",
]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path)
    write(memory)
    yield memory
    memory.close()


def write(memory: Memory) -> None:
    memory.write("good", *conversation(2, session="g"))
    memory.write("bad", *FIRST)


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[int]]:
    """Plants a fault at a place and gives a list that grows each time it is met; `undo` takes it out again."""

    def planted(place: str) -> list[int]:
        met: list[int] = []
        module, _, name = place.partition(":")
        owner: Any = importlib.import_module(f"helix_assets.{module}")
        *path, last = name.split(".")
        for part in path:
            owner = getattr(owner, part)
        sound = getattr(owner, last)

        def faulty(*args: Any, **kwargs: Any) -> Any:
            if place not in OF_LINES or "trouble" in repr(args[bool(path) :]) or BAD in repr(args[bool(path) :]):
                met.append(1)
                raise IndexError("planted")
            return sound(*args, **kwargs)

        monkeypatch.setattr(owner, last, faulty)
        return met

    return planted


def records(memory: Memory, uid: str = BAD) -> int:
    row = memory.row(uid)
    return 0 if row is None else row.record_count


def aside(memory: Memory) -> dict[str, str]:
    with memory.store.catalog.reading() as connection:
        return {one.session_uid: one.failure for one in retries.failed_sessions(connection)}


def never_faulty(folder: Path, *lines: bytes) -> bytes:
    plain = Memory(folder)
    write(plain)
    plain.write("bad", *lines, append=True)
    plain.sweep()
    exported = plain.exported()
    plain.close()
    return exported


@pytest.mark.parametrize("place", OF_LINES[:-1] + OF_SESSIONS)
def test_records_are_stored_and_the_session_is_named_and_derived_later(
    memory: Memory, plant: Callable[[str], list[int]], monkeypatch: pytest.MonkeyPatch, place: str, tmp_path: Path
) -> None:
    plant(place)
    report = memory.sweep()
    assert (records(memory), records(memory, GOOD), report.sessions_failed) == (4, 8, 0)
    failed = {one.session_uid for one in read_status(memory.store).trouble.failed}
    assert failed == ({BAD} if place in OF_LINES else {BAD, GOOD})
    assert failed == {uid for uid, _ in report.problems}
    assert all("IndexError" in reason for _, reason in report.problems)
    assert not every_session_is_derived(memory.store).holds
    assert verify(memory.store) == []
    memory.write("bad", *MORE, append=True)  # what comes later is stored, too
    memory.sweep()
    assert (records(memory), verify(memory.store)) == (8, [])
    monkeypatch.undo()
    memory.now += timedelta(days=1)
    assert memory.sweep().problems == []
    assert (aside(memory), verify(memory.store)) == ({}, [])
    assert memory.exported() == never_faulty(tmp_path / "plain", *MORE)
    assert [hit.session_uid for hit in Finder(memory.store).find("trouble again").hits] == [BAD]


@pytest.mark.parametrize("place", OF_LINES[:-1] + OF_SESSIONS)
def test_growth_is_stored_and_derived_later(
    memory: Memory, plant: Callable[[str], list[int]], monkeypatch: pytest.MonkeyPatch, place: str, tmp_path: Path
) -> None:
    memory.sweep()
    plant(place)
    memory.write("bad", *MORE, append=True)
    memory.sweep()
    assert (records(memory), set(aside(memory)), verify(memory.store)) == (8, {BAD}, [])
    assert memory.digest(BAD)["record_count"] == 4  # the one that there was
    monkeypatch.undo()
    memory.now += timedelta(days=1)
    memory.sweep()
    assert (aside(memory), verify(memory.store)) == ({}, [])
    assert memory.exported() == never_faulty(tmp_path / "plain", *MORE)


@pytest.mark.parametrize("place", ["derive.digest_builder:judge", "derive.link:Linker.rows"])
def test_growth_does_not_bring_the_next_try_sooner(
    memory: Memory, plant: Callable[[str], list[int]], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    tries = plant(place)
    found = []
    for minute in range(16):
        before = len(tries)
        memory.write("bad", prompt(f"x{minute}", f"11:{minute:02d}:00", "trouble"), append=True)
        memory.sweep()
        if len(tries) > before:
            found.append(minute)
        memory.now += timedelta(minutes=1)
    assert found == [0, 2, 6, 14]
    assert records(memory) == 4 + 16
    monkeypatch.undo()
    memory.now += timedelta(days=1)
    memory.sweep()
    assert (memory.digest(BAD)["user_prompts"], aside(memory), verify(memory.store)) == (17, {}, [])


@pytest.mark.parametrize("is_read", [True, False], ids=["whose digest failed", "that could not be read"])
def test_newer_code_tries_a_failed_session_at_once(
    memory: Memory, plant: Callable[[str], list[int]], monkeypatch: pytest.MonkeyPatch, is_read: bool
) -> None:
    plant("derive.digest_builder:judge" if is_read else "sweep.session_run:SessionRun.__init__")
    memory.sweep()
    memory.sweep()
    assert set(aside(memory)) == {BAD, GOOD}
    monkeypatch.undo()
    memory.sweep()
    assert set(aside(memory)) == {BAD, GOOD}  # the pause is not over, and nothing is new
    monkeypatch.setattr("helix_assets.ask.coverage.DIGEST_VERSION", DIGEST_VERSION + 1)
    memory.sweep()
    assert aside(memory) == {}


@pytest.mark.parametrize("place", OF_LINES + OF_SESSIONS)
def test_growth_of_an_evicted_session_waits_and_counts_when_it_can(
    memory: Memory, plant: Callable[[str], list[int]], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    memory.sweep()
    apply(memory.store, clock=lambda: memory.now, policy=RetentionPolicy(1, 1 << 40, 45, 1 << 40))
    plant(place)
    memory.write("bad", *MORE)  # the log that told the beginning is gone: what is new is merged
    memory.sweep()
    assert (set(aside(memory)), verify(memory.store)) == ({BAD}, [])
    is_stored = bool(memory.parts(BAD))
    assert is_stored == (place not in WITHOUT_EVENTS)  # else it waits in its log
    monkeypatch.undo()
    memory.now += timedelta(days=1)
    memory.sweep()
    assert (memory.digest(BAD)["user_prompts"], aside(memory), verify(memory.store)) == (2, {}, [])


@pytest.mark.parametrize(
    "place", ["ClaudeAdapter.identify", "ClaudeAdapter.parser", "ClaudeParser.feed", "_usage", "timestamp_us"]
)
def test_lines_that_an_adapter_trips_over_are_stored_and_named_until_a_newer_one_reads_them(
    memory: Memory, plant: Callable[[str], list[int]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, place: str
) -> None:
    plant(f"agents.claude.adapter:{place}")
    report = memory.sweep()
    assert all("kept, but cannot be understood" in reason for _, reason in report.problems)
    assert {Path(path).stem for path, _ in report.problems} == {"good", "bad"}
    assert (records(memory), records(memory, GOOD), verify(memory.store)) == (4, 8, [])
    monkeypatch.undo()
    monkeypatch.setattr(ClaudeAdapter, "version", ClaudeAdapter.version + 1)
    memory.sweep()
    assert (aside(memory), verify(memory.store)) == ({}, [])
    assert memory.exported() == never_faulty(tmp_path / "plain")


@pytest.mark.parametrize("fails_at", ["user", "assistant"])
def test_evicted_session_waits_while_its_agents_new_lines_are_not_understood(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    """Else they would count without their ids now, and with them once a newer version understands them."""
    memory.sweep()
    apply(memory.store, clock=lambda: memory.now, policy=RetentionPolicy(1, 1 << 40, 45, 1 << 40))
    memory.write("bad", *MORE, append=True)
    identify = ClaudeAdapter.identify

    def failing(self: ClaudeAdapter, obj: dict[str, Any]) -> Any:
        return 1 / 0 if obj["type"] == fails_at else identify(self, obj)

    with monkeypatch.context() as faulty:
        faulty.setattr(ClaudeAdapter, "identify", failing)
        assert "not understood" in str(memory.sweep().problems)
        assert memory.digest(BAD)["record_count"] == len(FIRST)
    memory.now += timedelta(days=2)
    memory.sweep()
    assert memory.digest(BAD)["record_count"] == len(FIRST + MORE)
    assert verify(memory.store) == []
