"""A patient sweep leaves a large session that grows alone for a while; any other sweep takes everything in."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from helix_assets.hooks.hook import write_note
from helix_assets.sweep.look import scan
from helix_assets.sweep.sweep import sweep
from helix_assets.sweep.sweep_report import SweepReport
from helix_assets_tests.home import Memory, conversation


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A swept session that has grown since."""
    made = Memory(tmp_path)
    made.write("s1", *conversation(2))
    made.sweep()
    made.write("s1", *conversation(1, start=2), append=True)
    yield made
    made.close()


@pytest.fixture
def large(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """The same, where so little counts as large."""
    monkeypatch.setattr("helix_assets.sweep.resting.REST_PER_MB", timedelta(days=1000))
    return memory


def swept_patiently(memory: Memory) -> SweepReport:
    return sweep(memory.store, clock=lambda: memory.now, reach="patient")


def test_a_small_session_is_taken_in_at_once(memory: Memory) -> None:
    memory.now += timedelta(seconds=30)
    assert swept_patiently(memory).lines_read == 4


def test_a_large_session_rests(large: Memory) -> None:
    large.now += timedelta(minutes=9)
    assert swept_patiently(large).files_opened == 0
    assert len(scan(large.store, large.now, patient=True).resting) == 1


def test_rest_is_over_after_the_minutes_of_the_settings(large: Memory) -> None:
    large.now += timedelta(minutes=10)
    assert swept_patiently(large).lines_read == 4
    assert swept_patiently(large).lines_read == 0


def test_any_other_sweep_takes_in_what_rests(large: Memory) -> None:
    assert large.sweep().lines_read == 4


def test_others_are_taken_in_while_one_rests(large: Memory) -> None:
    large.write("s2", *conversation(1, session="b"))
    assert (swept_patiently(large).touched, large.sweep().touched) == ({"claude:s2"}, {"claude:s1"})


def test_a_new_file_of_a_resting_session_rests_with_it(large: Memory) -> None:
    agent = large.path("s1").with_suffix("") / "subagents" / "agent-x.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(b"".join(conversation(1, session="c")))
    assert swept_patiently(large).files_opened == 0
    assert large.sweep().files_opened == 2


def test_whom_a_hook_has_named_does_not_rest(large: Memory) -> None:
    """The sweep takes the note away, so that a sweep for hooks would find nothing to do."""
    inbox = large.store.data_dir / "inbox"
    note = {"agent": "claude", "at": 1, "is_event": True, "event": "SessionEnd", "session": "s1"}
    write_note(str(inbox), note)
    assert swept_patiently(large).touched == {"claude:s1"}
    assert list(inbox.iterdir()) == []


def test_a_note_in_the_middle_of_a_turn_wakes_nobody(large: Memory) -> None:
    note = {"agent": "claude", "at": 1, "is_event": True, "event": "PreToolUse", "session": "s1"}
    write_note(str(large.store.data_dir / "inbox"), note)
    assert swept_patiently(large).touched == set()


def test_nobody_rests_for_a_clock_that_was_set_back(large: Memory) -> None:
    large.now -= timedelta(days=1)
    assert swept_patiently(large).lines_read == 4


def test_nobody_rests_while_exclusions_are_new(tmp_path: Path, large: Memory) -> None:
    large.close()
    again = Memory(tmp_path, {"HELIX_EXCLUDE_REPOS": "nothing"}, large.now)
    assert swept_patiently(again).lines_read == 4
    again.write("s1", *conversation(1, start=3), append=True)
    assert swept_patiently(again).lines_read == 0
    again.close()
