"""The catalog: an SQLite file in WAL mode that says what is part of the store.

Belongs here: opening, making and upgrading it, and its transactions. What its tables are asked is in one module each
(`sessions`, `sources`, `digests` ...). Not here: when any of it happens (`sweep.sweep`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from weakref import finalize

from helix_assets.model.errors import DiskFullError, NoAccessError, RetryLater, StoreError
from helix_assets.store.catalog import meta
from helix_assets.store.catalog.connection import Connection, connect, plainly
from helix_assets.store.catalog.damage import damage
from helix_assets.store.catalog.schema import CATALOG_VERSION, upgrade
from helix_assets.store.lock import writer_lock

CATALOG = "helix.db"
INDEX_FOLDER = "search"
PAGE_BYTES = 2048


class Catalog:
    """One open catalog. Reads take a snapshot each; writes need the writer lock, which the caller holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._idle: list[Connection] = []
        self._is_closed = False
        finalize(self, _close_all, self._idle)  # for who forgets to close it

    def close(self) -> None:
        """Close it for good: whoever uses it afterwards gets a StoreError."""
        self._is_closed = True
        if (watcher := self.__dict__.pop("_watcher", None)) is not None:
            watcher.close()
        self._close_idle()

    def _close_idle(self) -> None:
        _close_all(self._idle)

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise StoreError("the memory is closed: open it again")

    @cached_property
    def _watcher(self) -> sqlite3.Connection:
        """A connection that never writes, and so notices what all others do."""
        return sqlite3.connect(self.path, check_same_thread=False, isolation_level=None)

    def change(self) -> int:
        """A number that changes with every commit."""
        self._refuse_closed()
        with plainly(self.path, "read"):
            return int(self._watcher.execute("PRAGMA data_version").fetchone()[0])

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection outside of any transaction."""
        self._refuse_closed()
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connect(self.path)
        try:
            yield connection
        finally:
            connection.end()
            self._idle.append(connection)
            if self._is_closed:  # meanwhile
                self._close_idle()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection whose reads all see one moment."""
        with plainly(self.path, "read"), self.connection() as connection:
            connection.execute("BEGIN")
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction: all of it or nothing."""
        with plainly(self.path, "written"), self.connection() as connection:
            connection.execute("BEGIN")
            yield connection
            connection.commit()

    def damage(self) -> Iterator[str]:
        """What is wrong with the database itself: its pages, its indexes, its references, its values."""
        with self.reading() as connection:
            yield from damage(connection)


def _close_all(connections: list[Connection]) -> None:
    while connections:
        connections.pop().close()


def index_bytes(data_dir: Path) -> int:
    """Bytes of the search index on disk. It belongs to Tier 1 and goes with the texts."""
    try:
        entries = list(os.scandir(data_dir / INDEX_FOLDER))
    except OSError:  # there is no index, or it is not a folder
        return 0
    return sum(map(_size_of, entries))


def _size_of(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:  # just replaced: it is counted next time
        return 0


def open_catalog(data_dir: Path) -> Catalog:
    """Open the catalog, upgrading it under the writer lock if needed; a newer one is refused unchanged."""
    path = data_dir / CATALOG
    catalog = Catalog(path)
    try:
        version = _version(catalog)
        if version < CATALOG_VERSION:
            with writer_lock(data_dir, "upgrade", recovers=False), catalog.writing() as connection:
                if (version := int(meta.value(connection, "catalog_version") or 0)) < CATALOG_VERSION:
                    upgrade(connection, version)
    except BaseException:
        catalog.close()
        raise
    if version > CATALOG_VERSION:
        catalog.close()
        raise StoreError(
            f"{path} was written by a newer version (catalog {version}, this program knows {CATALOG_VERSION}): "
            "upgrade helix_assets"
        )
    return catalog


def _version(catalog: Catalog) -> int:
    try:
        with catalog.reading() as connection:
            return int(meta.value(connection, "catalog_version") or 0)
    except (RetryLater, DiskFullError, NoAccessError):
        raise
    except Exception as exc:
        raise StoreError(
            f"{catalog.path} is not a catalog of helix_assets, or is damaged: {exc}. Restore it from a backup, "
            "or move it away"
        ) from exc


def create_catalog(data_dir: Path) -> None:
    """Make a new catalog under a temporary name, so that nobody sees a half-made one. Needs the writer lock."""
    path = data_dir / CATALOG
    fresh = path.with_name(f".{CATALOG}")
    for suffix in ("", "-wal", "-shm"):
        fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_CREAT | os.O_WRONLY, 0o600))
    with closing(sqlite3.connect(fresh)) as connection:
        # A commit changes a few bytes in each of twenty pages, and writes all of each.
        connection.execute(f"PRAGMA page_size={PAGE_BYTES}")
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # see `pages.shrink`; only here, because it writes
        connection.execute("VACUUM")
    catalog = Catalog(fresh)
    with catalog.writing() as connection:
        upgrade(connection, CATALOG_VERSION)
    with catalog.connection() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    catalog.close()
    fresh.rename(path)
