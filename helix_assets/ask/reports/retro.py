"""weekly_retro: a week by repository: what was done, what it cost, what failed, and the same for the week before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from typing import NamedTuple

from helix_assets.ask.plots import DayBars
from helix_assets.ask.reports.frame import Asking, Note, Number, Report, ReportTable, Span, rows_of
from helix_assets.ask.reports.markdown import as_table
from helix_assets.model.errors import QueryError

VIEWS = ("digests", "patterns")
TOTALS: dict[str, str] = {}
WORTH_READING = 10
_SESSIONS = """
    CREATE TEMP TABLE week AS
    SELECT session_uid, started_at::DATE >= DATE '{monday}' AS is_now, started_at::DATE AS day, flavor AS agent,
        coalesce(repo, '(none)') AS repo, title, first_prompt, outcome, outcome_reason, active_s, turns, tool_calls,
        tool_errors, interventions, longest_failure_streak, compactions, test_runs, test_runs_failed, edits,
        lines_added, lines_removed, files_touched, output_tokens, round(cost_usd * 1e12)::BIGINT AS pico
    FROM digests WHERE started_at::DATE BETWEEN DATE '{before}' AND DATE '{sunday}'"""
# Whether more is better (1), worse (-1), or neither (0).
_MEASURES: Mapping[str, tuple[str, int]] = {
    "sessions": ("count(*)", 0),
    "success_share": ("round(100.0 * count(*) FILTER (outcome = 'success') / "
                      "nullif(count(*) FILTER (outcome IN ('success', 'fail', 'abandoned')), 0), 1)", 1),
    "failed_sessions": ("count(*) FILTER (outcome = 'fail')", -1),
    "abandoned_sessions": ("count(*) FILTER (outcome = 'abandoned')", -1),
    "cost_usd": ("round(sum(pico) / 1e12, 4)", 0),
    "cost_usd_per_session": ("round(avg(pico) / 1e12, 4)", -1),
    "active_hours": ("round(sum(active_s) / 3600.0, 1)", 0),
    "edits": ("sum(edits)::BIGINT", 0),
    "lines_changed": ("sum(lines_added + lines_removed)::BIGINT", 0),
    "tool_error_share": ("round(100.0 * sum(tool_errors) / nullif(sum(tool_calls), 0), 1)", -1),
    "test_runs": ("sum(test_runs)::BIGINT", 0),
    "failed_test_share": ("round(100.0 * sum(test_runs_failed) / nullif(sum(test_runs), 0), 1)", -1),
    "interventions_per_session": ("round(avg(interventions), 2)", -1),
    "unpriced_sessions": ("count(*) FILTER (pico IS NULL)", 0),
}  # fmt: skip
_LARGE = 0.1
"""A change of less than a tenth is neither an improvement nor a regression."""


def week_of(day: date) -> Span:
    """The ISO week that a day is in, Monday to Sunday."""
    monday = day - timedelta(days=day.weekday())
    return Span(monday, monday + timedelta(days=6))


def make(asking: Asking) -> Report:
    """The week of the last day asked for; by default that of yesterday, so that Monday reports the week before."""
    if asking.span.since is not None:
        raise QueryError("weekly_retro is about one week: give any day of it as the last day, and no first day")
    span = week_of(asking.span.until or asking.today - timedelta(days=1))
    assert span.since is not None
    before = span.since - timedelta(days=7)
    asking.run(_SESSIONS.format(monday=span.since, sunday=span.until, before=before))
    year, number, _ = span.since.isocalendar()
    edition = f"{year}-W{number:02d}"
    tables = (
        asking.table(
            "by_repo", "What was done, by repository",
            f"SELECT repo, {_measured()}, string_agg(coalesce(title, first_prompt), '; ' "
            "ORDER BY pico DESC NULLS LAST, session_uid) AS done "
            "FROM week WHERE is_now GROUP BY repo ORDER BY sum(pico) DESC NULLS LAST, repo",
            {"repo", "done"},
        ),
        asking.table(
            "failed", "What failed",
            "SELECT session_uid, agent, repo, outcome, outcome_reason, tool_errors, longest_failure_streak, "
            "pico / 1e12 AS cost_usd, coalesce(title, first_prompt) AS title FROM week WHERE is_now AND outcome IN "
            "('fail', 'abandoned') ORDER BY outcome DESC, pico DESC NULLS LAST, session_uid",
            {"session_uid", "repo", "title"},
        ),
        asking.table("changes", "Against the week before", _changes_sql()),
        asking.table("changes_by_repo", "Against the week before, by repository", _changes_sql("repo"), {"repo"}),
        asking.table("patterns", "Top patterns", _patterns_sql(span), {"snippet"}),
        asking.table(
            "worth_reading", "Sessions worth reading", _worth_reading_sql(),
            {"session_uid", "repo", "title"},
        ),
    )  # fmt: skip
    by_day = "SELECT {}, day, {} FROM week GROUP BY ALL ORDER BY ALL"
    figures = _figures(asking, rows_of(tables[2].data, _Judged))
    return Report(
        title=f"Retro of week {edition}",
        span=span,
        edition=edition,
        figures=figures,
        note=_note(asking.today, span, figures, {table.name: table for table in tables}),
        tables=tables,
        charts={
            "outcomes_by_day": DayBars(
                "Sessions by outcome, this week and the week before",
                asking.by_day(by_day.format("outcome", "count(*)")), "sessions",
            ),
            "cost_by_day": DayBars(
                "Cost by agent, this week and the week before",
                asking.by_day(by_day.format("agent", "sum(pico) / 1e12")), "US dollars",
            ),
        },
        notes=(
            "A session counts for the week in which it began. Changes of less than a tenth, and those of measures that "
            "are neither good nor bad, have no verdict.",
        ),
    )  # fmt: skip


def _note(today: date, span: Span, figures: Mapping[str, Number], tables: Mapping[str, ReportTable]) -> Note:
    """The week for the State Hub: no title, no prompt, no snippet."""
    shown: dict[str, tuple[str, ...]] = {
        "by_repo": ("repo", "sessions", "failed_sessions", "abandoned_sessions", "cost_usd", "active_hours", "edits"),
        "changes": ("measure", "this_week", "week_before", "change", "verdict"),
        "failed": ("session_uid", "repo", "outcome", "outcome_reason", "tool_errors"),
        "patterns": ("pattern_id", "kind", "error_class", "trend", "seen_this_week", "sessions"),
        "worth_reading": ("session_uid", "repo", "points", "why"),
    }
    parts = [f"# The week from {span}"]
    for name, columns in shown.items():
        parts += [f"## {tables[name].title}", as_table(replace(tables[name], data=tables[name].data.select(columns)))]
    parts.append("All of it, with titles and pictures: `helix report weekly_retro`.")
    known = {name: number for name, number in figures.items() if number is not None}
    return Note(today.isoformat(), str(span.since), known, "\n\n".join(parts) + "\n")


def _measured() -> str:
    """The measures as columns."""
    return ", ".join(f"{sql} AS {name}" for name, (sql, _) in _MEASURES.items())


class _Judged(NamedTuple):
    verdict: str | None


def _figures(asking: Asking, changes: Sequence[_Judged]) -> Mapping[str, Number]:
    figures = asking.figures(f"SELECT {_measured()} FROM week WHERE is_now")
    verdicts = [row.verdict for row in changes]
    return {**figures, "better": verdicts.count("better"), "worse": verdicts.count("worse")}


def _changes_sql(by: str = "") -> str:
    """Every measure of this week and of the week before, and whether the change is good."""
    names = ", ".join(_MEASURES)
    wide = ", ".join(f"({sql})::DOUBLE AS {name}" for name, (sql, _) in _MEASURES.items())
    good = " ".join(f"WHEN '{name}' THEN {sign}" for name, (_, sign) in _MEASURES.items())
    place = " ".join(f"WHEN '{name}' THEN {number}" for number, name in enumerate(_MEASURES))
    key = f"{by}, " if by else ""
    join = f"USING ({key}measure)"
    return f"""
        WITH measured AS (
            UNPIVOT (SELECT {key}is_now, {wide} FROM week GROUP BY {key}is_now) ON {names}
            INTO NAME measure VALUE number),
        pairs AS (
            SELECT {key}measure, n.number AS this_week, b.number AS week_before
            FROM (FROM measured WHERE is_now) n JOIN (FROM measured WHERE NOT is_now) b {join})
        SELECT {key}measure, this_week, week_before, round(this_week - week_before, 4) AS change,
            CASE WHEN abs(this_week - week_before) < {_LARGE} * greatest(abs(this_week), abs(week_before)) THEN NULL
                WHEN this_week = week_before THEN NULL
                ELSE CASE sign(this_week - week_before) * CASE measure {good} END
                    WHEN 1 THEN 'better' WHEN -1 THEN 'worse' END END AS verdict
        FROM pairs ORDER BY {key}CASE measure {place} END"""


def _patterns_sql(span: Span) -> str:
    """The patterns that have sessions of the week in their evidence."""
    return f"""
        SELECT pattern_id, kind, error_class, trend, count(*) AS seen_this_week, any_value(sessions) AS sessions,
            any_value(first_seen) AS first_seen, any_value(p.snippet) AS snippet
        FROM (SELECT *, unnest(evidence::JSON[]) AS e FROM patterns) p
        WHERE {span.holds("(e->>'day')::DATE")}
        GROUP BY ALL ORDER BY seen_this_week DESC, sessions DESC, pattern_id LIMIT 20"""


def _worth_reading_sql() -> str:
    """Sessions that stand out, and why: one point for every reason."""
    reasons = {
        "cost more than nine in ten": "pico > (SELECT quantile_cont(pico, 0.9) FROM week WHERE is_now)",
        "a person stepped in twice or more": "interventions >= 2",
        "five failures in a row": "longest_failure_streak >= 5",
        "it failed after much work": "outcome IN ('fail', 'abandoned') AND tool_calls >= 20",
        "tests failed, and then it succeeded": "outcome = 'success' AND test_runs_failed >= 2",
        "its context was compacted": "compactions > 0",
    }
    cases = ", ".join(f"CASE WHEN {sql} THEN '{words}' END" for words, sql in reasons.items())
    return f"""
        SELECT session_uid, agent, repo, len(why) AS points, array_to_string(why, '; ') AS why, title FROM (
            SELECT *, list_filter([{cases}], lambda reason: reason IS NOT NULL) AS why FROM
            (SELECT * REPLACE (coalesce(title, first_prompt) AS title) FROM week WHERE is_now))
        WHERE len(why) > 0 ORDER BY points DESC, pico DESC NULLS LAST, session_uid LIMIT {WORTH_READING}"""
