"""A report's files: Markdown, a CSV and a Parquet file per table, an SVG per picture, in a folder of its own.

Belongs here: writing them whole or not at all, and dropping them all. They hold words of sessions, so they go whenever
a session is forgotten, the redaction rules change or a copy is put back; the next report makes them anew. Not here:
what stands in them (`markdown`, the reports). Imported by every sweep, so nothing heavy is loaded.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import func, select

from helix_assets.hub import drop_retro_notes, write_retro_note
from helix_assets.storage.durable import sync
from helix_assets.storage.tables import forgotten
from helix_assets.store import Store

if TYPE_CHECKING:
    from helix_assets.reports.frame import Report, ReportTable

FOLDER = "reports"
_FRESH, _OLD = ".new", ".old"


def write_report(store: Store, name: str, make: Callable[[], Report]) -> tuple[Report, Path]:
    """Make a report and write its files into `reports/<name>`; gives it and the folder.

    It is made before the writer lock is asked for, and once more under the lock if a session was forgotten or the
    memory was redacted by other rules meanwhile: what must not be told any more never gets its name.
    """
    seen = _erasures(store)
    report = make()
    with store.writing("report"):
        if _erasures(store) != seen:
            report = make()
        folder = _publish(store.data_dir, name, report)
        if (note := report.note) is not None:
            write_retro_note(store.data_dir, note.at, note.week, note.figures, note.text)
        return report, folder


def drop_reports(data_dir: Path) -> None:
    """Remove all reports, and the hub notes made of them."""
    shutil.rmtree(data_dir / FOLDER, ignore_errors=True)
    if (data_dir / FOLDER).exists():
        raise OSError(f"{data_dir / FOLDER} cannot be removed")
    drop_retro_notes(data_dir)


def _erasures(store: Store) -> tuple[Any, ...]:
    """What changes when something in the memory must not be told any more."""
    with store.catalog.reading() as connection:
        gone = connection.execute(select(func.count(), func.max(forgotten.c.at))).one()
    return (*gone, store.catalog.meta_value("names_redacted_with"))


def _publish(data_dir: Path, name: str, report: Report) -> Path:
    """Write all files under another name, then put the folder in the place of the one before."""
    root = data_dir / FOLDER
    folder = root / name / report.edition if report.edition else root / name
    fresh, old = root / _FRESH, root / _OLD
    for left in (fresh, old):
        shutil.rmtree(left, ignore_errors=True)
    fresh.mkdir(mode=0o700, parents=True)
    _write(fresh, name, report, data_dir / "dagster" / "matplotlib")
    sync(fresh, [path for path in fresh.iterdir() if path.is_file()])
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.exists():
        os.rename(folder, old)
    os.rename(fresh, folder)
    shutil.rmtree(old, ignore_errors=True)
    return folder


def _write(folder: Path, name: str, report: Report, cache_dir: Path) -> None:
    import pyarrow.parquet as pq

    from helix_assets.plots import write_svg
    from helix_assets.reports.markdown import as_markdown

    for table in report.tables:
        (folder / f"{table.name}.csv").write_text(as_csv(table), encoding="utf-8")
        pq.write_table(table.data, folder / f"{table.name}.parquet", compression="zstd")
    for chart_name, chart in report.charts.items():
        write_svg(chart, folder / f"{chart_name}.svg", cache_dir)
    text = as_markdown(report, {chart: f"{chart}.svg" for chart in report.charts})
    (folder / f"{name}.md").write_text(text, encoding="utf-8")


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
