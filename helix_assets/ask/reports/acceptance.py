"""acceptance_report: what becomes of edits: accepted, denied, and changed again later."""

from __future__ import annotations

from typing import NamedTuple

from helix_assets.ask.plots import Shares
from helix_assets.ask.reports.frame import Asking, Report, rows_of

VIEWS = ("file_operations",)
TOTALS: dict[str, str] = {}
_CHARTED = 15
# An edit counts as modified later if another accepted edit of the same file comes after it, and as modified elsewhere
# if that is of another session.
_EDITS = """
    CREATE TEMP TABLE edits AS
    SELECT * FROM (
        SELECT coalesce(ts::DATE, day) AS day, flavor AS agent, coalesce(tool, '(unknown)') AS tool,
            coalesce(language, '(none)') AS language, accepted, session_uid,
            coalesce(accepted AND later > 0, false) AS is_modified,
            coalesce(accepted AND later > later_here, false) AS is_modified_elsewhere
        FROM (
            SELECT *, count(*) FILTER (accepted) OVER behind AS later,
                count(*) FILTER (accepted) OVER here AS later_here
            FROM file_operations WHERE operation IN ('edit', 'write')
            WINDOW behind AS (PARTITION BY file_path ORDER BY coalesce(ts, day), record_key, session_uid
                              ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING),
                here AS (PARTITION BY file_path, session_uid ORDER BY coalesce(ts, day), record_key
                         ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING)))
    WHERE {span}"""
_SUMS = """
    count(*) AS edits, count(*) FILTER (accepted) AS accepted, count(*) FILTER (NOT accepted) AS denied,
    count(*) FILTER (accepted IS NULL) AS undecided,
    round(100.0 * count(*) FILTER (accepted) / nullif(count(accepted), 0), 1) AS acceptance_rate,
    count(*) FILTER (is_modified) AS later_modified,
    count(*) FILTER (is_modified_elsewhere) AS later_modified_elsewhere,
    round(100.0 * count(*) FILTER (is_modified_elsewhere) / nullif(count(*) FILTER (accepted), 0), 1)
        AS modified_elsewhere_share,
    count(DISTINCT session_uid) AS sessions"""


class _Charted(NamedTuple):
    language: str
    accepted: int
    later_modified: int
    denied: int
    undecided: int


def make(asking: Asking) -> Report:
    """What became of the edits in the span, also because of later edits after it."""
    asking.run(_EDITS.format(span=asking.span.holds("day")))
    by = "SELECT {0}, {1} FROM edits GROUP BY ALL ORDER BY edits DESC, {0}"
    languages = asking.table("by_language", "By language", by.format("language", _SUMS))
    tables = (
        languages,
        asking.table("by_tool", "By tool", by.format("agent, tool", _SUMS)),
        asking.table("by_agent", "By agent", by.format("agent", _SUMS)),
        asking.table("by_day", "By day", f"SELECT day, {_SUMS} FROM edits GROUP BY day ORDER BY day DESC"),
    )
    shares = {
        row.language: {
            "stayed": row.accepted - row.later_modified,
            "modified": row.later_modified,
            "denied": row.denied,
            "undecided": row.undecided,
        }
        for row in rows_of(languages.data, _Charted)[:_CHARTED]
    }
    return Report(
        title="What becomes of edits",
        span=asking.span,
        figures=asking.figures(f"SELECT {_SUMS} FROM edits"),
        tables=tables,
        charts={
            "edits_by_language": Shares(
                "What became of edits, by language (accepted ones: stayed or later modified)", shares, "edits"
            )
        },
        notes=(
            "An edit is accepted when it was done, denied when a person or the permissions refused it, undecided when "
            "it failed, was cancelled or has no result. `later_modified`: another accepted edit of the same file came "
            "after it; `later_modified_elsewhere`: one of another session did. Logs do not show what people change by "
            "hand.",
        ),
    )
