"""A report's files: Markdown, a CSV and a Parquet file per table, an SVG per picture, in a folder of its own.

Belongs here: writing them whole or not at all, and dropping them all. They hold words of sessions, so they go whenever
a session is forgotten, the redaction rules change or a copy is put back; the next report makes them anew. Not here:
what stands in them (`markdown`, the reports). Imported by every sweep, so nothing heavy is loaded.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
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


def safe_cells(row: Iterable[Any]) -> list[str]:
    """Cells without control characters; a text that a spreadsheet would take for a formula gets a quote before it."""
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
