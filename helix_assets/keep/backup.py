"""A second copy of Tier 2: the catalog, the key, the facts and the hub notes, in numbered generations.

Belongs here: making a copy, proving it, and dropping those it replaces. A copy is written under a temporary name,
synced, proven, and only then renamed. Older ones go only after that. Not here: restoring a copy (`keep.restore`).
Imported by every sweep, so nothing heavy is loaded.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile, ZipFile

from helix_assets.keep.notes import sync_folder
from helix_assets.model.errors import StoreError
from helix_assets.model.time import iso, microseconds
from helix_assets.settings import Settings
from helix_assets.store.catalog import digests, live_files, meta, sessions, sources
from helix_assets.store.catalog.catalog import CATALOG
from helix_assets.store.catalog.connection import Connection, connect_read_only
from helix_assets.store.catalog.damage import damage
from helix_assets.store.catalog.pages import copied
from helix_assets.store.durable import naming, new_file, open_new, open_plain, sync
from helix_assets.store.key import KEY, load_key, text_hash
from helix_assets.store.proof import is_proven
from helix_assets.store.store import Store

MANIFEST = "copy.json"
FACTS = "memory.zip"
"""All fact files of a copy in one archive, uncompressed: separate files took ten times as long to make."""
EVERY = timedelta(days=1)
FRESH = ".new"
"""A copy in the making."""
_NAME = re.compile(r"\d{6,}-\d{8}T\d{6}Z")
_VOID = "older_copies_go"
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Copy:
    """One generation. `order` says how far the work had come, `redaction` which rules redacted all of it, if any."""

    generation: str
    store: str
    made_at: str
    order: str
    redaction: str
    sessions: int
    digests: int
    facts: int
    bytes: int

    @property
    def number(self) -> int:
        return int(self.generation.partition("-")[0])

    def age(self, now: datetime) -> timedelta:
        """How long ago it was made, by the clock."""
        return now - datetime.fromisoformat(self.made_at)


def copies(settings: Settings) -> list[Copy]:
    """All finished copies in the backup folder, oldest first. Anything else there is skipped."""
    found = []
    try:
        names = os.listdir(settings.backup_dir)
    except FileNotFoundError:
        return []
    for name in filter(_NAME.fullmatch, names):
        with suppress(OSError, ValueError, TypeError):
            found.append(_manifest(settings.backup_dir / name))
    return sorted(found, key=lambda copy: copy.number)


def _manifest(folder: Path) -> Copy:
    """The manifest of a copy. ValueError or TypeError if it cannot be what was written."""
    with open_plain(folder / MANIFEST) as file:
        copy = Copy(**{**json.loads(file.read()), "generation": folder.name})
    if any(type(getattr(copy, field.name)).__name__ != field.type for field in fields(copy)):
        raise TypeError(f"the manifest of {folder.name} has values of the wrong type")
    if datetime.fromisoformat(copy.made_at).tzinfo is None:
        raise ValueError(f"the time in the manifest of {folder.name} has no zone")
    return copy


def store_id(key: bytes) -> str:
    """Distinguishes the copies of one store from another's in the same folder."""
    return text_hash(key, b"store")[:16]


def own_copies(store: Store) -> list[Copy]:
    """The copies of this store, oldest first."""
    mine = store_id(store.key)
    return [copy for copy in copies(store.settings) if copy.store == mine]


# -- when ------------------------------------------------------------------------------------------------------------


def void_older_copies(connection: Connection) -> None:
    """Mark all copies made so far to be dropped by the next one. Called in the transaction that erases something."""
    meta.put(connection, _VOID, "yes")


def back_up_if_due(store: Store, now: datetime, known: Mapping[str, str]) -> Copy | None:
    """Make a copy if the last one is a day old and the memory has changed since. Errors are logged, not raised.

    Called at the end of each sweep with all of `meta`. If nothing changed it reads one small file per copy.
    Needs the writer lock.
    """
    try:
        return make_copy(store, now) if is_due(store, now, known) else None
    except Exception as exc:  # noqa: BLE001 - whatever it is, the sweep itself has succeeded
        _log.error("no copy of the memory could be made, the older ones stay: %s", exc)
        return None


def is_due(store: Store, now: datetime, known: Mapping[str, str], *, after_news: bool = False) -> bool:
    """Whether a copy is to be made now, or would be `after_news` was taken in. `known` is all of `meta`."""
    held, order = own_copies(store), known.get(meta.ORDER)
    if order is None:
        return False
    if held and (known.get(_VOID) == "yes" or _was_reredacted(store, held)):
        return True
    if store.settings.backup.schedule == "off" or (held and held[-1].order == order and not after_news):
        return False
    # If the clock was set back, the newest copy is in the future: make another.
    return not held or not timedelta(0) <= held[-1].age(now) < EVERY


def _was_reredacted(store: Store, held: list[Copy]) -> bool:
    """Whether the whole memory is redacted by the rules in force, and some copy by other rules."""
    version = store.rules_version
    if all(copy.redaction == version for copy in held):
        return False
    with store.catalog.reading() as connection:
        return not sessions.is_any_redacted_otherwise(connection, version)


# -- making ----------------------------------------------------------------------------------------------------------


def make_copy(store: Store, now: datetime) -> Copy:
    """Copy, prove and publish a new generation, then drop surplus and void ones. Needs the writer lock."""
    root = store.settings.backup_dir
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = root / FRESH
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(mode=0o700)
    try:
        with store.catalog.reading() as connection:
            known = meta.every(connection)
            otherwise, held = sessions.count_redacted_otherwise(connection, store.rules_version)
        redaction = "" if otherwise else store.rules_version
        copy = _write(store, fresh, now, _Content(known.get(meta.ORDER, ""), redaction, held))
        _refuse_wrong(fresh, root)
        fresh.rename(root / copy.generation)
    except BaseException as exc:
        shutil.rmtree(fresh, ignore_errors=True)
        if isinstance(exc, sqlite3.Error | BadZipFile):
            raise StoreError(f"no copy can be made in {root} ({exc}): the older ones stay") from exc
        raise
    sync_folder(root)
    _drop_older(store, copy, everything_goes=known.get(_VOID) == "yes")
    return copy


class _Content(NamedTuple):
    """What the manifest of a copy says about the catalog."""

    order: str
    redaction: str
    sessions: int


def _write(store: Store, fresh: Path, now: datetime, content: _Content) -> Copy:
    _copy_catalog(store.catalog.path, fresh / CATALOG)
    _copy_file(store.data_dir / KEY, fresh / KEY)
    with closing(connect_read_only(fresh / CATALOG)) as catalog:
        names = [file.name for file in live_files.fact_files(catalog)]
        digest_count = digests.count(catalog)
    with naming(fresh / FACTS), ZipFile(fresh / FACTS, "w", strict_timestamps=False) as facts:
        for name in names:
            facts.write(store.facts.path(name), name)
    (fresh / FACTS).chmod(0o600)
    for note in (store.data_dir / "hub").glob("*.md"):
        _copy_file(note, fresh / "hub" / note.name)
    at = iso(microseconds(now)) or ""
    files = [path for path in fresh.rglob("*") if path.is_file()]
    taken = filter(_NAME.fullmatch, os.listdir(store.settings.backup_dir))
    number = max((int(name.partition("-")[0]) for name in taken), default=0) + 1
    copy = Copy(
        generation=f"{number:06d}-{now:%Y%m%dT%H%M%SZ}",
        store=store_id(store.key),
        made_at=at,
        **content._asdict(),
        digests=digest_count,
        facts=len(names),
        bytes=sum(path.stat().st_size for path in files),
    )
    manifest = fresh / MANIFEST
    with new_file(manifest) as file:
        file.write(json.dumps(asdict(copy), indent=2).encode() + b"\n")
    sync(fresh, [*files, manifest])
    return copy


def _copy_catalog(source: Path, target: Path) -> None:
    """SQLite's own online backup, without the text of unfinished records that parsers keep."""
    open_new(target).close()
    with copied(source, target) as copy:
        sources.forget_parser_states(copy)  # raw text must not outlive its eviction in a copy


def _copy_file(source: Path, target: Path) -> None:
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with source.open("rb") as read, new_file(target) as write:
        shutil.copyfileobj(read, write)


def _drop_older(store: Store, newest: Copy, *, everything_goes: bool) -> None:
    older = [copy for copy in own_copies(store) if copy.number < newest.number]
    too_many = {copy.generation for copy in older[: max(0, len(older) + 1 - store.settings.backup.keep)]}
    for path in store.settings.backup_dir.iterdir():
        if _NAME.fullmatch(path.name) and not (path / MANIFEST).exists():
            # Left by a killed `drop`: it is no longer listed, but still contains what had to go.
            shutil.rmtree(path, ignore_errors=True)
    for copy in older:
        is_outdated = bool(newest.redaction) and copy.redaction != newest.redaction
        if everything_goes or is_outdated or copy.generation in too_many:
            drop(store.settings, copy)
    if everything_goes:
        with store.catalog.writing() as connection:
            meta.put(connection, _VOID, "no")


def drop(settings: Settings, copy: Copy) -> None:
    """Delete one generation, the manifest first: without it the folder no longer counts as a copy."""
    folder = settings.backup_dir / copy.generation
    (folder / MANIFEST).unlink(missing_ok=True)
    shutil.rmtree(folder)


# -- proving ---------------------------------------------------------------------------------------------------------


def _refuse_wrong(folder: Path, root: Path) -> None:
    wrong = wrong_in_copy(folder)
    if wrong:
        more = f" and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        raise StoreError(f"the copy in {root} is not sound: {wrong[0]}{more}. `helix verify` says what is damaged")


def wrong_in_copy(folder: Path) -> list[str]:
    """Everything that is wrong with a copy: the database and its values, the hash of every digest and fact file."""
    try:
        return list(_wrong(folder))
    except (OSError, sqlite3.Error, StoreError, BadZipFile) as exc:
        return [str(exc)]


def _wrong(folder: Path) -> Iterator[str]:
    key = load_key(folder)
    with closing(connect_read_only(folder / CATALOG)) as catalog:
        if found := list(damage(catalog)):
            yield from (f"catalog: {line}" for line in found)
            return  # what cannot be read cannot be compared with its hash
        for digest in digests.to_prove(catalog):
            if not is_proven(digest, key):
                yield f"the digest of {digest.session_uid} is damaged"
        files = live_files.fact_files(catalog)
    with ZipFile(folder / FACTS) as facts:
        held = set(facts.namelist())
        for file in files:
            if file.name not in held:
                yield f"{file.name} is missing in {FACTS}"
            elif facts.getinfo(file.name).file_size != file.bytes or _hash_of(facts, file.name, key) != file.hash:
                yield f"{file.name} is damaged in {FACTS}"


def _hash_of(facts: ZipFile, name: str, key: bytes) -> str | None:
    """The hash of the archive's file of this name; None if its checksum is wrong."""
    try:
        return text_hash(key, facts.read(name))
    except (BadZipFile, zlib.error):
        return None
