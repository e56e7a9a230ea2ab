"""What the sweep and the eviction need of storage: three narrow protocols, each with an in-memory twin for the tests.

They make the forbidden impossible: eviction gets only a RawCache, and a DigestStore cannot delete.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

from sqlalchemy import Connection

if TYPE_CHECKING:
    from helix_assets.model.digest import Digest
    from helix_assets.store.catalog.sources import KnownSources

Rows = Sequence[Mapping[str, Any]]


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


class DigestStore(Protocol):
    """Digests by session; written or replaced as a whole, never removed."""

    def get_digest(self, session_uid: str) -> Digest | None: ...

    def put_digests(self, connection: Connection, rows: Rows) -> None: ...


class CursorStore(Protocol):
    """What is remembered of each source file."""

    def known_sources(self) -> KnownSources: ...

    def put_sources(self, connection: Connection, rows: Rows) -> None: ...

    def mark_sources(self, connection: Connection, path_keys: Collection[str], **values: Any) -> None: ...
