"""What restores set aside, redacted by the rules in force; nothing of it is deleted: its bytes may be the only ones.

A folder is gone through file by file, its catalog last, a bounded part per sweep; a note in it says how far that is.
Each file is replaced in one step, so that what a kill interrupts is done again. What cannot be read stays as it is,
told, until other rules are in force. Belongs here: the order, the note, the hashes in a catalog that was set aside. Not
here: setting aside (`keep.restore`), or how rows and tables are redacted (`sweep.rescan`).
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
from helix_assets.store.catalog.pages import rewrite, truncate_log
from helix_assets.store.catalog.schema import digests, fact_files, metadata, raw_files, retries, sessions
from helix_assets.store.durable import replace_file, sync
from helix_assets.store.fact_files import packed
from helix_assets.store.key import load_key
from helix_assets.store.raw import RawFiles, file_hash
from helix_assets.store.store import Store
from helix_assets.sweep.rescan import changed_texts, part_again, redact_digest, table_again

_AGAIN = ".again"
_ROOM = 4
"""A file is redacted where so many of it fit on the disk: a catalog needs a log, pages written anew, and some air."""
_SQLITE = b"SQLite format 3\0"
_UIDS = ("session_uid", "parent_uid")
_TROUBLE = (StoreError, OSError, ValueError, SQLAlchemyError, sqlite3.Error)
_log = logging.getLogger(__name__)


def redact_set_aside(store: Store, limit: int) -> list[tuple[str, str]]:
    """Redact what was set aside, about so many bytes of it; gives what was found that cannot be, with the reason.

    Needs the writer lock.
    """
    shutil.rmtree(store.data_dir / STAGED, ignore_errors=True)  # left by a killed restore: its copy is still there
    trouble: list[tuple[str, str]] = []
    for folder in folders_before_restore(store):
        note = read_note(folder, store.redactor.version)
        if note.is_through or limit <= 0 or _is_live(store, folder):
            continue
        told = len(note.unread)
        try:
            limit -= _redact_folder(store, folder, note, limit)
        except OSError as exc:
            _log.warning("%s cannot be redacted by new rules: %s: the next sweep tries again", folder, exc.strerror)
        reason = "cannot be read, so new redaction rules do not reach it; delete it when you need it no more"
        trouble += [(shown_name(folder, name), reason) for name in note.unread[told:]]
    return trouble


def _redact_folder(store: Store, folder: Path, note: Note, limit: int) -> int:
    aside = _open(store, folder)
    try:
        spent = _go_on(aside, note, limit)
    finally:
        aside.close()
    replace_file(folder / NOTE, json.dumps(asdict(note)).encode())
    return spent


def _is_live(store: Store, folder: Path) -> bool:
    """Whether its catalog is still the store's own: the restore that set it aside was killed in the last moment."""
    path = folder / CATALOG
    return path.exists() and path.samefile(store.catalog.path)


def _open(store: Store, folder: Path) -> Store:
    """The folder as a store of its own; with the key of the one beside it where its own is lost."""
    path = folder / CATALOG
    (folder / _AGAIN).unlink(missing_ok=True)
    if path.exists() and path.stat().st_nlink > 1:  # two restores in a row: SQLite's log goes by names
        shutil.copyfile(path, folder / _AGAIN)
        _put_in_place(folder / _AGAIN, path)
    try:
        key = load_key(folder)
    except (OSError, StoreError):
        key = store.key
    aside = Store(replace(store.settings, data_dir=folder), key, Catalog(path), RawFiles(folder))
    with suppress(*_TROUBLE):  # told when it is the catalog's turn
        _upgrade(aside)
    return aside


def _upgrade(aside: Store) -> None:
    """Bring the catalog to the tables of today; StoreError where it is none."""
    if not _has_catalog(aside):
        raise StoreError(f"{aside.catalog.path} is no database")
    open_catalog(aside.data_dir).close()


def _has_catalog(aside: Store) -> bool:
    """SQLite would make one where there is none, and drop the log of an empty one."""
    try:
        with aside.catalog.path.open("rb") as file:
            return file.read(len(_SQLITE)) == _SQLITE
    except OSError:
        return False


# -- going through a folder ------------------------------------------------------------------------------------------


def _go_on(aside: Store, note: Note, limit: int) -> int:
    """Go on behind what the note says is through, and bring the note up to date; gives how many bytes it was."""
    spent = 0
    for name in _names(aside.data_dir):
        if _place(name) <= _place(note.last):
            continue
        path = aside.data_dir / name
        size = path.stat().st_size if path.exists() else 0
        if spent >= limit or not _has_room(aside, size):
            return max(spent, 1)
        try:
            is_done = _redact_catalog(aside) if name == CATALOG else _redact_file(aside, name)
        except Exception as exc:  # noqa: BLE001 - what a damaged file makes of a library must not cost the sweep
            if not _has_room(aside, size):
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
    """What a restore puts there, in order. A catalog's log is part of it, and may be all that is left."""
    names = {str(path.relative_to(folder)) for path in folder.rglob("*.parquet")}
    if (folder / CATALOG).exists() or (folder / f"{CATALOG}-wal").exists():
        names.add(CATALOG)
    return sorted(names, key=_place)


def _place(name: str) -> tuple[bool, str]:
    return name == CATALOG, name


def _has_room(aside: Store, size: int) -> bool:
    is_enough = shutil.disk_usage(aside.data_dir).free >= _ROOM * size
    if not is_enough:
        _log.warning("no room to redact what lies in %s by new rules: the next sweep tries again", aside.data_dir)
    return is_enough


def _put_in_place(fresh: Path, path: Path) -> None:
    sync(path.parent, [fresh])
    os.replace(fresh, path)
    sync(path.parent, [path])


# -- files -----------------------------------------------------------------------------------------------------------


def _redact_file(aside: Store, name: str) -> bool:
    """Redact a part file or a fact file. The catalog learns its new hash first: made again, the file is the same."""
    path, fresh = aside.data_dir / name, aside.data_dir / _AGAIN
    kind, _, own_name = name.partition("/")
    is_changed = _rows_again(aside, path, fresh) if kind == "raw" else _table_again(aside, path, fresh)
    if is_changed:
        _renew_hash(aside, raw_files if kind == "raw" else fact_files, own_name, path, fresh)
        _put_in_place(fresh, path)
    return True


def _rows_again(aside: Store, path: Path, fresh: Path) -> bool:
    import pyarrow.parquet as pq

    from helix_assets.store.parquet import read_rows

    uids = pq.ParquetFile(path).read(["session_uid"], use_threads=False).column(0)
    uid = uids[0].as_py() if len(uids) else ""
    renamed, redactor = _uid_again(aside.redactor, uid), aside.redactor
    before, rows = read_rows([path], raw=True), read_rows([path], raw=True)
    if renamed == uid and all(map(eq, before, rows_again(redactor, rows, pieces_of(uid.partition(":")[0])))):
        return False
    part_again(aside, renamed, path, fresh)
    return True


def _table_again(aside: Store, path: Path, fresh: Path) -> bool:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.ParquetFile(pa.BufferReader(path.read_bytes())).read(use_threads=False)
    held = table.column("session_uid").unique().to_pylist() if "session_uid" in table.column_names else []
    clean = table_again(table, aside.redactor, {uid: _uid_again(aside.redactor, uid) for uid in held})
    if clean is not table:
        fresh.write_bytes(packed(clean))
    return clean is not table


def _renew_hash(aside: Store, table: Table, name: str, path: Path, fresh: Path) -> None:
    """Prove the file that takes another's place by its own hash, if the catalog proves the one that is there."""
    is_proven = (table.c.name == name) & (table.c.hash == file_hash(path, aside.key))
    values = {"hash": file_hash(fresh, aside.key), "bytes": fresh.stat().st_size}
    if _has_catalog(aside):
        with suppress(*_TROUBLE), aside.catalog.writing() as connection:
            connection.execute(update(table).where(is_proven).values(**values))


def _uid_again(redactor: Redactor, uid: str) -> str:
    flavor, colon, native = uid.partition(":")
    return f"{flavor}:{name_again(redactor, native)}" if colon else redactor.text(uid).text


# -- the catalog -----------------------------------------------------------------------------------------------------


def _redact_catalog(aside: Store) -> bool:
    """Redact all tables, and leave no byte of what they held; False if a reader is in the way of that."""
    _upgrade(aside)
    held = select(func.coalesce(func.sum(raw_files.c.bytes), 0)).where(raw_files.c.session_id == sessions.c.id)
    with aside.catalog.writing() as connection:
        connection.execute(delete(retries))  # as in the live catalog: they name sessions and files
        for table in metadata.sorted_tables:
            for row in connection.execute(select(table)).all():
                values = _values_again(aside, table, row)
                if table is digests:
                    redact_digest(aside, connection, row.session_uid, values.get("session_uid"))
                if values:
                    is_it = [column == row._mapping[column.name] for column in table.primary_key]
                    connection.execute(update(table).where(*is_it).values(**values))
        connection.execute(update(sessions).values(raw_bytes=held.scalar_subquery()))
    rewrite(aside.catalog)
    return truncate_log(aside.catalog)


def _values_again(aside: Store, table: Table, row: Row[Any]) -> dict[str, Any]:
    """What the rules change in a row: its texts, and the names that rows know each other by, everywhere alike."""
    redactor, there = aside.redactor, row._mapping
    values = {} if table is digests else changed_texts(table, row, redactor)
    values |= {name: _uid_again(redactor, there[name]) for name in _UIDS if there.get(name)}
    if there.get("native_session_id"):
        values["native_session_id"] = name_again(redactor, row.native_session_id)
    if there.get("path_key") and name_again(redactor, row.path_key) != row.path_key:
        values["path_key"] = aside.path_key(row.path_key)
    return {name: value for name, value in values.items() if value != there[name]}
