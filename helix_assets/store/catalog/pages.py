"""The catalog's pages on disk: erased rows leave no bytes behind, and the file shrinks with its contents.

Belongs here: what SQLite does on demand with a whole file. SQLite overwrites what it deletes (`secure_delete`), but the
write-ahead log may contain an older copy, and another page a copy of a row that moved. All of it needs the writer lock.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from sqlite3 import Cursor, OperationalError
from typing import TYPE_CHECKING, Any

from helix_assets.store.catalog.connection import Connection, connect, connect_read_only

if TYPE_CHECKING:
    from helix_assets.store.catalog.catalog import Catalog

CHECKPOINT_WAIT_MS = 2_000
_BUSY_TIMEOUT_MS = 60_000
_FREE_SHARE = 0.1
_ROOM = 3
"""A file is rewritten if the disk has room for so many of it: the new one, its log, and some reserve."""


def truncate_log(catalog: Catalog) -> bool:
    """Empty the write-ahead log, so that nothing evicted stays in it. False if a reader prevents it."""
    with _cursor(catalog) as cursor:
        cursor.execute(f"PRAGMA busy_timeout={CHECKPOINT_WAIT_MS}")
        busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        cursor.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_MS}")
    return not busy


def rewrite(catalog: Catalog) -> None:
    """Rewrite all pages, because one may contain an old copy of a row that has moved since."""
    with _cursor(catalog) as cursor:
        cursor.execute("VACUUM")


def shrink(catalog: Catalog) -> int:
    """Free unused pages if they are more than a tenth of the file. Returns how many were freed.

    The file shrinks with the next `truncate_log`. A catalog from before incremental vacuum is rewritten once, if there
    is room. On a full disk nothing happens.
    """
    with _cursor(catalog) as cursor:
        free, pages = _ask(cursor, "freelist_count"), _ask(cursor, "page_count")
        if free <= pages * _FREE_SHARE:
            return 0
        try:
            if _ask(cursor, "auto_vacuum"):
                cursor.executescript("PRAGMA incremental_vacuum")  # `execute` would free one page alone
            elif shutil.disk_usage(catalog.path.parent).free > _ROOM * pages * _ask(cursor, "page_size"):
                cursor.execute("PRAGMA auto_vacuum=INCREMENTAL")
                cursor.execute("VACUUM")
        except OperationalError:
            return 0
        return pages - _ask(cursor, "page_count")


@contextmanager
def copied(source: Path, target: Path) -> Iterator[Connection]:
    """SQLite's own online backup of a database into the file `target`, open for changes before anybody reads it."""
    with closing(connect_read_only(source)) as live, closing(connect(target, ["secure_delete=ON"])) as copy:
        live.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")  # one file only
        yield copy


def every_row(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """All rows of all tables of any database, each with its table. Texts are bytes, because they may not be UTF-8."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=60)) as connection:
        connection.text_factory = bytes
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND sql IS NOT NULL")
        for (name,) in names.fetchall():
            table = name.decode()
            rows = connection.execute('SELECT * FROM "{}"'.format(table.replace('"', '""')))
            columns = [column[0] for column in rows.description]
            for row in rows:
                yield table, dict(zip(columns, row, strict=True))


def _ask(cursor: Cursor, name: str) -> int:
    return int(cursor.execute(f"PRAGMA {name}").fetchone()[0])


@contextmanager
def _cursor(catalog: Catalog) -> Iterator[Cursor]:
    with catalog.connection() as connection:
        yield connection.cursor()
