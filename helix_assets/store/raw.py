"""Tier 1 on disk as a folder of published files: naming, publishing, listing, and the one place that removes them.

The catalog says which files are live; `store.parquet` knows what is in them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from helix_assets.store.durable import drop

if TYPE_CHECKING:
    from helix_assets.store.words.hashing import Words


LIGHT = ".light.parquet"
"""The ending of the name of a part whose texts were dropped."""


class PartFile(NamedTuple):
    """A published file: its path under the raw folder, its exact bytes and what is in it.

    Dropping the texts of its records would free `text_bytes`. `words` are those of each row group, if the writer was
    asked for them.
    """

    name: str
    bytes: int
    hash: str
    rows: int
    records: int
    text_bytes: int = 0
    words: tuple[Words, ...] = ()


class RawFiles:
    """The folder of published part files. Eviction is `remove`: a real delete."""

    def __init__(self, data_dir: Path) -> None:
        self.root = data_dir / "raw"
        self.staging = self.root / "staging"

    def prepare(self) -> None:
        """Make the folders."""
        self.staging.mkdir(mode=0o700, parents=True, exist_ok=True)

    def publish(self, staged: str, name: str) -> None:
        """Move a finished file from staging to its place."""
        target = self.root / name
        try:
            os.rename(self.staging / staged, target)
        except FileNotFoundError:
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.rename(self.staging / staged, target)

    def remove(self, name: str) -> None:
        """Delete one file for good, if it is there. The only line that deletes raw data."""
        (self.root / name).unlink(missing_ok=True)

    def names(self) -> Iterator[str]:
        """Every published file, as the catalog would name it."""
        for path in self.root.glob("flavor=*/day=*/*.parquet"):
            yield str(path.relative_to(self.root))

    def clear_staging(self) -> None:
        """Remove what an interrupted run left behind."""
        for path in self.staging.glob("*"):
            drop(path)

    def open(self, name: str) -> BinaryIO:
        """Read a published file."""
        return (self.root / name).open("rb")

    def path(self, name: str) -> Path:
        """The path of a published file."""
        return self.root / name


def file_hash(path: Path, key: bytes) -> str:
    """The keyed hash of a published file, to compare with the catalog's."""
    digest = blake2b(digest_size=16, key=key)
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
