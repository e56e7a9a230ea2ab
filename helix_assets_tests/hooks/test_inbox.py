"""A pushed note becomes a sweep of just its session, and a time among the facts."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from helix_assets.hooks import hook
from helix_assets.hooks.inbox import inbox_of, waiting
from helix_assets.keep.forget import forget
from helix_assets_tests.home import Memory, conversation, prompt

ONE, TWO = (f"11111111-aaaa-4aaa-8aaa-00000000000{n}" for n in (1, 2))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path)
    memory.write(ONE, *conversation(2, session="a"))
    memory.write(TWO, *conversation(2, session="b"))
    yield memory
    memory.close()


def push(memory: Memory, session: str | None, event: str = "SessionEnd", at: int = 0, **more: object) -> None:
    note = {"agent": "claude", "at": at or hook.time.time_ns(), "event": event, "session": session, "call": None}
    hook.write_note(str(inbox_of(memory.store.data_dir)), note | more)


def events(memory: Memory) -> list[tuple[str, str, str]]:
    with memory.store.catalog.reading() as connection:
        return connection.tuples("SELECT session_uid, event, call_id FROM hook_events ORDER BY at")


def test_a_file_that_is_no_note_goes(memory: Memory) -> None:
    push(memory, None)
    inbox_of(memory.store.data_dir).mkdir(exist_ok=True)
    (inbox_of(memory.store.data_dir) / "00000000000000000001-1.json").write_bytes(b'{"agent": ')
    memory.sweep()
    assert waiting(memory.store.data_dir) == []


def test_times_become_facts_once(memory: Memory) -> None:
    for _ in range(2):  # a note that was taken in, its sweep killed before it was removed
        push(memory, ONE, "UserPromptSubmit", at=1_780_000_000_000_000_000)
        push(memory, ONE, "PreToolUse", at=1_780_000_001_000_000_000, call="toolu_a0")
        memory.sweep()
    uid = f"claude:{ONE}"
    assert events(memory) == [(uid, "UserPromptSubmit", ""), (uid, "PreToolUse", "toolu_a0")]


def test_a_note_waits_for_its_session_to_get_a_log(memory: Memory) -> None:
    later = TWO[:-1] + "3"
    push(memory, later, "SessionStart")
    memory.sweep()
    assert len(waiting(memory.store.data_dir)) == 1
    memory.write(later, prompt("x", "12:00:00", "hello"))
    memory.sweep()
    assert waiting(memory.store.data_dir) == []
    assert events(memory) == [(f"claude:{later}", "SessionStart", "")]


def test_a_note_of_a_session_that_never_comes_goes(memory: Memory) -> None:
    push(memory, TWO[:-1] + "3", at=1_780_000_000_000_000_000)
    memory.sweep()
    assert waiting(memory.store.data_dir) == []
    assert events(memory) == []


def test_an_excluded_session_leaves_no_time_behind(memory: Memory, tmp_path: Path) -> None:
    private = Memory(tmp_path / "private", environ={"HELIX_EXCLUDE_REPOS": "shop"})
    private.write(ONE, *conversation(1))
    push(private, ONE)
    assert private.sweep().touched == set()
    assert events(private) == []
    private.close()


def test_forgetting_takes_times_and_notes_along(memory: Memory) -> None:
    push(memory, ONE)
    memory.sweep()
    push(memory, ONE)
    push(memory, TWO)
    forget(memory.store, [f"claude:{ONE}"], now=memory.now)
    assert events(memory) == []
    (name,) = os.listdir(inbox_of(memory.store.data_dir))
    assert TWO in (inbox_of(memory.store.data_dir) / name).read_text()


def test_note_of_a_forgotten_session_does_not_stay(memory: Memory) -> None:
    memory.sweep()
    forget(memory.store, [f"claude:{ONE}"], now=memory.now)
    push(memory, ONE)
    memory.sweep()
    assert waiting(memory.store.data_dir) == []
