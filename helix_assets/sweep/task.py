"""What goes into a worker and what comes out: the task of bringing one session up to date, and its result.

Plain data that is fast to import, because a sweep without news imports it, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from helix_assets.agents.spec import JsonObject, SessionFacts
from helix_assets.derive.places import PlaceRules
from helix_assets.model.changes import FileState
from helix_assets.model.errors import Problem
from helix_assets.model.facts import SessionFactRows
from helix_assets.store.catalog.session_keys import SessionKeys
from helix_assets.store.raw import PartFile

if TYPE_CHECKING:
    from helix_assets.model.digest import Digest
    from helix_assets.redaction import Redactor
    from helix_assets.sweep.warm import Derived

BEFORE_TIME = -(1 << 62)
"""An order that comes before every record."""


@dataclass(frozen=True)
class FileTask:
    """One source file to read, from `offset` on. `rank` orders the files of a session and never changes.

    `read_hash` is the hash that all bytes before `offset` must still have, else the file was rewritten. `took_over` are
    the sources that were this file before it was moved or packed. `is_same` marks a document that did not change.

    For a session in a shared file, `part` is its id there, `found` its state, `opens` the file to open. A text is read
    up to `until`; its last block is complete if it `is_over`. `split` is the state of its splitter.
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
    read_hash: str | None = None
    took_over: tuple[str, ...] = ()
    is_same: bool = False
    part: str = ""
    found: FileState | None = None
    opens: str = ""
    until: int = 0
    is_over: bool = False
    split: JsonObject | None = None


@dataclass(frozen=True)
class Earlier:
    """What a session counted before some of it was evicted: all that a merge with its kept digest needs.

    `first_seq` is the number of the first row that the kept digest does not cover, `state` what parsers continue from.
    The rest is from the catalog. `at_least` is set if an earlier version did not record all keys: so many records must
    be found for the session to be complete.
    """

    keys: SessionKeys
    first_seq: int
    state: JsonObject | None
    last_row: tuple[int, int, int]
    facts: SessionFacts
    started_us: int | None
    ended_us: int | None
    unparsed: int
    at_least: int | None = None


@dataclass(frozen=True)
class IngestTask:
    """All that a worker needs to bring one session up to date.

    `stored` are the live part files with their hashes; an append continues them, anything else replaces them. Those
    from the number `folds` on become one file when more is appended. Records
    in `not_ours` belong to other sessions that also hold them. `known_root` is a working folder with its repository as
    it was once found. `weight` is the work in bytes, for scheduling. With `no_digest_because` no digest is made; if it
    also `is_bare`, the records are stored, but no events are derived from them.

    `earlier` is set for a session of which something was evicted: records that it counts are derived, but not stored
    again. If not all of them can be read, the task becomes one that `merges`: then only new records count.

    An append continues what was `derived` earlier in this process, if there is any; else it reads the stored rows.
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
    earlier: Earlier | None = None
    merges: bool = False
    folds: int | None = None
    derived: Derived | None = None


@dataclass(frozen=True)
class Limits:
    """What one session may take: time, which grows with its bytes, and memory in addition to what the process has."""

    seconds: float = 300
    memory_bytes: int = 4 << 30


@dataclass(frozen=True)
class Workshop:
    """What all tasks of a sweep share, sent once to each worker process. `finds_words` is for the search index."""

    key: bytes
    redactor: Redactor
    staging: str
    places: PlaceRules
    limits: Limits = field(default_factory=Limits)
    finds_words: bool = False


class SourceCursor(NamedTuple):
    """How far a file has been read, and its state and hash then."""

    path_key: str
    dev: int
    inode: int
    size: int
    mtime_ns: int
    read_hash: str | None
    offset: int
    line: int
    order_us: int
    state: JsonObject | None
    problem: str | None


@dataclass
class Ingested:
    """The result of one task; `part` is None if there was nothing to store, `folded` if no parts were folded.

    `objects` are the lines that are records; `bad_lines` are those of this reading, `unparsed` all of the session.
    `outlived` are the ranks of files of which more is stored than they hold. `digest_text` is the digest as stored,
    with its costs. `derived` is what the next append can continue.
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
    keys: SessionKeys = field(default_factory=SessionKeys)
    evicted: int = 0
    light: int = 0
    is_merged: bool = False
    digest_text: str | None = None
    folded: PartFile | None = None
    derived: Derived | None = None

    @property
    def staged(self) -> list[PartFile]:
        """The files that wait in the staging folder, in the order of their rows."""
        return [part for part in (self.folded, self.part) if part is not None]
