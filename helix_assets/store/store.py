"""One open store: the folder, its key, its catalog, its raw files and the redactor that everything passes through.

Belongs here: opening and creating it. Not here: what is done with it (`sweep.sweep`, `keep.evict`, `prove.verify`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from helix_assets.model.errors import StoreError
from helix_assets.model.identity import utf8_name
from helix_assets.settings import Settings
from helix_assets.store.catalog import meta, sessions
from helix_assets.store.catalog.catalog import CATALOG, Catalog, create_catalog, open_catalog
from helix_assets.store.catalog.connection import Connection
from helix_assets.store.durable import drop, open_plain, replace_file
from helix_assets.store.fact_files import FactFiles
from helix_assets.store.folder import own_folder
from helix_assets.store.key import load_key, make_key, text_hash
from helix_assets.store.lock import writer_lock
from helix_assets.store.raw import RawFiles
from helix_assets.store.reserve import make_reserve

if TYPE_CHECKING:
    from helix_assets.redaction import Redactor

ENGINE = "engine"
"""The automaton that skips lines without secrets, as hyperscan serializes it."""
_MOST_OF_ENGINE = 128 << 20
HIDDEN = "hidden:"
"""The beginning of the keys of sources that do not show their path."""
FORMERLY_REDACTED, FORMERLY_READ_AS = "names_redacted_with", "names_read_as"
MEMORY_REDACTED, RULES_STAMP = "memory_redacted_with", "rules_stamp"
"""In `meta`: the version of the rules by which all of the catalog and the facts is redacted, and these rules' stamp."""


@dataclass(frozen=True)
class Store:
    """Everything that belongs to one data folder."""

    settings: Settings
    key: bytes
    catalog: Catalog
    raw: RawFiles

    @property
    def data_dir(self) -> Path:
        return self.settings.data_dir

    @cached_property
    def facts(self) -> FactFiles:
        """The facts of Tier 2."""
        return FactFiles(self.data_dir, self.key)

    @cached_property
    def redactor(self) -> Redactor:
        """The rules in force: the built-in ones and the person's own."""
        return _redactor(self.settings, self.key)

    @cached_property
    def rules_version(self) -> str:
        """The version of the rules in force. They are not loaded if their files are those that the last sweep saw."""
        with self.catalog.reading() as connection:
            return self._rules_version(meta.every(connection))

    def recall_rules(self, known: Mapping[str, str]) -> None:
        """Find out `rules_version` by what was already read: `known` is all of `meta`."""
        vars(self).setdefault("rules_version", self._rules_version(known))

    def _rules_version(self, known: Mapping[str, str]) -> str:
        version, stamp = known.get(MEMORY_REDACTED), self.settings.rules_stamp
        return version if version and stamp and known.get(RULES_STAMP) == stamp else self.redactor.version

    def prepare_engine(self) -> None:
        """Build and save the automaton that finds secrets in much text, unless it is saved. Needs the writer lock."""
        self.redactor.prepare()
        if built := self.redactor.built():
            with suppress(OSError):  # it saves time only
                if not (self.data_dir / ENGINE).is_file():
                    drop(self.data_dir / ENGINE)  # a folder cannot be replaced by a file
                replace_file(self.data_dir / ENGINE, built)

    def is_memory_redacted(self) -> bool:
        """Whether the catalog and the facts are redacted by the rules in force. The texts of a session are if its
        `redaction_version` is that of these rules."""
        with self.catalog.reading() as connection:
            return redacted_with(connection, meta.every(connection)) == self.rules_version

    def path_key(self, path: str) -> str:
        """The name of a source in the catalog: its path, or a keyed hash if that contains a secret or is not UTF-8."""
        if self.shown_path(path) == path:
            return path
        return f"{HIDDEN}{text_hash(self.key, os.fsencode(path))}"

    def shown(self, data: Any) -> Any:
        """Plain data as a reader may show it: each text in it, also names and ids, redacted by the rules in force."""
        if not data:
            return data
        from helix_assets.redaction.encoded import shown_by

        return shown_by(self.redactor, data)

    def shown_path(self, path: str) -> str:
        """The path as it may be stored and shown: valid UTF-8, without secrets, also without encoded ones."""
        from helix_assets.redaction.encoded import name_again

        return name_again(self.redactor, utf8_name(path))

    def close(self) -> None:
        self.catalog.close()


def redacted_with(connection: Connection, known: Mapping[str, str]) -> str | None:
    """The version of the rules that catalog and facts are redacted by, if it is one; `known` is all of `meta`.

    Earlier versions noted it for names and for each session.
    """
    version = known.get(MEMORY_REDACTED)
    if version is None and known.get(FORMERLY_READ_AS) == "decoded":
        former = known.get(FORMERLY_REDACTED)
        version = former if former and not sessions.is_any_redacted_otherwise(connection, former) else None
    return version


def rules_in_force(settings: Settings) -> Redactor:
    """The rules without an open store. Marks have the store's tags if its key can be read."""
    try:
        key = load_key(settings.data_dir)
    except (OSError, StoreError):
        key = os.urandom(32)
    return _redactor(settings, key)


def _redactor(settings: Settings, key: bytes) -> Redactor:
    from helix_assets.redaction import Redactor, Rule

    own = settings.redaction
    rules = [Rule(name=r.name, keyword=r.keyword or "", pattern=r.pattern) for r in own.rules]
    return Redactor(key, extra_rules=rules, allow=own.allow, kept=partial(_kept_engine, settings.data_dir))


def _kept_engine(data_dir: Path) -> bytes | None:
    """Read what `prepare_engine` saved, if it is a plain file of a plausible size."""
    try:
        with open_plain(data_dir / ENGINE) as file:
            return file.read() if os.fstat(file.fileno()).st_size <= _MOST_OF_ENGINE else None
    except OSError:
        return None


def open_store(settings: Settings) -> Store:
    """Open the store of these settings, making it on first use."""
    os.umask(0o077)
    data_dir = settings.data_dir
    try:
        own_folder(data_dir)
        if not (data_dir / CATALOG).exists():
            _make(settings)
        key = load_key(data_dir)
        catalog = open_catalog(data_dir)
    except OSError as exc:
        raise StoreError(
            f"the store in {data_dir} cannot be opened: {exc.strerror}. Set HELIX_DATA_DIR to a folder of your own"
        ) from exc
    return Store(settings, key, catalog, RawFiles(data_dir))


def _make(settings: Settings) -> None:
    """Make key and catalog, one process at a time. The rules in force hide nothing in an empty catalog."""
    data_dir = settings.data_dir
    with writer_lock(data_dir, "create"):
        if (data_dir / CATALOG).exists():
            return
        refuse_lost_catalog(data_dir)
        make_reserve(data_dir)
        make_key(data_dir)
        create_catalog(data_dir)
        with closing(open_catalog(data_dir)) as catalog, catalog.writing() as connection:
            meta.put(connection, MEMORY_REDACTED, rules_in_force(settings).version)
            meta.put(connection, RULES_STAMP, settings.rules_stamp)


def refuse_lost_catalog(data_dir: Path) -> None:
    """StoreError if a folder without a catalog contains files that need one.

    Only the store's own folders are checked: another memory, such as the demo's, may be next to them.
    """
    own = (RawFiles(data_dir).root, FactFiles(data_dir, b"").root)
    if any(next(folder.rglob("*.parquet"), None) for folder in own):
        raise StoreError(
            f"{data_dir / CATALOG} is gone, and the other files mean nothing without it: restore it from the backup, "
            f"or move {data_dir} away and sweep again"
        )


def file_key(store: Store, session_uid: str) -> str:
    """The name of a session's files: a keyed hash, because a uid may contain anything."""
    return text_hash(store.key, session_uid.encode("utf-8", "replace"))[:20]
