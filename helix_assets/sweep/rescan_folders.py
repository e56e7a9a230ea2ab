"""Redacts before-restore folders by the current rules. Deletes nothing, because their bytes may be the only copy.

A folder is processed file by file, its catalog last, a limited part per sweep; a note in it records the progress.
Each file is replaced in one step, so that an interrupted one is done again. An unreadable file stays unchanged and is
reported until the rules change again. Belongs here: the order, the note, the hashes in the folder's catalog. Not here:
making such folders (`keep.restore`), or how rows and tables are redacted (`sweep.rescan`).
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import sqlite3
from contextlib import suppress
from dataclasses import asdict, replace
from operator import eq
from pathlib import Path
from typing import Any

from sqlalchemy import Row, Table, delete, func, select, update
from sqlalchemy.exc import SQLAlchemyError

from helix_assets.agents import pieces_of
from helix_assets.model.errors import StoreError
from helix_assets.redaction.again import rows_again
from helix_assets.redaction.encoded import name_again
from helix_assets.redaction.redactor import Redactor
from helix_assets.store.before_restore import NOTE, STAGED, Note, folders_before_restore, read_note, shown_name
from helix_assets.store.catalog.catalog import CATALOG, Catalog, open_catalog
from helix_assets.store.catalog.old_tables import digests, fact_files, metadata, raw_files, retries, sessions
from helix_assets.store.catalog.pages import rewrite, truncate_log
from helix_assets.store.durable import replace_file, sync
from helix_assets.store.fact_files import packed
from helix_assets.store.key import load_key
from helix_assets.store.raw import RawFiles, file_hash
from helix_assets.store.store import Store
from helix_assets.sweep.rescan import changed_texts, part_again, redact_digest, table_again

_AGAIN = ".again"
_ROOM = 4
"""A file is redacted if the disk has room for this many of it: a catalog needs a log, rewritten pages and a reserve."""
_SQLITE = b"SQLite format 3\0"
_UIDS = ("session_uid", "parent_uid")
_TROUBLE = (StoreError, OSError, ValueError, SQLAlchemyError, sqlite3.Error)
_log = logging.getLogger(__name__)


def redact_before_restore(store: Store, limit: int) -> list[tuple[str, str]]:
    """Redact about this many bytes of before-restore folders. Returns the files where that fails, with the reason.

    Needs the writer lock.
    """
    shutil.rmtree(store.data_dir / STAGED, ignore_errors=True)  # left by a killed restore: its copy is still there
    trouble: list[tuple[str, str]] = []
    for folder in folders_before_restore(store):
        note = read_note(folder, store.redactor.version)
        if note.is_through or limit <= 0 or _is_live(store, folder):
            continue
        reported = len(note.unread)
        try:
            limit -= _redact_folder(store, folder, note, limit)
        except OSError as exc:
            _log.warning("%s cannot be redacted by new rules: %s: the next sweep tries again", folder, exc.strerror)
        reason = "cannot be read, so new redaction rules do not reach it; delete it when you no longer need it"
        trouble += [(shown_name(folder, name), reason) for name in note.unread[reported:]]
    return trouble


def _redact_folder(store: Store, folder: Path, note: Note, limit: int) -> int:
    old = _open(store, folder)
    try:
        spent = _continue(old, note, limit)
    finally:
        old.close()
    replace_file(folder / NOTE, json.dumps(asdict(note)).encode())
    return spent


def _is_live(store: Store, folder: Path) -> bool:
    """Whether its catalog is still the store's own, because the restore was killed in its last step."""
    path = folder / CATALOG
    return path.exists() and path.samefile(store.catalog.path)


def _open(store: Store, folder: Path) -> Store:
    """The folder as a store; if its key is lost, with the key of the live store."""
    path = folder / CATALOG
    (folder / _AGAIN).unlink(missing_ok=True)
    if path.exists() and path.stat().st_nlink > 1:  # two restores in a row; SQLite finds its log by name
        shutil.copyfile(path, folder / _AGAIN)
        _put_in_place(folder / _AGAIN, path)
    try:
        key = load_key(folder)
    except (OSError, StoreError):
        key = store.key
    old = Store(replace(store.settings, data_dir=folder), key, Catalog(path), RawFiles(folder))
    with suppress(*_TROUBLE):  # reported when it is the catalog's turn
        _upgrade(old)
    return old


def _upgrade(old: Store) -> None:
    """Bring the catalog to the current tables. StoreError if it is not one."""
    if not _has_catalog(old):
        raise StoreError(f"{old.catalog.path} is not a database")
    open_catalog(old.data_dir).close()


def _has_catalog(old: Store) -> bool:
    """Whether there is a database. SQLite would create a missing one, and drop the log of an empty one."""
    try:
        with old.catalog.path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


# -- processing a folder ---------------------------------------------------------------------------------------------


def _continue(old: Store, note: Note, limit: int) -> int:
    """Continue after the last file in the note, and update the note. Returns how many bytes were processed."""
    spent = 0
    for name in _names(old.data_dir):
        if _place(name) <= _place(note.last):
            continue
        path = old.data_dir / name
        size = path.stat().st_size if path.exists() else 0
        if spent >= limit or not _has_room(old, size):
            return max(spent, 1)
        try:
            is_done = _redact_catalog(old) if name == CATALOG else _redact_file(old, name)
        except Exception as exc:  # noqa: BLE001 - a library that fails at a damaged file must not stop the sweep
            if not _has_room(old, size):
                return max(spent, 1)
            _log.warning("%s cannot be redacted by new rules: %s", path, type(exc).__name__)
            note.unread.append(name)
        else:
            if not is_done:
                return max(spent, 1)
        note.last = name
        spent += size
    note.is_through = True
    return spent


def _names(folder: Path) -> list[str]:
    """The files that a restore puts there, in order. Of the catalog perhaps only the log is left."""
    names = {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")}
    if (folder / CATALOG).exists() or (folder / f"{CATALOG}-wal").exists():
        names.add(CATALOG)
    return sorted(names, key=_place)


def _place(name: str) -> tuple[bool, str]:
    return name == CATALOG, name


def _has_room(old: Store, size: int) -> bool:
    is_enough = shutil.disk_usage(old.data_dir).free >= _ROOM * size
    if not is_enough:
        _log.warning("no room to redact the files in %s by new rules: the next sweep tries again", old.data_dir)
    return is_enough


def _put_in_place(fresh: Path, path: Path) -> None:
    sync(path.parent, [fresh])
    os.replace(fresh, path)
    sync(path.parent, [path])


# -- files -----------------------------------------------------------------------------------------------------------


def _redact_file(old: Store, name: str) -> bool:
    """Redact a part file or a fact file. The catalog gets the new hash first, because a repeat makes the same file."""
    path, fresh = old.data_dir / name, old.data_dir / _AGAIN
    kind, _, own_name = name.partition("/")
    is_changed = _rows_again(old, path, fresh) if kind == "raw" else _table_again(old, path, fresh)
    if is_changed:
        _renew_hash(old, raw_files if kind == "raw" else fact_files, own_name, path, fresh)
        _put_in_place(fresh, path)
    return True


def _rows_again(old: Store, path: Path, fresh: Path) -> bool:
    import pyarrow.parquet as pq

    from helix_assets.store.parquet import read_rows

    uids = pq.ParquetFile(path).read(["session_uid"], use_threads=False).column(0)
    uid = uids[0].as_py() if len(uids) else ""
    renamed, redactor = _uid_again(old.redactor, uid), old.redactor
    before, rows = read_rows([path], raw=True), read_rows([path], raw=True)
    if renamed == uid and all(map(eq, before, rows_again(redactor, rows, pieces_of(uid.partition(":")[0])))):
        return False
    part_again(old, renamed, path, fresh)
    return True


def _table_again(old: Store, path: Path, fresh: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(pa.BufferReader(path.read_bytes())).read(use_threads=False)
    held = table.column("session_uid").unique().to_pylist() if "session_uid" in table.column_names else []
    clean = table_again(table, old.redactor, {uid: _uid_again(old.redactor, uid) for uid in held})
    if clean is not table:
        fresh.write_bytes(packed(clean))
    return clean is not table


def _renew_hash(old: Store, table: Table, name: str, path: Path, fresh: Path) -> None:
    """Record the hash of the new file, if the one that it replaces matches its own."""
    is_proven = (table.c.name == name) & (table.c.hash == file_hash(path, old.key))
    values = {"hash": file_hash(fresh, old.key), "bytes": fresh.stat().st_size}
    if _has_catalog(old):
        with suppress(*_TROUBLE), old.catalog.writing() as connection:
            connection.execute(update(table).where(is_proven).values(**values))


def _uid_again(redactor: Redactor, uid: str) -> str:
    flavor, colon, native = uid.partition(":")
    return f"{flavor}:{name_again(redactor, native)}" if colon else redactor.text(uid).text


# -- the catalog -----------------------------------------------------------------------------------------------------


def _redact_catalog(old: Store) -> bool:
    """Redact all tables, and erase the old bytes; False if a reader prevents that."""
    _upgrade(old)
    held = select(func.coalesce(func.sum(raw_files.c.bytes), 0)).where(raw_files.c.session_id == sessions.c.id)
    with old.catalog.writing() as connection:
        connection.execute(delete(retries))  # as in the live catalog: they name sessions and files
        for table in metadata.sorted_tables:
            for row in connection.execute(select(table)).all():
                values = _values_again(old, table, row)
                if table is digests:
                    redact_digest(old, connection, row.session_uid, values.get("session_uid"))
                if values:
                    is_it = [column == row._mapping[column.name] for column in table.primary_key]
                    connection.execute(update(table).where(*is_it).values(**values))
        connection.execute(update(sessions).values(raw_bytes=held.scalar_subquery()))
    rewrite(old.catalog)
    return truncate_log(old.catalog)


def _values_again(old: Store, table: Table, row: Row[Any]) -> dict[str, Any]:
    """What the rules change in a row: its texts, and the names that link rows, the same in every table."""
    redactor, there = old.redactor, row._mapping
    values = {} if table is digests else changed_texts(table, row, redactor)
    values |= {name: _uid_again(redactor, there[name]) for name in _UIDS if there.get(name)}
    if there.get("native_session_id"):
        values["native_session_id"] = name_again(redactor, row.native_session_id)
    if there.get("path_key") and name_again(redactor, row.path_key) != row.path_key:
        values["path_key"] = old.path_key(row.path_key)
    return {name: value for name, value in values.items() if value != there[name]}
