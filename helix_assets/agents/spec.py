"""What an adapter is: the only interface between an agent's log format and the rest of the product.

Belongs here: the protocol and its plain shapes. An adapter only says which files are transcripts, what identifies a
line, and which events it contains. Not here: opening, redacting, ordering, merging and storing, which are the same for
all agents (`sweep.read`), and what an adapter adds for files that are not JSON Lines (`agents.kinds`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from helix_assets.model.errors import Problem
from helix_assets.model.event import Record, SessionEvent

JsonObject = dict[str, Any]


class FoundFile(NamedTuple):
    """A transcript file as discovery sees it; `native_id` is None if only the file's head names the session.

    Roles: "main" and any other name for JSON Lines. "document" for a file that is one JSON object and one record.
    "about" for a document that describes the whole session and may change: it yields no events, and the parser's state
    is what the other files' events depend on. "fallback" for JSON Lines that yield events only while the session has no
    "main" file; with one, the parser is made for the role "aside" and yields at most an event without a kind, which
    names a model. `agents.kinds` has the others.
    """

    path: str
    role: str
    native_id: str | None
    dev: int
    inode: int
    size: int
    mtime_ns: int


class Identity(NamedTuple):
    """What identifies a line; ids are None if the agent writes none."""

    native_id: str | None
    parent_id: str | None
    ts_us: int | None
    native_type: str


@dataclass
class SessionFacts:
    """What the lines say about the whole session; the parsers of all its files write into the same object.

    `own_since_us` is when a session began that starts with another one's history: earlier lines do not date it.
    `held_since_us` is the earliest time in its files if they begin with records that belong to another session.
    `repo_root` is not from a line: it is the repository of `cwd` on disk when the session was first read.
    `said_start_us` and `said_end_us` are the times that the session states itself, if its lines have none.
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
    held_since_us: int | None = None
    said_start_us: int | None = None
    said_end_us: int | None = None
    unknown_types: dict[str, int] = field(default_factory=dict)

    def saw_unknown(self, native_type: str) -> None:
        self.unknown_types[native_type] = self.unknown_types.get(native_type, 0) + 1

    def of_first_lines(self) -> SessionFacts:
        """The facts of the first lines, for a reading that skips them because they belong to another session."""
        return SessionFacts(
            cwd=self.cwd,
            git_branch=self.git_branch,
            agent_version=self.agent_version,
            parent_native_id=self.parent_native_id,
            held_since_us=self.held_since_us,
        )

    def offer_title(self, title: str, rank: int) -> None:
        """Keep the last title of the highest rank."""
        if title and rank >= self.title_rank:
            self.title, self.title_rank = title, rank


class Parser(Protocol):
    """Turns the records of one file into events, in file order."""

    def feed(self, obj: JsonObject, record: Record) -> list[SessionEvent]: ...

    def finish(self) -> list[SessionEvent]:
        """Events that only the end of the file shows, such as the message of a run of chunks that is still open."""
        ...

    def state(self) -> JsonObject | None:
        """What the next append needs to continue as if the file had been read at once (small, JSON).

        None if that is not possible here: the session is then derived again from its stored records. A parser may also
        be made with only {"spent": [input, output, cache read, cache written, reasoning], "model": name}, if nothing
        else is left of a session's earlier records.
        """
        ...


class Adapter(Protocol):
    """Turns one agent's logs into our records. Reads only.

    `version` grows whenever the same line would yield other events: stored records are then derived again.
    An adapter of another package may have an `AgentSpec` as its `spec` (`model.agent`); ours are in `<name>/spec.py`.
    `shares_history`: the agent copies records between sessions (resume, fork), so ids are matched across them.
    An agent that writes messages in pieces, each a record, has `model.event.Pieces` as its `pieces`: they are redacted
    together, and a file that ends within a message (its parser returns no state) is read from the start when it grows.
    """

    flavor: str
    version: int
    shares_history: bool

    def discover(self, root: str, problems: list[Problem]) -> Iterator[FoundFile]: ...

    def native_id_from_head(self, path: str, head: bytes) -> str: ...

    def cwd_from_head(self, path: str, head: bytes) -> str | None:
        """The working folder, if the path or the first lines contain it; used only for exclusions."""
        ...

    def identify(self, obj: JsonObject) -> Identity: ...

    def parser(
        self, role: str, facts: SessionFacts, hash64: Callable[[bytes], int], state: JsonObject | None = None
    ) -> Parser: ...
