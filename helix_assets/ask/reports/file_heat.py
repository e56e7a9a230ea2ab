"""file_heatmap: which files are changed and read most, and when."""

from __future__ import annotations

from datetime import date
from typing import NamedTuple

from helix_assets.ask.plots import Heat
from helix_assets.ask.reports.frame import Asking, Report, ReportTable, rows_of

VIEWS = ("file_operations", "places")
TOTALS: dict[str, str] = {}
FILES = 1000
_CHARTED = 20
_OPERATIONS = """
    CREATE TEMP TABLE operations AS
    SELECT coalesce(o.ts::DATE, o.day) AS day, o.operation IN ('edit', 'write', 'delete') AS is_change,
        o.operation = 'read' AS is_read, o.file_path, coalesce(o.language, '(none)') AS language, s.repo, o.session_uid,
        o.lines_added, o.lines_removed, o.accepted
    FROM file_operations o LEFT JOIN places s USING (session_uid)
    WHERE o.file_path IS NOT NULL AND {span}"""
_SUMS = """
    count(*) FILTER (is_change) AS changes, count(*) FILTER (is_read) AS reads,
    coalesce(sum(lines_added), if(count(*) FILTER (is_change) > 0, NULL, 0))::BIGINT AS lines_added,
    coalesce(sum(lines_removed), if(count(*) FILTER (is_change) > 0, NULL, 0))::BIGINT AS lines_removed,
    count(*) FILTER (is_change AND accepted) AS accepted, count(*) FILTER (is_change AND NOT accepted) AS denied,
    count(DISTINCT session_uid) AS sessions, count(DISTINCT day) AS days"""


class _Ranked(NamedTuple):
    rank: int
    language: str


class _Changed(NamedTuple):
    rank: int
    week: date
    changes: int


def make(asking: Asking) -> Report:
    """What was done to files in the span."""
    asking.run(_OPERATIONS.format(span=asking.span.holds("coalesce(o.ts::DATE, o.day)")))
    asking.run(f"""
        CREATE TEMP TABLE ranked AS
        SELECT row_number() OVER (ORDER BY changes DESC, reads DESC, file_path) AS rank, * FROM (
            SELECT file_path, any_value(language) AS language, any_value(repo) AS repo, {_SUMS},
                max(day) FILTER (is_change) AS last_changed
            FROM operations GROUP BY file_path)""")
    files = asking.table(
        "files", f"Files, those changed most first (at most {FILES})",
        f"SELECT * FROM ranked WHERE rank <= {FILES} ORDER BY rank", private={"file_path", "repo"},
    )  # fmt: skip
    by = "SELECT {0}, {1}, count(DISTINCT file_path) AS files FROM operations GROUP BY {0} ORDER BY changes DESC, {0}"
    return Report(
        title="Files",
        span=asking.span,
        figures=asking.figures(f"SELECT {_SUMS}, count(DISTINCT file_path) AS files FROM operations"),
        tables=(
            files,
            asking.table("by_language", "By language", by.format("language", _SUMS)),
            asking.table("by_repo", "By repository", by.format("repo", _SUMS), private={"repo"}),
        ),
        charts={"files_by_week": _heat(asking, files)},
        notes=(
            "Changes are edits, writes and deletions by tool calls. The picture names files by their rank in the "
            "table.",
        ),
    )


def _heat(asking: Asking, files: ReportTable) -> Heat:
    """Changes of the most changed files by week."""
    counted = asking.rows(
        f"""
        SELECT r.rank, date_trunc('week', o.day)::DATE AS week, count(*) AS changes
        FROM operations o JOIN ranked r USING (file_path)
        WHERE o.is_change AND r.rank <= {_CHARTED} AND r.changes > 0 GROUP BY ALL ORDER BY ALL""",
        _Changed,
    )
    weeks = sorted({row.week for row in counted})
    ranks = sorted({row.rank for row in counted})
    number = {(row.rank, row.week): row.changes for row in counted}
    language = dict(rows_of(files.data, _Ranked)[:_CHARTED])
    return Heat(
        "Changes of the most changed files, by week",
        [f"{rank}. {language[rank]}" for rank in ranks],
        [week.isoformat() for week in weeks],
        [[float(number.get((rank, week), 0)) for week in weeks] for rank in ranks],
        "changes",
    )
