"""The folder of reports, and removing all of them."""

from __future__ import annotations

import shutil
from pathlib import Path

from helix_assets.keep.notes import drop_retro_notes

FOLDER = "reports"


def drop_reports(data_dir: Path) -> None:
    """Remove all reports, and the hub notes made of them."""
    shutil.rmtree(data_dir / FOLDER, ignore_errors=True)
    if (data_dir / FOLDER).exists():
        raise OSError(f"{data_dir / FOLDER} cannot be removed")
    drop_retro_notes(data_dir)
