"""Which sessions rest on older rules is asked once after each change, not at every look."""

from __future__ import annotations

from pathlib import Path

import pytest

from helix_assets.store.catalog import meta
from helix_assets.sweep.rounds import Rounds
from helix_assets.sweep.stale import is_settled, stale_sessions
from helix_assets_tests.home import Memory, conversation, prompt


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    """A memory of one session, swept once."""
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(2))
    memory.sweep()
    return memory


def is_known_as_settled(memory: Memory) -> bool:
    with memory.store.catalog.reading() as connection:
        return is_settled(memory.store, meta.every(connection))


def test_after_a_sweep_nothing_is_stale(memory: Memory) -> None:
    assert is_known_as_settled(memory)
    assert stale_sessions(memory.store, memory.now, None) == []


@pytest.mark.parametrize("name", ["DIGEST_VERSION", "ADAPTERS"])
def test_newer_rules_unsettle_the_memory(memory: Memory, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    class Newer:
        version = 99

    monkeypatch.setattr(f"helix_assets.ask.coverage.{name}", 99 if name == "DIGEST_VERSION" else {"claude": Newer})
    assert not is_known_as_settled(memory)
    assert [row.session_uid for row in stale_sessions(memory.store, memory.now, None)] == ["claude:s1"]


def test_a_session_whose_digest_failed_is_asked_for_again(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("no")

    monkeypatch.setattr("helix_assets.derive.digest_builder.DigestBuilder.add", refuse)
    memory.write("s2", *conversation(1, start=5))
    memory.sweep()
    assert not is_known_as_settled(memory)


def test_a_memory_that_was_settled_stays_so_without_looking(memory: Memory) -> None:
    asked: list[object] = []
    memory.write("s2", *conversation(1, start=5))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("helix_assets.sweep.sweep.stale_sessions", lambda *arguments: asked.append(arguments[-1]) or [])
        memory.sweep()
    assert asked == []
    assert is_known_as_settled(memory)


def test_a_session_that_fails_because_another_is_derived_anew_is_asked_for_again(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may share history with one that the sweep touched, without being touched before."""

    def touch_another(rounds: Rounds, _: object) -> None:
        rounds.behind.add("claude:s1")
        with memory.store.catalog.writing() as connection:
            connection.execute("UPDATE sessions SET derived_generation = NULL WHERE session_uid = 'claude:s1'")

    monkeypatch.setattr(Rounds, "rederive", touch_another)
    memory.write("s2", *conversation(1, start=5))
    memory.sweep()
    assert not is_known_as_settled(memory)


def test_a_memory_that_was_not_settled_is_looked_through_once(memory: Memory) -> None:
    asked: list[object] = []
    with memory.store.catalog.writing() as connection:
        meta.put(connection, "settled", "by older rules")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("helix_assets.sweep.sweep.stale_sessions", lambda *arguments: asked.append(arguments[-1]) or [])
        memory.sweep()
        memory.sweep()
    assert asked == [None]


def test_newer_parser_leaves_a_session_the_times_of_its_copied_history(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is another session's and stored there, so the session's own rows cannot tell them."""
    memory.write("s2", *conversation(2), *conversation(1, start=30, session="b"))
    memory.sweep()
    before = memory.digest("claude:s2")
    monkeypatch.setattr("helix_assets.agents.claude.adapter.ClaudeAdapter.version", 99)
    memory.sweep()
    after = memory.digest("claude:s2")
    assert (after["started_at"], after["cost"]) == (before["started_at"], before["cost"])
    assert before["user_prompts"] == after["user_prompts"] == 1


def test_session_that_grows_under_a_newer_parser_starts_with_its_first_own_record(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.write("s2", *conversation(2))
    memory.sweep()
    monkeypatch.setattr("helix_assets.agents.claude.adapter.ClaudeAdapter.version", 99)
    memory.write("s2", *conversation(1, start=30, session="b"), append=True)
    memory.sweep()
    assert memory.digest("claude:s2")["started_at"] == "2026-06-05T10:30:00.000Z"


def resumed_elsewhere(memory: Memory) -> None:
    """Sweep a session that was resumed under a new id, and went on in another folder."""
    copied = [prompt("x1", "09:00:00", "begin", cwd="/home/u/KUMQUAT-1", gitBranch="main")]
    memory.write("s3", *copied)
    memory.write("s4", *copied, prompt("x2", "09:30:00", "go on", cwd="/home/u/other", gitBranch="fix"))
    memory.sweep()


def test_newer_parser_leaves_a_resumed_session_its_own_branch_and_the_folder_where_it_began(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    resumed_elsewhere(memory)
    before = memory.exported()
    monkeypatch.setattr("helix_assets.agents.claude.adapter.ClaudeAdapter.version", 99)
    memory.sweep()
    assert memory.exported() == before
    assert (memory.digest("claude:s4")["cwd"], memory.digest("claude:s4")["git_branch"]) == (
        "/home/u/KUMQUAT-1",
        "fix",
    )


def test_where_copied_history_began_is_redacted_by_new_rules(memory: Memory, tmp_path: Path) -> None:
    resumed_elsewhere(memory)
    memory.close()
    rule = '[{name = "badge", pattern = "KUMQUAT-[0-9]"}]'
    again = Memory(tmp_path, {"HELIX_REDACTION_RULES": rule}, memory.now)
    again.sweep()
    assert again.digest("claude:s4")["cwd"].startswith("/home/u/[redacted:badge:")
    assert b"KUMQUAT" not in again.exported()
    again.close()
