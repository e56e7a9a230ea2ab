"""Places of a session's files: the same on every machine, one for each file."""

from __future__ import annotations

from pathlib import Path

import pytest

from helix_assets.agents.spec import FoundFile
from helix_assets.sweep.plan import Candidate, SessionState, file_rank, file_ranks
from helix_assets_tests.home import Memory, prompt

NEW = SessionState("claude:s", "claude", "s")


def candidate(path: str, role: str = "main") -> Candidate:
    return Candidate(path, path, FoundFile(path, role, "s", 1, 1, 1, 1))


@pytest.mark.parametrize(
    "place",
    [
        "projects/-home-u-shop/5f.jsonl",
        "projects/-home-u-shop/5f/subagents/agent-1.jsonl",
        "archived_sessions/rollout-1.jsonl",
        "rollout-1.jsonl.d/x.jsonl",
    ],
)
def test_where_the_home_lies_does_not_order_files(place: str):
    assert file_rank(f"/home/u/.agent/{place}", "main") == file_rank(f"/mnt/copy/agent/{place}", "main")


def test_packed_file_takes_the_place_of_the_plain_one():
    assert file_rank("/h/2026/rollout-1.jsonl.zst", "main") == file_rank("/h/2026/rollout-1.jsonl", "main")


def test_document_comes_before_main_and_main_before_subagents():
    ranks = [file_rank(f"/h/s/{name}", role) for name in "abcdefgh" for role in ("document", "main", "subagent")]
    documents, mains, others = ranks[::3], ranks[1::3], ranks[2::3]
    assert max(documents) < min(mains) <= max(mains) < min(others)


def test_same_place_in_two_homes_has_two_ranks_whatever_is_listed_first():
    here, there = candidate("/a/p/s.jsonl"), candidate("/b/p/s.jsonl")
    ranks = file_ranks(NEW, {"/a/p/s.jsonl": here, "/b/p/s.jsonl": there})
    assert len(set(ranks.values())) == 2
    assert ranks == file_ranks(NEW, {"/b/p/s.jsonl": there, "/a/p/s.jsonl": here})


def test_lines_of_one_moment_stand_in_the_same_order_wherever_the_home_lies(tmp_path: Path):
    exports = set()
    for home in ("a", "somewhere/else", "c"):
        memory = Memory(tmp_path / home)
        memory.write("s1", prompt("p1", "10:00:00", "go"))
        for agent in ("x1", "y2", "z3"):
            asked = prompt(agent, "10:00:00", f"{agent}, go", sessionId="s1", agentId=agent, isSidechain=True)
            memory.write(f"agent-{agent}", asked)
        memory.sweep()
        exports.add(memory.exported())
        memory.close()
    assert len(exports) == 1
