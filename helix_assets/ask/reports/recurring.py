"""patterns: what goes wrong again and again, as a report over the view of that name."""

from __future__ import annotations

from typing import NamedTuple

from helix_assets.ask.plots import Shares
from helix_assets.ask.reports.frame import Asking, Report

VIEWS = ("patterns",)
TOTALS: dict[str, str] = {}


class _Counted(NamedTuple):
    kind: str
    trend: str
    patterns: int


def make(asking: Asking) -> Report:
    """The patterns last seen in the span; their counts and first days are over all days."""
    asking.run(f"CREATE TEMP TABLE found AS SELECT * FROM patterns WHERE {asking.span.holds('last_seen')}")
    order = "ORDER BY sessions DESC, times DESC, pattern_id"
    private = {"repo", "snippet", "file_path", "tool"}
    repo = "CASE repos WHEN 1 THEN list_max(json_extract_string(evidence, '$[*].repo')) END AS repo"
    tables = (
        asking.table(
            "patterns", "Patterns",
            f"SELECT pattern_id, kind, error_class, trend, sessions, days, repos, {repo}, times, first_seen, "
            f"last_seen, tool, file_path, snippet FROM found {order}",
            private,
        ),
        asking.table(
            "evidence", "Where they can be looked at",
            "SELECT pattern_id, e->>'session_uid' AS session_uid, (e->'record_keys')::BIGINT[] AS record_keys, "
            "(e->>'day')::DATE AS day, e->>'repo' AS repo, (e->>'times')::BIGINT AS times, e->>'snippet' AS snippet "
            f"FROM (SELECT *, unnest(evidence::JSON[]) AS e FROM found) {order}, day DESC, session_uid",
            {"session_uid", "record_keys", "repo", "snippet"},
        ),
    )  # fmt: skip
    by_kind: dict[str, dict[str, float]] = {}
    counts = "SELECT kind, trend, count(*) AS patterns FROM found GROUP BY ALL ORDER BY kind, trend"
    for row in asking.rows(counts, _Counted):
        by_kind.setdefault(row.kind, {})[row.trend] = row.patterns
    return Report(
        title="Patterns",
        span=asking.span,
        figures=asking.figures(
            "SELECT count(*) AS patterns, count(*) FILTER (trend = 'new') AS new, "
            "count(*) FILTER (trend = 'rising') AS rising, count(*) FILTER (trend = 'quiet') AS quiet FROM found"
        ),
        tables=tables,
        charts={"patterns_by_kind": Shares("Patterns by kind and trend", by_kind, "patterns")},
        notes=("What counts as a pattern, and how its trend is found: docs/patterns.md.",),
    )
