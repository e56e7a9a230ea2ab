"""Kinds of source files other than JSON Lines, and what an adapter adds for each.

Every source is read as units, and a unit is a JSON object. In JSON Lines the lines are the units; for any other kind
the adapter makes them. After that all kinds are the same: a unit is one record. It is redacted as a line of JSON,
identified by `Adapter.identify` and turned into events by the parser.

- "units", with `SplitsDocuments`: a JSON object that contains one session. It is read whole whenever it changes; a
  unit's `line` is its number from 1 on, its `offset` 0.
- "database", with `ReadsDatabases`: an SQLite database that contains many sessions, each its own source. A session is
  read whole whenever its mark changes; a unit's `line` is its number from 1 on, its `offset` 0.
- "text", with `ReadsTexts`: a text that only grows and contains many sessions, each its own source. It is cut into
  blocks; a unit's `line` and `offset` are where its block begins, and reading continues there. The last block may still
  grow: it is read once the text rests, and again when the text grows. One block at a time is in memory, and one over
  64 MiB is skipped and counted.
- "unreadable", with `KnowsUnreadable`: a session that exists but cannot be read, such as an encrypted one. It becomes
  a session without events, dated by its file's times. It is counted in `helix status` and `helix doctor`.

Belongs here: the protocols and their plain shapes. Not here: the roles themselves (`agents.roles`), opening and reading
(`sweep.read`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from helix_assets.agents.spec import JsonObject


class SplitsDocuments(Protocol):
    """What an adapter adds if it finds files of the role "units"."""

    def units(self, obj: JsonObject) -> Iterator[JsonObject]:
        """The document in units: what it says about the whole session, then its messages in order.

        The newest version of a unit counts, and one that the file no longer has is kept. A unit is identified by its
        own id (`identify`), else by its content.
        """
        ...


class Query(NamedTuple):
    """A query of a database, and what it reads: columns by table, never `*`. Reading anything else is refused."""

    sql: str
    reads: Mapping[str, Collection[str]]


Ask = Callable[..., Iterator[tuple[Any, ...]]]
"""Runs a query: takes its name, then the values of its parameters, and returns the rows."""


class Held(NamedTuple):
    """A session as its shared file lists it.

    `mark` changes with the session, such as the newest change and the number of messages. `updated_us` dates a session
    whose units have no times. `cwd` is its working folder, if known, for exclusions.
    """

    native_id: str
    mark: object
    updated_us: int
    cwd: str | None = None
    bytes: int = 0


class ReadsDatabases(Protocol):
    """What an adapter adds if it finds files of the role "database"; the file found has no `native_id`."""

    queries: Mapping[str, Query]

    def sessions(self, ask: Ask) -> Iterator[Held]:
        """All sessions in the database now."""
        ...

    def rows(self, ask: Ask, native_id: str) -> Iterator[JsonObject]:
        """The units of one session in order; the rules of `SplitsDocuments.units` apply to them, too."""
        ...


class Block(NamedTuple):
    """A block of a text as a unit, with its session and, if known, the session's working folder."""

    session: str
    unit: JsonObject
    cwd: str | None = None


class Splitter(Protocol):
    """Cuts one text into blocks. It gets the lines in order, and each block when its last line is known."""

    def begins(self, line: str) -> bool:
        """Whether a new block begins with this line. Called once for every line; the first always begins a block."""
        ...

    def block(self, text: str, line: int) -> Block:
        """The block for its whole text; `line` is the number of its first line.

        A unit's id should be its place in its session, because the last block may be read before it is complete. Of a
        block that is too long, `text` is the beginning: its session counts, its unit is not stored.
        """
        ...

    def state(self) -> JsonObject:
        """What later blocks need of those so far, such as the open session and its `cwd`; nothing of the open block."""
        ...


class ReadsTexts(Protocol):
    """What an adapter adds if it finds files of the role "text"; the file found has no `native_id`."""

    def splitter(self, path: str, state: JsonObject | None) -> Splitter:
        """A splitter for the start of a text, or one that continues from this state."""
        ...


class KnowsUnreadable(Protocol):
    """What an adapter adds if it finds files of the role "unreadable"; the file found has its `native_id`."""

    unreadable_because: str
    """Why, for a person: "it is encrypted"."""
