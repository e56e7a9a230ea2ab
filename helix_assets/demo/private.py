"""Files and folders of a sample home: private whatever the umask, with the times of the story."""

from __future__ import annotations

import os
from pathlib import Path


def private_folder(path: Path) -> None:
    """Create a folder and the missing ones above it."""
    if not path.is_dir():
        private_folder(path.parent)
        path.mkdir(0o700)


def write_private(path: Path, text: str, at_ms: int | None = None) -> None:
    """Write a small file, dated `at_ms` if given."""
    private_folder(path.parent)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    if at_ms is not None:
        date_file(path, at_ms)


def date_file(path: Path, ms: int) -> None:
    """Set a file's times."""
    os.utime(path, ns=(ms * 1_000_000, ms * 1_000_000))
