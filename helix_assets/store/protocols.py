"""What the eviction needs of storage: a narrow protocol, with a twin in memory for the tests.

It makes the forbidden impossible: what unlinks files gets a RawCache, and so cannot touch a digest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Protocol


class RawCache(Protocol):
    """Published part files, by name. A file is complete or does not exist."""

    def publish(self, staged: str, name: str) -> None:
        """Move a finished file from the staging folder to its name, replacing one that has it already."""
        ...

    def remove(self, name: str) -> None:
        """Delete one file for good. It is no error if it is gone already."""
        ...

    def names(self) -> Iterator[str]: ...

    def open(self, name: str) -> BinaryIO:
        """Open a published file for reading. FileNotFoundError if there is none."""
        ...

    def clear_staging(self) -> None:
        """Remove what was written and never published."""
        ...
