"""Listing sessions: typed, frozen, and a question or two to the catalog however many sessions there are."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from helix_assets.ask.listing import Wanted, agents_in, list_sessions, named_session, sessions_of_repo
from helix_assets.model.errors import NotFoundError
from helix_assets_tests.home import Memory, conversation, statements_of


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    memory = Memory(tmp_path)
    for number in range(3):
        memory.write(f"s{number}", *conversation(1 + number, session=f"{number}"))
    memory.sweep()
    return memory


def test_a_list_is_asked_for_in_two_statements_and_one_for_the_redaction_rules(memory: Memory) -> None:
    with statements_of(memory.store.catalog) as asked:
        found = list_sessions(memory.store, Wanted(repo="shop"), 2)
    assert (len(found.sessions), found.total) == (2, 3)
    assert len([statement for statement in asked if statement.startswith("SELECT")]) == 3


def test_a_damaged_digest_leaves_its_figures_unknown(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE digests SET digest = '{}' WHERE session_uid = 'claude:s1'")
    figures = {
        one.session_uid: (one.events, one.tokens is None) for one in list_sessions(memory.store, Wanted(), 9).sessions
    }
    assert figures["claude:s1"] == (None, True)
    assert figures["claude:s0"][0] is not None


def test_what_is_listed_cannot_be_changed(memory: Memory) -> None:
    (one, *_) = list_sessions(memory.store, Wanted(), 1).sessions
    with pytest.raises(FrozenInstanceError):
        one.title = "another"  # type: ignore[misc]


def test_agents_are_those_with_sessions(memory: Memory) -> None:
    assert agents_in(memory.store) == {"claude"}


def test_sessions_of_a_repository_are_named_like_one_of_them(memory: Memory) -> None:
    found = sessions_of_repo(memory.store, "shop")
    assert [one.session_uid for one in found] == ["claude:s0", "claude:s1", "claude:s2"]
    assert named_session(memory.store, "claude:s1") == found[1]
    assert found[1].raw_bytes == memory.row("claude:s1").raw_bytes
    assert sessions_of_repo(memory.store, "another") == ()
    with pytest.raises(NotFoundError):
        named_session(memory.store, "claude:s9")
