"""The catalog: an SQLite file in WAL mode that says what is part of the store.

Belongs here: opening, making and upgrading it, and its transactions. What its tables are asked is in one module each
(`sessions`, `sources`, `digests` ...). Not here: when any of it happens (`sweep.sweep`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from helix_assets.model.errors import DiskFullError, StoreError
from helix_assets.store.catalog import digests, live_files, losses, meta, problems, sessions, sources, sweeps
from helix_assets.store.catalog.connection import Connection, connect, plainly
from helix_assets.store.catalog.schema import CATALOG_VERSION, upgrade
from helix_assets.store.lock import writer_lock

CATALOG = "helix.db"
INDEX_FOLDER = "search"
_DAMAGED_KEYS = """SELECT DISTINCT session_uid FROM session_keys JOIN sessions ON sessions.id = session_id
    WHERE length(records) % 8 OR length(bad_lines) % 8 OR length(messages) % 16"""


class Catalog:
    """One open catalog. Reads take a snapshot each; writes need the writer lock, which the caller holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._idle: list[Connection] = []

    def close(self) -> None:
        if (watcher := self.__dict__.pop("_watcher", None)) is not None:
            watcher.close()
        while self._idle:
            self._idle.pop().close()

    @cached_property
    def _watcher(self) -> sqlite3.Connection:
        """A connection that never writes, and so notices what all others do."""
        return sqlite3.connect(self.path, check_same_thread=False, isolation_level=None)

    def change(self) -> int:
        """A number that changes with every commit."""
        try:
            return int(self._watcher.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error as exc:
            raise StoreError(f"{self.path} cannot be read: {exc}. `helix verify` says what is damaged") from exc

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """A connection outside of any transaction."""
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = connect(self.path)
        try:
            yield connection
        finally:
            if connection.in_transaction:
                connection.rollback()
            self._idle.append(connection)

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
        """What is wrong with the database itself: its pages, its indexes, its references."""
        with self.reading() as connection:
            for (line,) in connection.execute("PRAGMA integrity_check"):
                if line != "ok":
                    yield str(line)
            for table, *_ in connection.execute("PRAGMA foreign_key_check"):
                yield f"a row of {table} points nowhere"
            for (uid,) in connection.execute(_DAMAGED_KEYS):
                yield f"what {uid} counts is recorded in numbers that are cut"

    # -- moving to the modules of questions --

    def known_sources(self) -> Any:
        with self.reading() as connection:
            return sources.known(connection)

    def session(self, session_uid: str) -> Any:
        with self.reading() as connection:
            return sessions.one(connection, session_uid)

    def sessions_by_uid(self, uids: Collection[str]) -> Any:
        with self.reading() as connection:
            return sessions.by_uid(connection, uids)

    def sessions_by_id(self, ids: Collection[int]) -> Any:
        with self.reading() as connection:
            return sessions.by_id(connection, ids)

    def files_of(self, session_ids: Collection[int]) -> Any:
        with self.reading() as connection:
            return live_files.parts_of(connection, session_ids)

    def sources_of(self, session_ids: Collection[int]) -> Any:
        with self.reading() as connection:
            return sources.of_sessions(connection, session_ids)

    def fact_files(self, partitions: Collection[tuple[str, str]] | None = None) -> Any:
        with self.reading() as connection:
            return live_files.fact_files(connection, partitions)

    def uids_by_partition(self, partitions: Collection[tuple[str, str]]) -> Any:
        with self.reading() as connection:
            return sessions.uids_by_partition(connection, partitions)

    def sources_by_key(self, path_keys: Collection[str]) -> Any:
        with self.reading() as connection:
            return sources.by_key(connection, path_keys)

    def place_problems(self) -> Any:
        with self.reading() as connection:
            return problems.of_places(connection)

    def meta_value(self, name: str) -> Any:
        with self.reading() as connection:
            return meta.value(connection, name)

    def raw_usage(self) -> Any:
        with self.reading() as connection:
            return live_files.raw_usage(connection)

    def get_digest(self, session_uid: str) -> Any:
        with self.reading() as connection:
            text = connection.value("SELECT digest FROM digests WHERE session_uid = ?", (session_uid,))
        if text is None:
            return None
        from helix_assets.model.digest import Digest  # loads pydantic, which few callers need

        return Digest.model_validate_json(text)

    def next_order(self, connection: Connection) -> int:
        return meta.next_order(connection)

    def set_meta(self, connection: Connection, name: str, value: str) -> Any:
        return meta.put(connection, name, value)

    def next_ids(self, connection: Connection, count: int) -> Any:
        return sessions.next_ids(connection, count)

    def put_sessions(self, connection: Connection, rows: Any) -> Any:
        return sessions.put(connection, rows)

    def update_session(self, connection: Connection, session_id: int, **values: Any) -> Any:
        return sessions.change(connection, session_id, **values)

    def put_sources(self, connection: Connection, rows: Any) -> Any:
        return sources.put(connection, rows)

    def mark_sources(self, connection: Connection, path_keys: Any, **values: Any) -> Any:
        return sources.mark(connection, path_keys, **values)

    def drop_sources(self, connection: Connection, path_keys: Any) -> Any:
        return sources.drop(connection, path_keys)

    def put_raw_files(self, connection: Connection, rows: Any) -> Any:
        return live_files.put_parts(connection, rows)

    def replace_raw_file(self, connection: Connection, number: int, **values: Any) -> Any:
        return live_files.replace_part(connection, number, **values)

    def drop_raw_files(self, connection: Connection, session_ids: Any) -> Any:
        return live_files.drop_parts(connection, session_ids)

    def put_fact_files(self, connection: Connection, files: Any, gone: Any) -> Any:
        return live_files.put_fact_files(connection, files, gone)

    def put_digests(self, connection: Connection, rows: Any) -> Any:
        return digests.put(connection, rows)

    def put_shared(self, connection: Connection, rows: Any) -> Any:
        return connection.upsert("shared_keys", rows, ["key"])

    def put_problems(self, connection: Connection, rows: Any) -> Any:
        return problems.put(connection, rows)

    def drop_problems(self, connection: Connection, ones: Any) -> Any:
        return problems.drop(connection, ones)

    def clear_problems(self, connection: Connection, read_from: Any) -> Any:
        return problems.clear(connection, read_from)

    def put_eviction(self, connection: Connection, **values: Any) -> Any:
        return losses.put_eviction(connection, **values)

    def put_loss(self, connection: Connection, **values: Any) -> Any:
        return losses.put_loss(connection, **values)

    def put_sweep(self, connection: Connection, **values: Any) -> Any:
        return sweeps.put(connection, **values)


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
    except DiskFullError:
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
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # see `pages.shrink`; only here, because it writes
        connection.execute("VACUUM")
    catalog = Catalog(fresh)
    with catalog.writing() as connection:
        upgrade(connection, CATALOG_VERSION)
    with catalog.connection() as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    catalog.close()
    fresh.rename(path)
