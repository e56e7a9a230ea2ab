"""Files that change while they are read, and lines that nobody understands: nothing is lost, nothing doubled."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from helix_assets.agents.claude.adapter import ClaudeParser
from helix_assets.prove.verify import verify
from helix_assets.store.catalog import problems
from helix_assets.sweep import plan, session_run, source
from helix_assets_tests.home import Memory, ask, conversation, prompt


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path)
    yield made
    made.close()


def stored(memory: Memory) -> int:
    return memory.exported().count(b'"raw":')


def test_what_is_appended_behind_the_reader_is_news_to_the_next_sweep(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse = source.Source._refuse_rewritten

    def refuse_while_writing(*args: Any) -> None:
        memory.write("a", prompt("late", "11:00:00", "late"), append=True)
        monkeypatch.undo()
        refuse(*args)

    memory.write("a", *conversation(2))
    monkeypatch.setattr(source.Source, "_refuse_rewritten", refuse_while_writing)
    memory.sweep()
    assert stored(memory) == 8
    memory.sweep()
    assert stored(memory) == 9


def test_a_file_rewritten_after_the_plan_was_made_is_read_from_the_start(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = memory.write("a", *conversation(2))
    memory.sweep()
    grown = plan._has_grown

    def grown_then_rewritten(*args: Any) -> bool:
        answer = grown(*args)
        size = path.stat().st_size
        path.write_bytes(b"".join(conversation(4, start=20)) + b" " * size)
        return answer

    memory.write("a", *conversation(1, start=2), append=True)
    monkeypatch.setattr(plan, "_has_grown", grown_then_rewritten)
    assert memory.sweep().records_unparsed == 0
    assert stored(memory) == 8 + 16


@pytest.mark.parametrize("times", [1, 99])
def test_a_file_cut_between_two_readings_costs_no_stored_record(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    path = memory.write("a", *conversation(3))
    memory.sweep()
    listed = session_run.SessionRun._keys_in_files
    cuts = 0

    def listed_then_cut(run: session_run.SessionRun) -> set[int]:
        nonlocal cuts
        keys = listed(run)
        cuts += 1
        if cuts <= times:
            path.write_bytes(b"".join(conversation(3 if times > 1 and cuts % 2 == 0 else 1)))
        return keys if cuts <= times else listed(run)

    fresh = path.with_suffix(".new")
    fresh.write_bytes(path.read_bytes())
    fresh.rename(path)
    monkeypatch.setattr(session_run.SessionRun, "_keys_in_files", listed_then_cut)
    report = memory.sweep()
    assert (stored(memory), verify(memory.store)) == (12, [])
    assert report.sessions_failed == 0 or times > 1


def test_a_record_that_its_parser_cannot_take_is_kept_and_named(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = ClaudeParser.feed

    def choking(parser: ClaudeParser, obj: dict[str, Any], record: Any) -> Any:
        if record.line == 6:
            raise RecursionError
        return feed(parser, obj, record)

    monkeypatch.setattr(ClaudeParser, "feed", choking)
    memory.write("a", *conversation(2))
    report = memory.sweep()
    assert [reason for _, reason in report.problems] == ["line 6: kept, but cannot be understood: RecursionError"]
    assert (stored(memory), report.records_unparsed, report.sessions_failed) == (8, 1, 0)
    assert memory.digest("claude:a")["unparsed_lines"] == 1


def test_a_session_that_fails_leaves_no_file_behind(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(_: Any) -> None:
        raise OverflowError

    memory.write("a", *conversation(1))
    monkeypatch.setattr(session_run.SessionRun, "finish_part", failing)
    assert memory.sweep().sessions_failed == 1
    assert (list(memory.store.raw.staging.iterdir()), verify(memory.store)) == ([], [])


def test_a_problem_that_is_over_is_forgotten(memory: Memory) -> None:
    link = memory.path("link")
    link.symlink_to("/nonexistent")
    memory.sweep()
    assert [key for key, _ in ask(memory.store, problems.of_places)] == [os.path.realpath(link.parent) + "/link.jsonl"]
    link.unlink()
    memory.sweep()
    assert ask(memory.store, problems.of_places) == {}


@pytest.mark.parametrize("mtime", [-86_400, 0, 4_102_444_800], ids=["1969", "1970", "2100"])
def test_the_time_of_a_file_is_only_a_hint(memory: Memory, mtime: int) -> None:
    path = memory.write("a", *conversation(2))
    os.utime(path, (mtime, mtime))
    memory.sweep()
    memory.write("a", *conversation(1, start=2), append=True)
    os.utime(path, (mtime, mtime))
    memory.sweep()
    assert (stored(memory), memory.row("claude:a").day) == (12, "2026-06-05")


@pytest.mark.parametrize(("year", "day"), [(2016, "2024-01-01"), (2036, "2026-06-05")])
def test_a_clock_that_lies_names_no_day_without_a_partition(tmp_path: Path, year: int, day: str) -> None:
    memory = Memory(tmp_path, now=datetime(year, 6, 20, tzinfo=UTC))
    memory.write("a", *conversation(1))
    memory.sweep()
    assert memory.row("claude:a").day == day
    memory.close()


def test_a_file_whose_head_cannot_be_read_is_named_in_the_report(memory: Memory) -> None:
    rollout = memory.folder / "home" / "codex" / "sessions" / "2026" / "06" / "05" / "rollout-x.jsonl.zst"
    rollout.parent.mkdir(parents=True)
    rollout.write_bytes(b"not packed at all")
    report = memory.sweep()
    assert report.problems == [(os.path.realpath(rollout), "reading failed: it cannot be decompressed")]
    assert (report.files_skipped, memory.sweep().files_skipped) == (1, 0)
