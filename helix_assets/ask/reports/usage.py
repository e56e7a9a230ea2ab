"""usage_report: tokens and cost by day, agent, repository and model."""

from __future__ import annotations

from helix_assets.ask.plots import DayBars
from helix_assets.ask.reports.frame import Asking, Report

VIEWS = ("places", "token_usage")
TOTALS = {"input_tokens": "input_tokens", "output_tokens": "output_tokens", "cache_read_tokens": "cache_read_tokens",
          "cache_write_tokens": "cache_write_tokens"}  # fmt: skip
# Costs are added in whole picodollars: the same total in any order.
_SPENT = """
    CREATE TEMP TABLE spent AS
    SELECT coalesce(u.ts::DATE, u.day) AS day, u.flavor AS agent, s.repo, coalesce(u.model, '(unknown)') AS model,
        u.session_uid, u.is_sidechain, u.input, u.output, u.cache_read,
        u.cache_write_5m + u.cache_write_1h AS cache_write, round(u.cost_usd * 1e12)::BIGINT AS pico
    FROM token_usage u LEFT JOIN places s USING (session_uid)
    WHERE {span}"""
_SUMS = """
    count(DISTINCT session_uid) AS sessions, count(*) AS messages, coalesce(sum(input), 0)::BIGINT AS input_tokens,
    coalesce(sum(output), 0)::BIGINT AS output_tokens, coalesce(sum(cache_read), 0)::BIGINT AS cache_read_tokens,
    coalesce(sum(cache_write), 0)::BIGINT AS cache_write_tokens, sum(pico) / 1e12 AS cost_usd,
    sum(pico) FILTER (is_sidechain) / 1e12 AS subagents_cost_usd, count(*) FILTER (pico IS NULL) AS unpriced_messages"""


def make(asking: Asking) -> Report:
    """What was spent in the span."""
    asking.run(_SPENT.format(span=asking.span.holds("coalesce(u.ts::DATE, u.day)")))
    last = "cost_usd DESC NULLS LAST, output_tokens DESC"
    tables = (
        asking.table("by_day", "By day", f"SELECT day, {_SUMS} FROM spent GROUP BY day ORDER BY day DESC"),
        asking.table("by_agent", "By agent", f"SELECT agent, {_SUMS} FROM spent GROUP BY agent ORDER BY {last}, agent"),
        asking.table(
            "by_repo", "By repository", f"SELECT repo, {_SUMS} FROM spent GROUP BY repo ORDER BY {last}, repo",
            private={"repo"},
        ),
        asking.table(
            "by_model", "By model", f"SELECT model, {_SUMS} FROM spent GROUP BY model ORDER BY {last}, model",
            private={"model"},
        ),
    )  # fmt: skip
    by_day = "SELECT agent, day, {} FROM spent GROUP BY agent, day ORDER BY agent, day"
    return Report(
        title="Tokens and cost",
        span=asking.span,
        figures=asking.figures(f"SELECT {_SUMS} FROM spent"),
        tables=tables,
        charts={
            "output_by_day": DayBars("Output tokens by day", asking.by_day(by_day.format("sum(output)")), "tokens"),
            "cost_by_day": DayBars("Cost by day", asking.by_day(by_day.format("sum(pico) / 1e12")), "US dollars"),
        },
        notes=(
            "Days are those of the messages. A message of a model without a price has no cost: it is in "
            "`unpriced_messages`, not in `cost_usd`. `cost_usd` includes what subagents cost.",
        ),
    )
