"""Proves that no secret is stored: checks every byte below the data folder, and in the store's copies wherever they
are kept, by the rules in force.

Canaries are texts that must never be found, whatever the rules say: one per line of `canaries.txt` in the data folder.
Belongs here: reading what is stored and naming the place of a hit. Part of `prove.verify`; changes nothing.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile

import pyarrow as pa
import pyarrow.parquet as pq

from helix_assets.agents import pieces_of
from helix_assets.ask.reading import named_files
from helix_assets.keep.backup import FACTS, own_copies
from helix_assets.model.errors import StoreError
from helix_assets.model.event import Row
from helix_assets.redaction import Redactor
from helix_assets.redaction.again import joined_rows
from helix_assets.redaction.encoded import spelled
from helix_assets.redaction.joined import Joiner
from helix_assets.store.catalog.pages import every_row
from helix_assets.store.lock import is_locked
from helix_assets.store.parquet import read_rows
from helix_assets.store.store import ENGINE, Store

CANARIES = "canaries.txt"
_NOT_TEXT = frozenset({CANARIES, "key", ENGINE})
_NAMES = frozenset({"path", "path_key", "native_id", "native_session_id", "session_uid"})
_TEXT_BYTES = 1 << 20
_OVERLAP = 1 << 14
_SQLITE = b"SQLite format 3\0"
_BY_RULES = "a secret by the rules in force"
_ACROSS = "a secret by the rules in force, in pieces of one message"


class Survivor(NamedTuple):
    """What should not be stored, and where it is; never the secret itself."""

    what: str
    session_uid: str | None
    place: str


class Probe:
    """Looks for secrets in texts: those that the rules would still redact, and canaries."""

    def __init__(self, redactor: Redactor, canaries: Sequence[str] = ()) -> None:
        self._redactor = redactor
        self._canaries = [_spellings(canary) for canary in canaries]

    def canaries(self, data: bytes) -> list[str]:
        """The canaries that are in these bytes, by their line in the list."""
        found = (n for n, spellings in enumerate(self._canaries, start=1) if any(text in data for text in spellings))
        return [f"the text of line {number} of {CANARIES}" for number in found]

    def across(self, flavor: str) -> Joiner[Row] | None:
        """Checks the pieces of a message together, for agents that write pieces; its `hits` are the secrets found."""
        pieces = pieces_of(flavor)
        return None if pieces is None else Joiner(self._redactor, pieces, lambda row, _raw, _obj: row)

    def found_in(self, data: bytes) -> list[str]:
        """Describe the secrets in these bytes."""
        return ([_BY_RULES] if self._redactor.scan(data) else []) + self.canaries(data)

    def found_in_name(self, name: bytes) -> list[str]:
        """Describe the secrets in a path, also in what its names encode."""
        spellings = spelled(name.decode("utf-8", "replace")) if b"%" in name else ()
        return list(dict.fromkeys(what for text in (name, *map(str.encode, spellings)) for what in self.found_in(text)))


def load_probe(store: Store) -> Probe:
    """The rules in force and the canaries of a store. A missing canary list counts as empty."""
    path = store.data_dir / CANARIES
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")  # editors on Windows begin a file with a mark
    except FileNotFoundError:
        lines = []
    except (OSError, UnicodeDecodeError) as exc:
        raise StoreError(f"{path} cannot be read: {exc}. It holds one text per line") from exc
    return Probe(store.redactor, [line.strip() for line in lines])


def _spellings(canary: str) -> tuple[bytes, ...]:
    """A canary as it is, and as it is written in JSON, and in JSON inside JSON."""
    if not canary:
        return ()
    once = json.dumps(canary, ensure_ascii=False)[1:-1]
    twice = json.dumps(once, ensure_ascii=False)[1:-1]
    return tuple({text.encode() for text in (canary, once, twice, json.dumps(canary)[1:-1])})


def surviving_secrets(store: Store) -> list[Survivor]:
    """Read all that is stored: raw rows, facts, tables of every SQLite file, notes, logs, copies, names of files."""
    return list(dict.fromkeys(_survivors(store, load_probe(store))))


def _survivors(store: Store, probe: Probe) -> Iterator[Survivor]:
    for path in _files(store):
        place = str(path.relative_to(store.data_dir) if path.is_relative_to(store.data_dir) else path)
        try:
            yield from _named(probe.found_in_name(place.encode("utf-8", "replace")), "the name of a file")
            yield from _file(probe, path, place)
        except (OSError, StoreError, BadZipFile, sqlite3.Error) as exc:
            if path.exists() and not _is_half_written(store, path):  # else a sweep has just replaced it
                yield Survivor(f"cannot be searched ({type(exc).__name__})", None, place)


def _is_half_written(store: Store, path: Path) -> bool:
    """Whether a writer is still working on a file: the catalog does not name it yet."""
    is_named = path in {file.path for file in named_files(store)}
    return path.suffix == ".parquet" and not is_named and is_locked(store.data_dir)


def _files(store: Store) -> Iterator[Path]:
    kept = [store.settings.backup_dir / copy.generation for copy in own_copies(store)]
    for root in (store.data_dir, *(folder for folder in kept if not folder.is_relative_to(store.data_dir))):
        for folder, _, names in os.walk(root):
            yield from (Path(folder, name) for name in sorted(names))


def _named(found: Iterable[str], place: str, uid: str | None = None) -> Iterator[Survivor]:
    return (Survivor(what, uid, place) for what in found)


def _file(probe: Probe, path: Path, place: str) -> Iterator[Survivor]:
    if path.name in _NOT_TEXT or not path.is_file():
        return
    if path.suffix == ".parquet":
        yield from _raw(probe, path, place) if place.startswith("raw") else _facts(probe, path, place)
        return
    if path.name == FACTS:
        with ZipFile(path) as facts:
            for name in facts.namelist():
                yield from _facts(probe, BytesIO(facts.read(name)), f"{place}, {name}")
        return
    is_database = _is_database(path)
    if is_database:
        yield from _tables(probe, path, place)
    # A database and its log may still contain pieces of deleted text: rules need whole texts, canaries do not.
    # The search index consists of numbers, in which rules find secrets by chance.
    is_its_log = path.name.endswith(("-wal", "-shm")) and _is_database(path.with_name(path.name[:-4]))
    yield from _bytes(probe, path, place, canaries_only=is_database or is_its_log or path.suffix == ".words")


def _is_database(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) == _SQLITE


def _bytes(probe: Probe, path: Path, place: str, *, canaries_only: bool) -> Iterator[Survivor]:
    look = probe.canaries if canaries_only else probe.found_in
    found: dict[str, None] = {}
    with path.open("rb") as file:
        tail = b""
        while block := file.read(_TEXT_BYTES):
            found |= dict.fromkeys(look(tail + block))
            tail = block[-_OVERLAP:]
    yield from _named(found, place)


def _raw(probe: Probe, path: Path, place: str) -> Iterator[Survivor]:
    uid = None
    for _, found in survivors_in_rows(probe, [path]):
        uid = uid or (_session_of(path) if found else None)
        yield from _named(found, place, uid)


def _facts(probe: Probe, source: Path | BytesIO, place: str) -> Iterator[Survivor]:
    try:
        table = pq.ParquetFile(source).read(use_threads=False)
    except pa.ArrowInvalid as exc:
        raise StoreError("is damaged: run `helix verify`") from exc
    for name in table.column_names:
        if pa.types.is_string(table.column(name).type):
            for text in table.column(name).unique().to_pylist():
                yield from _named(probe.found_in((text or "").encode()), f"{place}, column {name}")


def survivors_in_rows(probe: Probe, paths: Sequence[Path]) -> Iterator[tuple[bytes, list[str]]]:
    """Each text of these raw files with the secrets found in it."""
    for path in paths:
        joiner = probe.across(_flavor_of(path))
        for row in read_rows([path], raw=True) if joiner is None else joined_rows(joiner, read_rows([path], raw=True)):
            for value in row:
                if value and isinstance(value, str | bytes):
                    text = value if isinstance(value, bytes) else value.encode()
                    yield text, probe.found_in(text)
        if joiner is not None:
            yield b"", [_ACROSS] if joiner.hits else []


def _flavor_of(path: Path) -> str:
    """The agent of a raw file, from the name of a folder above it."""
    return next((part.removeprefix("flavor=") for part in path.parts if part.startswith("flavor=")), "")


def _session_of(path: Path) -> str:
    return str(pq.ParquetFile(path).read_row_group(0, columns=["session_uid"]).column(0)[0].as_py())


def _tables(probe: Probe, path: Path, place: str) -> Iterator[Survivor]:
    for table, row in every_row(path):
        yield from _row(probe, f"{place}, table {table}", row)


def _row(probe: Probe, place: str, row: dict[str, Any]) -> Iterator[Survivor]:
    uid = row.get("session_uid")
    for column, value in row.items():
        if isinstance(value, bytes):
            look = probe.found_in_name if column in _NAMES else probe.found_in
            yield from _named(look(value), f"{place}, column {column}", uid.decode() if uid else None)
