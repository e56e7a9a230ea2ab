"""test_report: runs of test tools, how they end, and their trend over time."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

from helix_assets.ask.plots import DayTrend
from helix_assets.ask.reports.frame import Asking, Report

VIEWS = ("places", "signals", "test_runs")
TOTALS = {"runs": "test_runs", "failed_runs": "test_runs_failed"}
_MOST_DAYS = 92
_RUNS = """
    CREATE TEMP TABLE runs AS
    SELECT coalesce(t.ts::DATE, t.day) AS day, t.flavor AS agent, coalesce(t.framework, '(unknown)') AS framework,
        s.repo, t.session_uid, t.passed, t.failed, t.skipped, t.duration_s, t.success
    FROM test_runs t LEFT JOIN places s USING (session_uid)
    WHERE {span}"""
_SUMS = """
    count(*) AS runs, count(*) FILTER (success) AS passed_runs, count(*) FILTER (NOT success) AS failed_runs,
    count(*) FILTER (success IS NULL) AS unknown_runs,
    round(100.0 * count(*) FILTER (success) / nullif(count(success), 0), 1) AS passed_share,
    coalesce(sum(passed), 0)::BIGINT AS tests_passed, coalesce(sum(failed), 0)::BIGINT AS tests_failed,
    count(*) FILTER (passed IS NULL OR failed IS NULL) AS runs_left_out,
    round(100.0 * sum(passed) FILTER (failed IS NOT NULL)
        / nullif(sum(passed + failed), 0), 1) AS pass_rate,
    round(median(duration_s), 1) AS median_s, count(DISTINCT session_uid) AS sessions"""


class _Runs(NamedTuple):
    start: date
    passed_runs: int
    failed_runs: int
    unknown_runs: int
    passed_share: float | None


def make(asking: Asking) -> Report:
    """How tests went in the span."""
    asking.run(_RUNS.format(span=asking.span.holds("coalesce(t.ts::DATE, t.day)")))
    by = "SELECT {0}, {1} FROM runs GROUP BY {0} ORDER BY runs DESC, {0}"
    flaky = asking.span.holds("coalesce(x.ts::DATE, x.day)")
    tables = (
        asking.table("by_framework", "By framework", by.format("framework", _SUMS)),
        asking.table("by_repo", "By repository", by.format("repo", _SUMS), private={"repo"}),
        asking.table("by_day", "By day", f"SELECT day, {_SUMS} FROM runs GROUP BY day ORDER BY day DESC"),
        asking.table(
            "flaky", "Repositories whose tests gave another result with nothing changed",
            f"SELECT s.repo, sum(x.times)::BIGINT AS times, count(DISTINCT x.session_uid) AS sessions FROM signals x "
            f"LEFT JOIN places s USING (session_uid) WHERE x.rule = 'flaky_test' AND {flaky} GROUP BY s.repo "
            "ORDER BY times DESC, s.repo",
            private={"repo"},
        ),
    )  # fmt: skip
    return Report(
        title="Tests",
        span=asking.span,
        figures=asking.figures(f"SELECT {_SUMS} FROM runs"),
        tables=tables,
        charts={"runs_by_day": _trend(asking)},
        notes=(
            "`passed_share` counts runs; those with an unknown result are left out (`unknown_runs`).",
            "`pass_rate` counts single tests, of the runs that print how many passed and how many failed; "
            "`runs_left_out` do not, such as `go test` without -v.",
        ),
    )


def _trend(asking: Asking) -> DayTrend:
    """Runs and the share that passed, by day, or by week if there are too many days to distinguish."""
    span = asking.figures("SELECT coalesce(max(day) - min(day), 0) AS days FROM runs")
    unit, days = ("week", 7) if (span["days"] or 0) > _MOST_DAYS else ("day", 1)
    found = asking.rows(
        f"SELECT date_trunc('{unit}', day)::DATE AS start, {_SUMS} FROM runs GROUP BY start ORDER BY start", _Runs
    )
    by_result = {
        "passed": {str(row.start): float(row.passed_runs) for row in found},
        "failed": {str(row.start): float(row.failed_runs) for row in found},
        "unknown": {str(row.start): float(row.unknown_runs) for row in found},
    }
    share = {str(row.start): row.passed_share for row in found if row.passed_share is not None}
    return DayTrend(f"Test runs by {unit}", by_result, share, "runs", "passed, %", days=days)
