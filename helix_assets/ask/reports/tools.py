"""tool_report: how often tools are called, how their calls end, how long they take, why they fail."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from helix_assets.agents import known_tool
from helix_assets.ask.plots import Shares
from helix_assets.ask.reports.frame import Asking, Report, ReportTable, rows_of

VIEWS = ("tool_calls",)
TOTALS = {"calls": "tool_calls"}
_STATUSES = ("ok", "error", "denied", "cancelled", "open")
_CHARTED = 15
_CALLS = """
    CREATE TEMP TABLE calls AS
    SELECT coalesce(ts::DATE, day) AS day, flavor AS agent, coalesce(tool, '(unknown)') AS tool, status, error_class,
        program, duration_ms, session_uid
    FROM tool_calls WHERE {span}"""
_SUMS = f"""
    count(*) AS calls, {", ".join(f"count(*) FILTER (status = '{status}') AS {status}" for status in _STATUSES)},
    round(100.0 * count(*) FILTER (status = 'ok') / nullif(count(*), 0), 1) AS success_rate,
    count(DISTINCT session_uid) AS sessions, median(duration_ms)::BIGINT AS median_ms,
    quantile_cont(duration_ms, 0.95)::BIGINT AS p95_ms, round(sum(duration_ms) / 1000.0, 1) AS total_s"""


def make(asking: Asking) -> Report:
    """How calls ended in the span."""
    asking.run(_CALLS.format(span=asking.span.holds("coalesce(ts::DATE, day)")))
    by = "SELECT {0}, {1} FROM calls {2} GROUP BY ALL ORDER BY calls DESC, {0}"
    tools = asking.table("by_tool", "By tool", by.format("tool", _SUMS, ""))
    tables = (
        tools,
        asking.table("by_agent", "By agent", by.format("agent, tool", _SUMS, "")),
        asking.table(
            "by_program", "By program of a shell command", by.format("program", _SUMS, "WHERE program IS NOT NULL"),
            private={"program"},
        ),
        asking.table(
            "failures", "Why calls failed",
            "SELECT tool, error_class, count(*) AS calls, count(DISTINCT session_uid) AS sessions, "
            "max(day) AS last_day FROM calls WHERE status = 'error' GROUP BY ALL "
            "ORDER BY calls DESC, tool, error_class",
        ),
        asking.table("by_day", "By day", f"SELECT day, {_SUMS} FROM calls GROUP BY day ORDER BY day DESC"),
    )  # fmt: skip
    return Report(
        title="Tools",
        span=asking.span,
        figures=asking.figures(f"SELECT {_SUMS} FROM calls"),
        tables=tables,
        charts={"calls_by_tool": Shares("How calls ended, by tool", _shares(tools), "calls")},
        notes=(
            "`success_rate` is the share of all calls that ended well, in percent; `open` calls never had a result.",
        ),
    )


class _Ended(NamedTuple):
    tool: str
    ok: int
    error: int
    denied: int
    cancelled: int
    open: int


def _shares(tools: ReportTable) -> Mapping[str, Mapping[str, float]]:
    """The most used tools; unknown tools are put together."""
    shares: dict[str, dict[str, float]] = {}
    for tool, *counts in rows_of(tools.data, _Ended):
        added = shares.setdefault(known_tool(tool), dict.fromkeys(_STATUSES, 0.0))
        for status, count in zip(_STATUSES, counts, strict=True):
            added[status] += count
    largest = sorted(shares, key=lambda name: -sum(shares[name].values()))[:_CHARTED]
    return {name: shares[name] for name in largest}
