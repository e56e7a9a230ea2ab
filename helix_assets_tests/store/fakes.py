"""A twin in memory of the raw cache. It passes the contract tests of the real one."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO


class MemoryRawCache:
    """Published files in a dictionary; the staging folder is real, since workers write there."""

    def __init__(self, staging: Path) -> None:
        self.staging = staging
        self.files: dict[str, bytes] = {}

    def publish(self, staged: str, name: str) -> None:
        path = self.staging / staged
        self.files[name] = path.read_bytes()
        path.unlink()

    def remove(self, name: str) -> None:
        self.files.pop(name, None)

    def names(self) -> Iterator[str]:
        return iter(list(self.files))

    def open(self, name: str) -> BinaryIO:
        if name not in self.files:
            raise FileNotFoundError(name)
        return io.BytesIO(self.files[name])

    def clear_staging(self) -> None:
        for path in self.staging.glob("*"):
            path.unlink()
