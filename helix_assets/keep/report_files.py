"""The files of reports: written whole or not at all, and dropped.

They contain words of sessions, so they are dropped when a session is forgotten, the redaction rules change or a copy is
restored. The next report makes them again. Imported by every sweep, so nothing heavy is loaded.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helix_assets.ask.reports.files import as_csv
from helix_assets.keep.notes import write_retro_note
from helix_assets.keep.report_folder import FOLDER
from helix_assets.keep.writing import writing
from helix_assets.store.catalog import meta, tombstones
from helix_assets.store.durable import sync
from helix_assets.store.store import MEMORY_REDACTED, Store

if TYPE_CHECKING:
    from helix_assets.ask.reports.frame import Report


_FRESH, _OLD = ".new", ".old"


def write_report(store: Store, name: str, make: Callable[[], Report]) -> tuple[Report, Path]:
    """Make a report and write its files into `reports/<name>`. Returns the report and the folder.

    It is made before the writer lock is taken, and again under the lock if meanwhile a session was forgotten or the
    memory was redacted by other rules: what must no longer be shown is never published.
    """
    seen = _erasures(store)
    report = make()
    with writing(store, "report"):
        if _erasures(store) != seen:
            report = make()
        folder = _publish(store.data_dir, name, report)
        if (note := report.note) is not None:
            write_retro_note(store.data_dir, note.at, note.week, note.figures, note.text)
        return report, folder


def _erasures(store: Store) -> tuple[Any, ...]:
    """A value that changes when something in the memory must no longer be shown."""
    with store.catalog.reading() as connection:
        return *tombstones.extent(connection), meta.value(connection, MEMORY_REDACTED)


def _publish(data_dir: Path, name: str, report: Report) -> Path:
    """Write all files under another name, then replace the folder by this one."""
    root = data_dir / FOLDER
    folder = root / name / report.edition if report.edition else root / name
    fresh, old = root / _FRESH, root / _OLD
    for left in (fresh, old):
        shutil.rmtree(left, ignore_errors=True)
    fresh.mkdir(mode=0o700, parents=True)
    _write(fresh, name, report, data_dir)
    sync(fresh, [path for path in fresh.iterdir() if path.is_file()])
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.exists():
        os.rename(folder, old)
    os.rename(fresh, folder)
    shutil.rmtree(old, ignore_errors=True)
    return folder


def _write(folder: Path, name: str, report: Report, data_dir: Path) -> None:
    import pyarrow.parquet as pq

    from helix_assets.ask.plots import write_svg
    from helix_assets.ask.reports.markdown import as_markdown

    for table in report.tables:
        (folder / f"{table.name}.csv").write_text(as_csv(table), encoding="utf-8")
        pq.write_table(table.data, folder / f"{table.name}.parquet", compression="zstd")
    for chart_name, chart in report.charts.items():
        write_svg(chart, folder / f"{chart_name}.svg", data_dir)
    text = as_markdown(report, {chart: f"{chart}.svg" for chart in report.charts})
    (folder / f"{name}.md").write_text(text, encoding="utf-8")
