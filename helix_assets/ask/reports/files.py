"""Report tables as CSV.

Belongs here: cells and rows as text that is safe in a spreadsheet. Not here: Markdown (`markdown`), or writing and
deleting the files (`keep.report_files`, `keep.report_folder`). Every sweep imports this, so it imports nothing large.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helix_assets.ask.reports.frame import ReportTable


def as_csv(table: ReportTable) -> str:
    """A table as CSV with a header line."""
    return csv_text(table.columns, (row.values() for row in table.rows))


def csv_text(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV with a header line."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    out.writerow(safe_cells(columns))
    out.writerows(map(safe_cells, rows))
    return text.getvalue()


def safe_cells(row: Iterable[Any]) -> Sequence[str]:
    """Cells without control characters. A text that a spreadsheet would run as a formula gets a quote before it."""
    cells = []
    for value in row:
        text = "".join(char for char in cell_text(value) if char.isprintable() or char in "\n\t")
        is_formula = text.startswith(("=", "+", "-", "@", "\t")) and not isinstance(value, int | float)
        cells.append(f"'{text}" if is_formula else text)
    return cells


def cell_text(value: Any) -> str:
    """A value as text; times are UTC."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return value.hex()
    return str(value.isoformat() if hasattr(value, "isoformat") else value)
