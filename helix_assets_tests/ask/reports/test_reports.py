"""What the reports say of sessions whose figures are counted by hand."""

from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from helix_assets.ask.reports.all_reports import REPORTS, make_report, totals_of_digests
from helix_assets.ask.reports.frame import Report, Span
from helix_assets.model.errors import QueryError
from helix_assets_tests.ask.reports.conftest import on, working
from helix_assets_tests.home import Memory

TODAY = date(2026, 6, 10)


def made(memory: Memory, name: str, **span: date) -> Report:
    return make_report(memory.store, name, Span(**span), today=TODAY)


def rows(report: Report, table: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in report.table(table).rows]


def test_usage_is_told_by_repository_and_day(memory: Memory) -> None:
    report = made(memory, "usage_report")
    # per session: 5 tokens for each call, 100 for the last answer
    assert report.figures["output_tokens"] == 3 * (100 + 2 * 5) + (100 + 4 * 5)
    assert rows(report, "by_repo", "repo", "sessions", "output_tokens") == [("shop", 3, 340), ("mill", 1, 110)]
    assert rows(report, "by_day", "day", "output_tokens") == [(date(2026, 6, 8), 340), (date(2026, 6, 3), 110)]


def test_costs_of_the_parts_are_the_cost_of_the_whole(memory: Memory) -> None:
    report = made(memory, "usage_report")
    whole = report.figures["cost_usd"]
    assert whole
    for table in report.tables:
        assert sum(round(row["cost_usd"] * 10**12) for row in table.rows) == round(whole * 10**12)


def test_a_message_without_a_price_has_no_cost(memory: Memory) -> None:
    path = memory.path("s0")
    path.write_bytes(path.read_bytes().replace(b"claude-opus-4-5", b"house-model-one"))
    memory.sweep()
    report = made(memory, "usage_report", until=date(2026, 6, 5))
    assert (report.figures["cost_usd"], report.figures["unpriced_messages"]) == (None, report.figures["messages"])


def test_calls_are_told_by_tool_with_how_they_ended(memory: Memory) -> None:
    report = made(memory, "tool_report")
    assert rows(report, "by_tool", "tool", "calls", "ok", "error") == [("Edit", 6, 6, 0), ("Bash", 4, 3, 1)]
    assert rows(report, "by_tool", "median_ms") == [(10_000,), (30_000,)]
    assert rows(report, "failures", "tool", "error_class") == [("Bash", "test_failure")]


def test_files_are_ranked_by_their_changes(memory: Memory) -> None:
    report = made(memory, "file_heatmap")
    assert rows(report, "files", "rank", "file_path", "changes", "sessions") == [
        (1, "/home/u/shop/cart.py", 5, 3),
        (2, "/home/u/mill/wheel.go", 1, 1),
    ]


def test_runs_of_tests_are_told_by_day(memory: Memory) -> None:
    report = made(memory, "test_report")
    assert rows(report, "by_day", "day", "runs", "failed_runs", "tests_passed", "tests_failed") == [
        (date(2026, 6, 8), 3, 1, 8, 1),
        (date(2026, 6, 3), 1, 0, 3, 0),
    ]


def test_the_pass_rate_is_of_runs_that_tell_passes_and_failures(memory: Memory) -> None:
    plain_go = "--- FAIL: TestA (0.00s)\nFAIL\nFAIL\texample.com/shop\t0.01s\nFAIL"  # says nothing of what passed
    lines = [line.replace(b"pytest -q", b"go test ./...") for line in working("go", tests=plain_go)]
    memory.write("s4", *on("2026-06-09", "shop", *lines))
    memory.sweep()
    report = made(memory, "test_report")
    wanted = ("framework", "runs", "runs_left_out", "tests_failed", "pass_rate")
    assert rows(report, "by_framework", *wanted) == [("pytest", 4, 0, 1, 91.7), ("go test", 1, 1, 1, None)]
    assert (report.figures["runs_left_out"], report.figures["pass_rate"]) == (1, 91.7)


def test_runs_of_more_than_three_months_are_drawn_by_week(memory: Memory) -> None:
    memory.write("s4", *on("2026-01-07", "shop", *working("long")))
    memory.sweep()
    chart = made(memory, "test_report").charts["runs_by_day"]
    assert chart.title == "Test runs by week"
    assert chart.series["passed"] == {"2026-01-05": 1, "2026-06-01": 1, "2026-06-08": 2}  # type: ignore[attr-defined]


def test_an_edit_that_another_followed_was_later_modified(memory: Memory) -> None:
    figures = made(memory, "acceptance_report").figures
    assert (figures["edits"], figures["accepted"], figures["later_modified"]) == (6, 6, 4)
    # the old one and those of the first of two sessions
    assert figures["later_modified_elsewhere"] == 1 + 3


def test_a_later_edit_counts_where_it_is_outside_the_days(memory: Memory) -> None:
    figures = made(memory, "acceptance_report", until=date(2026, 6, 3)).figures
    assert (figures["edits"], figures["later_modified_elsewhere"]) == (1, 1)


def test_the_retro_tells_a_week_by_repository(memory: Memory) -> None:
    report = made(memory, "weekly_retro")
    assert report.edition == "2026-W24"
    assert sorted(rows(report, "by_repo", "repo", "sessions", "edits")) == [("mill", 1, 1), ("shop", 2, 4)]
    assert [row["done"] for row in report.table("by_repo").rows if row["repo"] == "mill"] == ["please do mill"]


def test_the_retro_weighs_the_week_against_the_one_before(memory: Memory) -> None:
    changes = {row["measure"]: row for row in made(memory, "weekly_retro").table("changes").rows}
    assert (changes["sessions"]["this_week"], changes["sessions"]["week_before"]) == (3, 1)
    assert changes["failed_test_share"]["verdict"] == "worse"
    assert changes["edits"]["verdict"] is None


def test_the_retros_note_holds_no_text_of_a_session(memory: Memory) -> None:
    note = made(memory, "weekly_retro").note
    assert note is not None
    assert "please do" not in note.text
    assert (note.week, note.figures["sessions"]) == ("2026-06-08", 3)


@pytest.mark.parametrize(("today", "week"), [(date(2026, 6, 8), "2026-W23"), (date(2026, 6, 9), "2026-W24")])
def test_the_retro_is_that_of_yesterday_so_that_a_monday_tells_the_week_before(
    memory: Memory, today: date, week: str
) -> None:
    assert make_report(memory.store, "weekly_retro", today=today).edition == week


def test_a_week_without_a_session_is_told_as_empty(memory: Memory) -> None:
    report = made(memory, "weekly_retro", until=date(2025, 1, 1))
    assert report.figures["sessions"] == 0
    assert not report.table("by_repo").rows


@pytest.mark.parametrize("name", [name for name, kind in REPORTS.items() if kind.totals])
def test_totals_are_the_sums_over_the_digests(memory: Memory, name: str) -> None:
    totals = totals_of_digests(memory.store, name)
    assert any(told for told, _ in totals.values())
    assert all(told == summed for told, summed in totals.values())


@pytest.mark.parametrize("name", REPORTS)
def test_an_empty_memory_has_every_report(tmp_path: Any, name: str) -> None:
    empty = Memory(tmp_path, {"HELIX_AGENTS": "claude"})
    empty.sweep()
    report = made(empty, name)
    empty.close()
    assert not any(report.figures.values())


@pytest.mark.parametrize("name", REPORTS)
def test_days_beyond_all_sessions_are_empty(memory: Memory, name: str) -> None:
    days = {"until": date(2020, 1, 1)}
    assert not any(made(memory, name, **days).figures.values())


def test_what_is_damaged_is_left_out_and_named(memory: Memory) -> None:
    file = next(file for file in memory.fact_files() if file.fact == "tool_calls")
    memory.store.facts.path(file.name).write_bytes(b"torn")
    report = made(memory, "tool_report")
    assert report.left_out == (file.name,)
    assert 0 < report.figures["calls"] < 10  # type: ignore[operator]


def test_days_the_wrong_way_round_are_refused() -> None:
    with pytest.raises(QueryError, match="give the first day, then the last"):
        Span(date(2026, 2, 1), date(2026, 1, 31))


def test_a_retro_takes_no_first_day(memory: Memory) -> None:
    with pytest.raises(QueryError, match="one week"):
        made(memory, "weekly_retro", since=date(2026, 6, 1))


def test_an_unknown_report_or_table_is_refused_with_those_there_are(memory: Memory) -> None:
    with pytest.raises(QueryError, match="usage_report, tool_report"):
        make_report(memory.store, "usage")
    with pytest.raises(QueryError, match="by_tool"):
        made(memory, "tool_report").table("by_wool")
