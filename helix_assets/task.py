"""What goes into a worker and what comes out: the task of bringing one session up to date, and its result.

Plain data, light to import: a sweep that finds nothing to do loads no more than this.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from helix_assets.adapters.base import JsonObject, Problem, SessionFacts
from helix_assets.adapters.jsonl import CHUNK_BYTES, PACKED, block_reader
from helix_assets.core.facts import SessionFactRows
from helix_assets.core.places import PlaceRules
from helix_assets.storage.key import text_hash
from helix_assets.storage.raw_files import PartFile

if TYPE_CHECKING:
    from helix_assets.core.digest import Digest
    from helix_assets.core.redaction import Redactor

EDGE_BYTES = 4096
WORLDWIDE_CHARS = 16
"""Ids of this length and more mean the same thing in every session; a shorter one, such as u1, only in its own."""
BEFORE_TIME = -(1 << 62)
"""An order that comes before every record."""


@dataclass(frozen=True)
class FileTask:
    """One source file to read, from `offset` on. `rank` orders the files of a session and never changes.

    `edges` are the hashes that the file must still have for `offset` to mean what it meant. `stored_before` is the
    offset up to which records were stored once and evicted since: they are derived, not stored. Up to `light_before`
    their rows are stored without their texts, which were dropped. `took_over` are files that this one was before it was
    moved or packed.
    """

    path: str
    path_key: str
    shown: str
    role: str
    rank: int
    bytes_ahead: int = 0
    offset: int = 0
    line: int = 1
    order_us: int = BEFORE_TIME
    state: JsonObject | None = None
    stored_before: int = 0
    light_before: int = 0
    edges: tuple[str, str] | None = None
    took_over: tuple[str, ...] = ()


class Merging(NamedTuple):
    """What was told before of a session whose earlier records can be read no more.

    `known` are keys of records and messages, `after_us` is when the last of them was, `first_seq` the next row's
    number.
    """

    known: frozenset[int]
    after_us: int
    first_seq: int


@dataclass(frozen=True)
class IngestTask:
    """All that a worker needs to bring one session up to date.

    `stored` are the live part files with their hashes; an append continues them, anything else replaces them. Records
    in `not_ours` belong to other sessions that tell them too. `known_root` is a working folder with its repository as
    it lay once. `weight` is the work in bytes, for scheduling. With `no_digest_because` no digest is made; if
    it `is_bare`, too, the records are stored as they are and no event is derived of them. With `merging` only what is
    new counts, and a file's `stored_before` is how far it was read.
    """

    session_uid: str
    flavor: str
    generation: int
    files: tuple[FileTask, ...]
    roles: Mapping[int, str] = field(default_factory=dict)
    stored: tuple[tuple[str, str], ...] = ()
    append: bool = False
    last_row: tuple[int, int, int] = (BEFORE_TIME, 0, 0)
    facts: SessionFacts = field(default_factory=SessionFacts)
    started_us: int | None = None
    ended_us: int | None = None
    unparsed: int = 0
    not_ours: frozenset[int] = frozenset()
    foreign_messages: frozenset[str] = frozenset()
    known_root: tuple[str, str] | None = None
    weight: int = 0
    no_digest_because: str | None = None
    is_bare: bool = False
    merging: Merging | None = None


@dataclass(frozen=True)
class Limits:
    """What one session may take: time, which grows with its bytes, and memory beside what the process has already."""

    seconds: float = 300
    memory_bytes: int = 4 << 30


@dataclass(frozen=True)
class Workshop:
    """What all tasks of a sweep share. Sent to each worker process once. `finds_words` for the search index."""

    key: bytes
    redactor: Redactor
    staging: str
    places: PlaceRules
    limits: Limits = field(default_factory=Limits)
    finds_words: bool = False


class SourceCursor(NamedTuple):
    """How far a file has been read, and what its bytes were there."""

    path_key: str
    dev: int
    inode: int
    size: int
    mtime_ns: int
    head_hash: str | None
    tail_hash: str | None
    offset: int
    line: int
    order_us: int
    state: JsonObject | None
    problem: str | None


@dataclass
class Ingested:
    """What came of one task; `part` is None when there was nothing to store.

    `objects` are the lines that are records; `bad_lines` are those of this reading, `unparsed` all of the session.
    `outlived` are the ranks of files of which more is stored than they tell. `digest_text` is the digest as it is
    stored, once its costs are in it.
    """

    task: IngestTask
    part: PartFile | None
    cursors: list[SourceCursor]
    facts: SessionFacts
    started_us: int | None
    ended_us: int | None
    last_row: tuple[int, int, int]
    digest: Digest | None
    failure: str | None
    problems: list[Problem]
    bad_lines: int
    unparsed: int
    lines: int
    objects: int
    bytes_read: int
    redactions: int
    withheld: int
    shareable: list[int]
    message_ids: dict[int, str]
    fact_rows: SessionFactRows = field(default_factory=dict)
    outlived: frozenset[int] = frozenset()
    digest_text: str | None = None


def is_worldwide(native_id: str | None) -> bool:
    """Whether an id may tell that a record of another session is the same one."""
    return native_id is not None and len(native_id) >= WORLDWIDE_CHARS


def edge_hashes(fd: int, path: str, offset: int, key: bytes) -> tuple[str, str]:
    """Keyed hashes of a file's head and of the bytes before `offset`: equal ones mean that it was only appended to.

    Of a packed file they are those of what it holds, so that packing changes nothing.
    """
    if path.endswith(PACKED):
        head, tail = _unpacked_edges(fd, path, offset)
    else:
        head = os.pread(fd, min(EDGE_BYTES, offset), 0)
        tail = os.pread(fd, min(EDGE_BYTES, offset), max(0, offset - EDGE_BYTES))
    return text_hash(key, head), text_hash(key, tail)


def _unpacked_edges(fd: int, path: str, offset: int) -> tuple[bytes, bytes]:
    read = block_reader(fd, path)
    head = tail = b""
    while offset > 0 and (block := read(min(offset, CHUNK_BYTES))):
        head += block[: EDGE_BYTES - len(head)]
        tail = (tail + block)[-EDGE_BYTES:]
        offset -= len(block)
    return head, tail
