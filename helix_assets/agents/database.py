"""Reads SQLite databases of the agents without touching them: makes a private copy, and queries only that.

SQLite creates files next to a database that it opens in place, even read-only, and delays its owner's checkpoints.
Opened as immutable, a database lacks what is in its log (`-wal`), and pages may be torn while it is written to. So main
file and log are copied, and the copy counts only if both were unchanged meanwhile. It contains all of the database,
including credentials. So it is in a private folder, only during a sweep, and only the named columns can be read.
Belongs here: copying and querying. Not here: which queries there are (the adapters), or when (`sweep.unfold`).
"""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from helix_assets.agents.jsonl import open_source
from helix_assets.agents.kinds import Ask, Query
from helix_assets.agents.spec import FoundFile
from helix_assets.model.errors import RetryLater, SkipSource

LOG = "-wal"
_JOURNAL = "-journal"
_HOT_JOURNAL = bytes.fromhex("d9d505f920a163d7")
_PAUSES_S = (0.05, 0.1, 0.2, 0.4)
"""Pauses between the five tries to copy a database that is being written to."""
_TICK_NS = 20_000_000
"""Two writes within one tick of the file system's clock have the same time."""
_HEAD_BYTES = 100
_SALT_BYTES = 32
_FUNCTIONS = frozenset(
    {"coalesce", "count", "hex", "ifnull", "json_extract", "length", "lower", "max", "min", "substr", "sum", "total"}
)
_Signature = tuple[int, int, int, int, bytes, bytes]


def with_log(file: FoundFile) -> FoundFile:
    """A database with the state of its log, because the last commits may be only there."""
    try:
        log = os.stat(file.path + LOG, follow_symlinks=False)
    except OSError:
        return file
    if not log.st_size:
        return file
    both = (*file[3:], log.st_ino, log.st_size, log.st_mtime_ns)
    return file._replace(
        inode=number_of(both), size=file.size + log.st_size, mtime_ns=max(file.mtime_ns, log.st_mtime_ns)
    )


def number_of(value: object) -> int:
    """A number for a plain value; other values have other numbers."""
    return int.from_bytes(blake2b(repr(value).encode(), digest_size=8).digest(), "big") >> 1


class PrivateCopies:
    """Copies of databases in a private folder; each is made when first asked for, `close` removes all."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self._folder, self._limit = folder, limit_bytes
        self._made: dict[str, Path | RetryLater | SkipSource] = {}

    def of(self, path: str) -> Path:
        """The copy of a database. RetryLater while it is written to, SkipSource if it cannot be read."""
        if path not in self._made:
            try:
                self._made[path] = self._copied(path)
            except (RetryLater, SkipSource) as exc:
                self._made[path] = exc
            except OSError as exc:
                self._made[path] = RetryLater(f"cannot be copied: {exc.strerror}")
        made = self._made[path]
        if isinstance(made, Exception):
            raise made
        return made

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        self._made.clear()

    def _copied(self, path: str) -> Path:
        self._folder.mkdir(mode=0o700, exist_ok=True)
        target = self._folder / f"{len(self._made)}.db"
        try:
            copy_database(path, target, self._limit)
        except BaseException:
            _remove(target)
            raise
        return target


def copy_database(path: str, target: Path, limit_bytes: int) -> None:
    """Copy main file and log in one consistent state, and make them one file."""
    for pause in (*_PAUSES_S, None):
        _remove(target)
        _refuse_large(path, limit_bytes)
        is_consistent = _copy_once(path, target)
        if is_consistent and _fold(target):
            return
        if pause is not None:
            time.sleep(pause)
    if is_consistent:
        raise SkipSource("the database is damaged, or not one of SQLite's")
    raise RetryLater("the database is being written to; the next sweep tries again")


def _refuse_large(path: str, limit_bytes: int) -> None:
    with suppress(FileNotFoundError):
        if os.path.getsize(path) + (os.path.getsize(path + LOG) if os.path.exists(path + LOG) else 0) > limit_bytes:
            raise SkipSource("too large: the database is above [sweep] database_bytes")


def _copy_once(path: str, target: Path) -> bool:
    """Copy. Returns whether nothing was written meanwhile."""
    before = _signature(path)
    if before is None:
        return False
    _pour(path, target)
    with suppress(SkipSource):  # without a log
        _pour(path + LOG, target.with_name(target.name + LOG))
    return before == _signature(path)


def _signature(path: str) -> _Signature | None:
    """A value that changes with every write except at the log's end; None if that cannot be known now."""
    with closing_fd(open_source(path)) as fd:
        info, head = os.fstat(fd), os.pread(fd, _HEAD_BYTES, 0)
    is_fresh = abs(time.time_ns() - info.st_mtime_ns) < _TICK_NS
    if is_fresh or _first_bytes(path + _JOURNAL, len(_HOT_JOURNAL)) == _HOT_JOURNAL:
        return None
    salt = _first_bytes(path + LOG, _SALT_BYTES)
    return info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, head, salt


def _first_bytes(path: str, count: int) -> bytes:
    """The first bytes of a file, empty if there is none."""
    try:
        with closing_fd(open_source(path)) as fd:
            return os.pread(fd, count, 0)
    except SkipSource:
        return b""


@contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    """An open file, closed at the end."""
    try:
        yield fd
    finally:
        os.close(fd)


def _pour(path: str, target: Path) -> None:
    """Copy a file, by sharing its blocks if the file system can."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    with closing_fd(open_source(path)) as source, closing_fd(os.open(target, flags, 0o600)) as made:
        with suppress(OSError, AttributeError):  # another file system, an old kernel, macOS
            while os.copy_file_range(source, made, 1 << 30):
                pass
            return
        os.lseek(source, 0, os.SEEK_SET)
        os.lseek(made, 0, os.SEEK_SET)
        os.ftruncate(made, 0)
        with os.fdopen(source, "rb", closefd=False) as src, os.fdopen(made, "wb", closefd=False) as out:
            shutil.copyfileobj(src, out, 1 << 20)


def _fold(target: Path) -> bool:
    """Write the log of a copy into its main file. False if the copy is damaged."""
    try:
        with closing(sqlite3.connect(target, isolation_level=None)) as connection:
            connection.execute("PRAGMA trusted_schema=OFF")
            is_sound = connection.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)]
            connection.execute("PRAGMA journal_mode=DELETE")
            return is_sound
    except sqlite3.DatabaseError:
        return False


def _remove(target: Path) -> None:
    for ending in ("", LOG, "-shm", _JOURNAL):
        target.with_name(target.name + ending).unlink(missing_ok=True)


@contextmanager
def asking(copy: str | os.PathLike[str], queries: Mapping[str, Query]) -> Iterator[Ask]:
    """Run the named queries on a copy; SQLite itself refuses to read anything that they do not declare."""
    uri = f"{Path(copy).absolute().as_uri()}?mode=ro&immutable=1"
    with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
        connection.execute("PRAGMA query_only=1")
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.text_factory = partial(str, encoding="utf-8", errors="replace")
        connection.set_authorizer(partial(_verdict, _columns(queries)))
        yield partial(_ask, connection, queries)


def _ask(connection: sqlite3.Connection, queries: Mapping[str, Query], name: str, *values: Any) -> Iterator[Any]:
    try:
        yield from connection.execute(queries[name].sql, values)
    except sqlite3.Error as exc:
        raise OSError(errno.EIO, f"the query {name!r} of the database failed: {exc}") from exc


def _columns(queries: Mapping[str, Query]) -> set[tuple[str, str]]:
    """The columns that the queries read, as table and column; the rows of these tables can be counted."""
    named = {
        (table.lower(), column.lower())
        for query in queries.values()
        for table, columns in query.reads.items()
        for column in columns
    }
    return named | {(table, "") for table, _ in named}


def _verdict(
    named: set[tuple[str, str]], action: int, first: str | None, second: str | None, _: str | None, inner: str | None
) -> int:
    """SQLite calls this for everything that a statement does. `inner` names a view or a trigger that does it."""
    if action == sqlite3.SQLITE_SELECT:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_READ and inner is None and (str(first).lower(), str(second).lower()) in named:
        return sqlite3.SQLITE_OK
    if action == sqlite3.SQLITE_FUNCTION and str(second).lower() in _FUNCTIONS:
        return sqlite3.SQLITE_OK
    return sqlite3.SQLITE_DENY
