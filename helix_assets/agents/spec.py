"""What an adapter is: the one seam between an agent's log format and the rest of the product.

Belongs here: the protocol and the plain shapes that cross it.
An adapter only says which files are transcripts, how a line names itself, and which events it holds;
opening, redacting, ordering, merging and storing are the same for all agents and live in `sweep.read`.
What an adapter adds for files that are not JSON Lines stands in `agents.kinds`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from helix_assets.model.errors import Problem
from helix_assets.model.event import Record, SessionEvent

JsonObject = dict[str, Any]


class FoundFile(NamedTuple):
    """A transcript file as discovery sees it; `native_id` is None where only the file's head can tell the session.

    Roles: "main" and any other name for JSON Lines; "document" for a file that is one JSON object and one record;
    "about" for a document that tells of the session as a whole and may change while it lives: it yields no events, and
    the parser's state says on what of it the other files' events depend; "fallback" for JSON Lines that yield events
    only while the session has no "main" file; beside one the parser is made for the role "aside" and yields at most
    an event without a kind, that names a model. `agents.kinds` has the others.
    """

    path: str
    role: str
    native_id: str | None
    dev: int
    inode: int
    size: int
    mtime_ns: int


class Identity(NamedTuple):
    """How a line names itself: ids are None where the agent gives none."""

    native_id: str | None
    parent_id: str | None
    ts_us: int | None
    native_type: str


@dataclass
class SessionFacts:
    """What the lines say about their session as a whole; parsers of all its files write into the same one.

    `own_since_us` is when a session began that starts with another one's history: earlier lines do not date it.
    `repo_root` is no line's word: the repository of `cwd` as it lay on disk when the session was first read.
    `said_start_us` and `said_end_us` are the session's times by its own account, for one whose lines bear none.
    """

    cwd: str | None = None
    repo_root: str | None = None
    git_branch: str | None = None
    title: str | None = None
    title_rank: int = 0
    agent_version: str | None = None
    parent_native_id: str | None = None
    model: str | None = None
    is_subagent: bool = False
    own_since_us: int | None = None
    said_start_us: int | None = None
    said_end_us: int | None = None
    unknown_types: dict[str, int] = field(default_factory=dict)

    def saw_unknown(self, native_type: str) -> None:
        self.unknown_types[native_type] = self.unknown_types.get(native_type, 0) + 1

    def of_first_lines(self) -> SessionFacts:
        """Where the session began, for who does not meet its first lines again: they are another session's."""
        return SessionFacts(
            cwd=self.cwd,
            git_branch=self.git_branch,
            agent_version=self.agent_version,
            parent_native_id=self.parent_native_id,
        )

    def offer_title(self, title: str, rank: int) -> None:
        """Keep the last title of the highest rank."""
        if title and rank >= self.title_rank:
            self.title, self.title_rank = title, rank


class Parser(Protocol):
    """Turns the records of one file into events, in file order."""

    def feed(self, obj: JsonObject, record: Record) -> list[SessionEvent]: ...

    def finish(self) -> list[SessionEvent]:
        """What the end of the file brings to light, such as the message of a run of chunks that nothing closed."""
        ...

    def state(self) -> JsonObject | None:
        """What the next append needs to go on as if the file had been read in one piece (JSON-able, small).

        None when nothing could go on from here: the session is then derived anew from its stored records. A parser may
        also be made with {"spent": [input, output, cache read, cache written, reasoning], "model": name} alone, when
        that is all that is left of a session's earlier records.
        """
        ...


class Adapter(Protocol):
    """Turns one agent's logs into our records. Reads only.

    `version` grows whenever the same line would yield other events: stored records are then derived anew.
    An adapter from outside may have an `AgentSpec` as its `spec` (`model.agent`); ours have theirs in `<name>/spec.py`.
    `shares_history` says that the agent copies records between sessions (resume, fork), so ids are matched across them.
    An agent that writes messages in pieces, each a record, has `model.event.Pieces` as its `pieces`: they are redacted
    together, and a file that ends within a message (its parser has no state to go on from) is read anew when it grows.
    """

    flavor: str
    version: int
    shares_history: bool

    def discover(self, root: str, problems: list[Problem]) -> Iterator[FoundFile]: ...

    def native_id_from_head(self, path: str, head: bytes) -> str: ...

    def cwd_from_head(self, path: str, head: bytes) -> str | None:
        """The working folder as far as the path or the first lines tell it; used only to honour exclusions."""
        ...

    def identify(self, obj: JsonObject) -> Identity: ...

    def parser(
        self, role: str, facts: SessionFacts, hash64: Callable[[bytes], int], state: JsonObject | None = None
    ) -> Parser: ...
