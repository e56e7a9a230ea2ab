"""Logs that Claude Code deletes: an alarm while they can still be read, and a count of those that went unread."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from helix_assets.prove.vanishing import vanishing
from helix_assets.store.catalog import sources
from helix_assets_tests.home import NOW, Memory, conversation


@pytest.fixture
def memory(tmp_path: Path):
    made = Memory(tmp_path)
    yield made
    made.close()


def written(memory: Memory, name: str, days_ago: float) -> Path:
    path = memory.write(name, *conversation(1))
    moment = (NOW - timedelta(days=days_ago)).timestamp()
    os.utime(path, (moment, moment))
    return path


@pytest.mark.parametrize(("days_ago", "due"), [(1, 0), (22.9, 0), (23.1, 1), (29, 1), (40, 1)])
def test_unread_log_is_due_a_week_before_it_is_deleted(memory: Memory, days_ago: float, due: int):
    written(memory, "s1", days_ago)
    assert vanishing(memory.store, NOW).due == due


def test_alarm_says_when_the_first_one_goes(memory: Memory):
    size = sum(written(memory, name, days).stat().st_size for name, days in (("s1", 25), ("s2", 28)))
    found = vanishing(memory.store, NOW)
    assert (found.due, found.due_bytes, found.first_due) == (2, size, "2026-06-22T12:00:00.000Z")


def test_what_was_read_is_safe(memory: Memory):
    path = written(memory, "s1", 29)
    memory.sweep()
    assert vanishing(memory.store, NOW).due == 0
    path.unlink()
    memory.sweep()
    assert vanishing(memory.store, NOW).vanished == 0


def test_log_that_could_not_be_read_and_is_gone_is_counted(memory: Memory):
    path = str(memory.path("s1"))
    row = {"path_key": path, "path": path, "flavor": "claude", "role": "main", "file_rank": 1, "dev": 1, "inode": 1}
    row |= {"size": 9, "mtime_ns": 1, "status": "unreadable", "discovered_at": "2026-06-01"}
    with memory.store.catalog.writing() as connection:
        sources.put(connection, [row])
    memory.sweep()
    assert vanishing(memory.store, NOW).vanished == 1


@pytest.mark.parametrize(("days", "due"), [("30", 1), ("99999", 0)])
def test_period_is_a_setting(tmp_path: Path, days: str, due: int):
    memory = Memory(tmp_path, {"HELIX_CLAUDE_CLEANUP_DAYS": days})
    written(memory, "s1", 28)
    assert vanishing(memory.store, NOW).due == due
    memory.close()


def test_excluded_log_raises_no_alarm(tmp_path: Path):
    memory = Memory(tmp_path, {"HELIX_EXCLUDE_REPOS": "shop"})
    written(memory, "s1", 28)
    memory.sweep()
    written(memory, "s1", 27)
    assert vanishing(memory.store, NOW).due == 0
    memory.close()


def test_agents_that_keep_their_logs_raise_no_alarm(memory: Memory):
    path = memory.put("codex/sessions/rollout-x.jsonl", b"{}\n")
    os.utime(path, (0, 0))
    assert vanishing(memory.store, NOW).due == 0
