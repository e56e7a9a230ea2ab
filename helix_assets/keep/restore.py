"""Restoring a copy of the memory: prove it, move what was there to a before-restore folder, record what is lost.

Belongs here: fitting a copy to the raw files that are there now, and the swap. Everything is prepared in a folder of
its own. The catalog is never absent, so a kill leaves a store that `helix verify` can judge and another restore fixes.
Nothing is deleted but the folder of the restore before. Not here: how copies are made and proven (`keep.backup`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

from helix_assets.agents.database import with_log
from helix_assets.agents.discover import discover
from helix_assets.agents.jsonl import begins_alike
from helix_assets.agents.roles import DATABASE, ONE_RECORD, SHARED, shared_path
from helix_assets.agents.spec import FoundFile
from helix_assets.keep.backup import FACTS, Copy, copies, store_id, wrong_in_copy
from helix_assets.keep.erase import finish_forgetting
from helix_assets.keep.notes import sync_folder
from helix_assets.keep.recovery import BEFORE_RESTORE, STAGED
from helix_assets.keep.report_folder import drop_reports
from helix_assets.model.changes import FileState
from helix_assets.model.errors import NotFoundError, StoreError
from helix_assets.model.time import iso, microseconds
from helix_assets.settings import Settings
from helix_assets.store.catalog import live_files, losses, sessions, sources
from helix_assets.store.catalog.catalog import CATALOG, INDEX_FOLDER, open_catalog
from helix_assets.store.catalog.connection import Connection, Row
from helix_assets.store.catalog.feed import go_on_after_restore
from helix_assets.store.catalog.pages import truncate_log
from helix_assets.store.catalog.tombstones import keep_tombstones
from helix_assets.store.durable import drop, sync
from helix_assets.store.key import KEY, load_key
from helix_assets.store.lock import writer_lock
from helix_assets.store.raw import RawFiles, file_hash
from helix_assets.store.store import Store, open_store

REASON = "raw_file_missing"
_UNFINISHED = ".unfinished"


@dataclass(frozen=True)
class Restored:
    """What was restored and what it costs.

    `lost` are sessions whose raw files are missing; the next sweep reads those in `reread` again. `newer` counts the
    sessions that the copy does not know. `before_restore` is None if something was forgotten since the copy was made:
    then what was there before is deleted, too.
    """

    copy: Copy
    before_restore: Path | None
    files_moved: int
    lost: tuple[str, ...]
    reread: tuple[str, ...]
    newer: int

    @property
    def gone(self) -> tuple[str, ...]:
        """Sessions whose raw bytes nothing can bring back; their digests stay."""
        return tuple(uid for uid in self.lost if uid not in set(self.reread))


def choose_copy(settings: Settings, generation: str | None = None) -> Copy:
    """The copy of this name, or the newest of this store."""
    held = copies(settings)
    if generation is not None:
        found = [copy for copy in held if copy.generation == generation or str(copy.number) == generation]
        if len(found) == 1:
            return found[0]
        raise NotFoundError(f"no copy {generation!r} in {settings.backup_dir}; `helix backup --list` shows them")
    try:
        mine = store_id(load_key(settings.data_dir))
    except (OSError, StoreError):
        mine = None
    known = [copy for copy in held if copy.store == mine] or held
    if not known:
        raise NotFoundError(f"there is no copy of the memory in {settings.backup_dir}")
    if len({copy.store for copy in known}) > 1:
        raise NotFoundError(f"{settings.backup_dir} holds copies of several stores: name one with --from")
    return known[-1]


def restore(settings: Settings, copy: Copy, now: datetime) -> Restored:
    """Replace the memory by a copy. The caller has asked for confirmation."""
    os.umask(0o077)
    settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    with writer_lock(settings.data_dir, "restore", recovers=False):  # what a killed sweep left in staging stays
        return _restore(settings, copy, now)


def _restore(settings: Settings, copy: Copy, now: datetime) -> Restored:
    data_dir, source = settings.data_dir, settings.backup_dir / copy.generation
    wrong = wrong_in_copy(source)
    if wrong:
        raise StoreError(f"the copy {copy.generation} is damaged itself: {wrong[0]}. {_other_way(settings, copy)}")
    staged, raw = data_dir / STAGED, data_dir / "raw"
    shutil.rmtree(staged, ignore_errors=True)
    shutil.copytree(source, staged, copy_function=shutil.copyfile, ignore=shutil.ignore_patterns(FACTS))
    with ZipFile(source / FACTS) as facts:
        facts.extractall(staged / "memory")
    fitted = _fit(settings, staged, now)
    sync(staged, [path for path in staged.rglob("*") if path.is_file()])
    before = _new_folder(data_dir / BEFORE_RESTORE / f"{now:%Y%m%dT%H%M%SZ}")
    # Half-written files belong to no store: they stay where the next writer clears them.
    unnamed = [name for name in _files(raw) if name not in fitted.named and not name.startswith("staging/")]
    for name in unnamed:
        _move(raw / name, before / "raw" / name)
    shutil.rmtree(data_dir / INDEX_FOLDER, ignore_errors=True)  # the next sweep rebuilds it
    _swap(data_dir, staged, before)
    drop_reports(data_dir)  # they report what was there before
    shutil.rmtree(staged)
    before = _keep_only(before)
    moved = len(_files(before))
    _forget_again(settings)
    newer = {key for name in unnamed if (key := os.path.basename(name).partition(".")[0]) not in fitted.file_keys}
    return Restored(copy, before if before.exists() else None, moved, fitted.lost, fitted.reread, len(newer))


def _other_way(settings: Settings, damaged: Copy) -> str:
    """What to do instead of restoring a damaged copy. The person decides, because an older one lacks what is newer."""
    for copy in reversed(copies(settings)):
        same = copy.store == damaged.store and copy.generation != damaged.generation
        if same and not wrong_in_copy(settings.backup_dir / copy.generation):
            return f"The copy of {copy.made_at} is sound: restore it with --from {copy.generation}"
    return "No other copy of this store is sound"


def _new_folder(wanted: Path) -> Path:
    """Make a folder whose name says that its restore has not ended."""
    folder, number = wanted.with_name(f"{wanted.name}{_UNFINISHED}"), 1
    while folder.exists():
        folder, number = wanted.with_name(f"{wanted.name}-{number}{_UNFINISHED}"), number + 1
    folder.mkdir(mode=0o700, parents=True)
    folder.parent.chmod(0o700)
    return folder


def _keep_only(before: Path) -> Path:
    """Delete what earlier restores left, and give the folder its final name.

    What a killed restore moved away was there when this one began, so it goes into the folder.
    """
    for folder in sorted(before.parent.iterdir()):
        if folder != before and folder.name.endswith(_UNFINISHED):
            _move(folder, before / folder.name)
        elif folder != before:
            drop(folder)
    return before.rename(before.with_name(before.name.removesuffix(_UNFINISHED)))


def _files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


# -- fitting the copy to what is there -------------------------------------------------------------------------------


class _Fitted(NamedTuple):
    lost: tuple[str, ...]
    reread: tuple[str, ...]
    named: frozenset[str]
    file_keys: frozenset[str]


def _fit(settings: Settings, staged: Path, now: datetime) -> _Fitted:
    """Make the staged catalog agree with the raw files that are there."""
    catalog = open_catalog(staged)
    store = Store(settings, load_key(staged), catalog, RawFiles(settings.data_dir))
    try:
        keep_tombstones(store, settings.catalog_path)
        lost = list(_sessions_without_files(store))
        reread = _readable_again(store, [row.id for row, _ in lost])
        with catalog.writing() as connection:
            go_on_after_restore(connection, settings.catalog_path, now)
            for row, parts in lost:
                _put_lost(connection, row, parts, iso(microseconds(now)) or "", is_back=row.id in reread)
            # A copy has no parser states: the next lines of these files are read together with all before them.
            sources.doubt_all_of_whole_sessions(connection)
        with catalog.reading() as connection:
            named = frozenset(live_files.part_names(connection))
            keys = frozenset(row.file_key for row in sessions.every(connection))
        truncate_log(catalog)
    finally:
        store.close()
    uids = tuple(row.session_uid for row, _ in lost)
    return _Fitted(uids, tuple(row.session_uid for row, _ in lost if row.id in reread), named, keys)


def _sessions_without_files(store: Store) -> Iterator[tuple[Row, Sequence[Row]]]:
    """Sessions with a raw file that is missing or is not the one that was written."""
    with store.catalog.reading() as connection:
        rows = [row for row in sessions.every(connection) if row.evicting_at is None]
        held = live_files.parts_of(connection, [row.id for row in rows])
    for row in rows:
        parts = held.get(row.id, ())
        if not all(_is_there(store, part) for part in parts):
            yield row, parts


def _is_there(store: Store, part: Row) -> bool:
    try:
        return bool(file_hash(store.raw.path(part.name), store.key) == part.hash)
    except OSError:
        return False


def _readable_again(store: Store, ids: Sequence[int]) -> set[int]:
    """Sessions whose source files are all in place and unchanged as far as they were read."""
    if not ids:
        return set()
    files = {
        store.path_key(path): file
        for path, file in discover(store.settings.roots, store.settings.exclude.paths).files.items()
    }
    with store.catalog.reading() as connection:
        read, known = sources.of_sessions(connection, ids), sources.known(connection).states
    return {number for number, held in read.items() if all(_says_the_same(store, one, files, known) for one in held)}


def _says_the_same(store: Store, source: Row, files: Mapping[str, FoundFile], known: Mapping[str, FileState]) -> bool:
    """Whether a source lies where it was and still says what was read of it."""
    place = shared_path(source.path_key) if source.role in SHARED else source.path_key
    file = files.get(place)
    if file is None or source.is_outlived:
        return False
    if source.role == DATABASE:  # it is not opened for this: only if nothing was written to it is that certain
        return bool(source.mtime_ns >= 0) and with_log(file)[-4:] == known.get(place)
    return source.role in ONE_RECORD or begins_alike(store.key, file.path, source)


def _put_lost(connection: Connection, row: Row, parts: Sequence[Row], at: str, *, is_back: bool) -> None:
    """Leave a tombstone and a loss record; the cursors of a session that can be read again go back to the start."""
    losses.put_loss(
        connection,
        at=at,
        session_uid=row.session_uid,
        flavor=row.flavor,
        day=row.day,
        bytes=sum(part.bytes for part in parts),
        records=sum(part.record_count for part in parts),
        generation=row.generation,
        reason=REASON,
    )
    live_files.drop_parts(connection, [row.id])
    went = 0 if is_back else max(1, row.evicted_records + row.row_count)
    sessions.change(connection, row.id, evicted_at=at, raw_bytes=0, evicted_records=went, light_records=0)
    if is_back:
        start = {"offset": 0, "line": 1, "order_us": None, "read_hash": None}
        sources.change(connection, row.id, mtime_ns=-1, **start)  # no file is that old: it counts as changed


# -- the swap --------------------------------------------------------------------------------------------------------


def _swap(data_dir: Path, staged: Path, before: Path) -> None:
    """Move everything into place, the catalog last and in one step: it is there at every moment."""
    if (data_dir / KEY).exists():
        shutil.copyfile(data_dir / KEY, before / KEY)
    os.replace(staged / KEY, data_dir / KEY)
    if (data_dir / "memory").exists():
        _move(data_dir / "memory", before / "memory")
    if (staged / "memory").exists():
        _move(staged / "memory", data_dir / "memory")
    for name in _files(staged / "hub"):
        if not (data_dir / "hub" / name).exists():
            _move(staged / "hub" / name, data_dir / "hub" / name)
    if (data_dir / CATALOG).exists():
        os.link(data_dir / CATALOG, before / CATALOG)
    for suffix in ("-wal", "-shm"):
        if (data_dir / f"{CATALOG}{suffix}").exists():
            _move(data_dir / f"{CATALOG}{suffix}", before / f"{CATALOG}{suffix}")
    os.replace(staged / CATALOG, data_dir / CATALOG)
    sync_folder(data_dir)


def _forget_again(settings: Settings) -> None:
    """Erase what was forgotten after the copy was made."""
    store = open_store(settings)
    try:
        finish_forgetting(store)
    finally:
        store.close()


def _move(source: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.rename(source, target)
