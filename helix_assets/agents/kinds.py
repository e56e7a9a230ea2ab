"""Kinds of source files beside JSON Lines, and what an adapter adds for each.

Whatever a source is, it is read as units, and a unit is a JSON object. In JSON Lines the lines are the units; of any
other kind the adapter makes them. From there on all kinds are the same: a unit is one record. It is redacted as a line
of JSON, named by `Adapter.identify` and turned into events by the parser.

- "units", with `SplitsDocuments`: a JSON object that holds one session. It is read whole whenever it changes; a unit's
  `line` is its number from 1 on, its `offset` 0.
- "database", with `ReadsDatabases`: an SQLite database that holds many sessions, each a source of its own. A session is
  read whole whenever its mark changes; a unit's `line` is its number from 1 on, its `offset` 0.
- "text", with `ReadsTexts`: a text that only grows and holds many sessions, each a source of its own. It is cut into
  blocks; a unit's `line` and `offset` are where its block begins, and reading goes on there. The last block may still
  grow: it is read once the text rests, and again when the text grows.
- "unreadable", with `KnowsUnreadable`: a session that is there but cannot be read, such as an encrypted one. It becomes
  a session without events, dated by its file's times. It is counted in `helix status` and `helix doctor`.

Belongs here: the protocols and what crosses them. Not here: the roles themselves (`agents.roles`), opening and reading
(`sweep.read`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from helix_assets.agents.spec import JsonObject


class SplitsDocuments(Protocol):
    """What an adapter adds that finds files of the role "units"."""

    def units(self, obj: JsonObject) -> Iterator[JsonObject]:
        """The document in pieces: what it says of the session as a whole, then its messages in their order.

        The newest version of a unit counts, and one that the file no longer has is kept. A unit is known by its own id
        (`identify`), else by its content.
        """
        ...


class Query(NamedTuple):
    """A question to a database, and what it reads: columns by table, never `*`. Anything else is refused."""

    sql: str
    reads: Mapping[str, Collection[str]]


Ask = Callable[..., Iterator[tuple[Any, ...]]]
"""Asks a database: the name of a query, then the values of its parameters; gives the rows."""


class Held(NamedTuple):
    """A session as the file that holds it lists it.

    `mark` differs between two states of the session, such as the newest change and the number of messages; `updated_us`
    dates a session whose units bear no time; `cwd` is where it worked, as far as it is known, to honour exclusions.
    """

    native_id: str
    mark: object
    updated_us: int
    cwd: str | None = None
    bytes: int = 0


class ReadsDatabases(Protocol):
    """What an adapter adds that finds files of the role "database"; the file found has no `native_id`."""

    queries: Mapping[str, Query]

    def sessions(self, ask: Ask) -> Iterator[Held]:
        """All sessions that the database holds now."""
        ...

    def rows(self, ask: Ask, native_id: str) -> Iterator[JsonObject]:
        """The units of one session in their order; what is said of `SplitsDocuments.units` holds for them too."""
        ...


class Block(NamedTuple):
    """A block of a text as a unit, the session that it is of, and where that worked, as far as it is known."""

    session: str
    unit: JsonObject
    cwd: str | None = None


class Splitter(Protocol):
    """Cuts one text into blocks. It is given the lines in their order, and each block when its last line is known."""

    def begins(self, line: str) -> bool:
        """Whether a new block begins with this line. Asked once for every line; the first one always begins a block."""
        ...

    def block(self, text: str, line: int) -> Block:
        """What a block says, by its whole text; `line` is the number of its first line.

        A unit should name itself by its place in its session: the last block is read before it has its last line.
        """
        ...

    def state(self) -> JsonObject:
        """What the blocks so far leave behind, such as the open session and its `cwd`; nothing of the open block."""
        ...


class ReadsTexts(Protocol):
    """What an adapter adds that finds files of the role "text"; the file found has no `native_id`."""

    def splitter(self, path: str, state: JsonObject | None) -> Splitter:
        """A splitter from the start of a text, or from where one had this state."""
        ...


class KnowsUnreadable(Protocol):
    """What an adapter adds that finds files of the role "unreadable"; the file found has its `native_id`."""

    unreadable_because: str
    """Why, for a person: "it is encrypted"."""
