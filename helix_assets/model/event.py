"""The normalized shapes of Tier 1: what a session and an event are, for every agent.

Belongs here: names, kinds and plain records. Not here: how an agent writes its log (adapters) or how rows
lie on disk (storage).
"""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

import orjson

SCHEMA_VERSION = 1
DIGEST_VERSION = 5
"""Grows whenever the same rows would yield another digest: digests of an older one are derived anew."""
FACTS_SINCE = 3
"""The first version of digests that have facts beside them."""
SUMMARY_CHARS = 200
UNPARSED = "unparsed"
"""Native type of a line that is no JSON object: its text is kept, it yields no event and counts as no record."""
DOCUMENT = "document"
"""Native type of a file that is one object: it tells of the session as a whole and counts as no record."""
BESIDE = -1
"""`seq` of a record beside the conversation, such as a document or an agent's second copy: it has no place in it."""
AFTER_THE_END = "(end of file)"
"""Native type of rows for what only the end of a file brought to light."""


class EventKind(StrEnum):
    """The thirteen kinds of event; a stored row without a kind is a record that yields no event."""

    USER_MSG = "user_msg"
    ASSISTANT_MSG = "assistant_msg"
    THINKING = "thinking"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    ERROR = "error"
    TEST_RUN = "test_run"
    EDIT = "edit"
    RETRY = "retry"
    HUMAN_INTERVENTION = "human_intervention"
    DECISION = "decision"
    LIFECYCLE = "lifecycle"
    COMPLETION = "completion"


class Usage(NamedTuple):
    """Tokens of one API message as its log line gives them: disjoint kinds, but reasoning is part of output."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    reasoning: int | None = None


class SessionEvent(NamedTuple):
    """One event as an adapter emits it, before its place in the session is known.

    `detail` is a small JSON object for what has no column (test counts, command program, error text).
    `input_hash` tells two calls of one tool apart without keeping the input. `ts_us` is set only where the event
    happened at another time than its record. `text` is the whole text of a tool's result, for what is derived from it
    in passing; it is not stored. `size` is how many characters a message has.
    """

    kind: EventKind | None
    role: str | None = None
    tool: str | None = None
    summary: str | None = None
    status: str | None = None
    call_id: str | None = None
    message_id: str | None = None
    model: str | None = None
    usage: Usage | None = None
    cost_usd: float | None = None
    is_sidechain: bool = False
    agent_id: str | None = None
    exit_code: int | None = None
    duration_ms: int | None = None
    file_path: str | None = None
    lines_added: int | None = None
    lines_removed: int | None = None
    input_hash: int | None = None
    detail: str | None = None
    ts_us: int | None = None
    text: str | None = None
    size: int | None = None


class Record(NamedTuple):
    """One source line: where it stands, what identifies it, and its redacted text.

    `order_us` is the greatest timestamp of its file so far, so that a file's own order always holds.
    """

    order_us: int
    file: int
    line: int
    offset: int
    key: int
    native_id: str | None
    parent_id: str | None
    ts_us: int | None
    native_type: str
    raw: bytes


class Piece(NamedTuple):
    """One record's part of a message. `order` is its place among the others where it is not that of the records.

    `kind` and `key` tell one message from the next; a key that is not given fits any.
    """

    kind: str
    key: int | None
    order: int | None
    text: str

    def continues(self, first: Piece) -> bool:
        """Whether this goes on with the message that `first` began."""
        return self.kind == first.kind and (self.key is None or first.key is None or self.key == first.key)


class Pieces(Protocol):
    """Which records of an agent are pieces of messages, by their native types, and which others end a message."""

    kinds: Collection[str]
    ends: Collection[str]

    def piece(self, obj: dict[str, Any]) -> Piece: ...

    def with_text(self, obj: dict[str, Any], text: str) -> dict[str, Any]:
        """The record with another text in the place of its own."""
        ...

    def said_by(self, native_type: str, text: str | None) -> tuple[str, str] | None:
        """Kind and role of what a piece says, None for another record: its event stands with the line behind the last.

        Search does without where an adapter from outside does not have it.
        """
        ...


class Row(NamedTuple):
    """One stored row of Tier 1, in `seq` order; `raw` is set on the first row of each record."""

    seq: int
    parent_seq: int | None
    ts_us: int | None
    kind: str | None
    role: str | None
    tool: str | None
    summary: str | None
    status: str | None
    tokens: int | None
    is_sidechain: bool
    agent_id: str | None
    call_id: str | None
    message_id: str | None
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    cache_read_tokens: int | None
    cache_write_5m_tokens: int | None
    cache_write_1h_tokens: int | None
    reasoning_tokens: int | None
    cost_usd: float | None
    exit_code: int | None
    duration_ms: int | None
    file_path: str | None
    lines_added: int | None
    lines_removed: int | None
    input_hash: int | None
    detail: str | None
    size: int | None
    native_type: str
    record_id: str | None
    parent_id: str | None
    record_key: int
    order_us: int
    file: int
    line: int
    offset: int
    raw: bytes | None


def light(row: Row) -> Row:
    """The row without its source line and the ids in it: what is kept of many rows for later should be small."""
    return Row._make((*row[:_IDS], None, None, *row[_IDS + 2 : -1], None))  # a third of _replace's time


_IDS = Row._fields.index("record_id")


def last_words(text: str) -> str | None:
    """The end of a text that its summary has no room for, as an event's `detail`; None of a short one.

    Begins behind a space, so that no mark of a redaction is torn.
    """
    if len(text) <= SUMMARY_CHARS:
        return None
    end = " ".join(text[-SUMMARY_CHARS:].replace("\0", "").encode("utf-8", "replace").decode().split()[1:])
    return orjson.dumps({"end": end}).decode() if end else None


def shorten(text: str, limit: int = SUMMARY_CHARS) -> str:
    """One line of at most `limit` characters, white space folded."""
    line = " ".join(text[: limit + 60].replace("\0", "").split())
    if len(line) <= limit and len(text) > limit + 60:  # mostly, a text that long fills the line with its first words
        line = " ".join(text[: limit * 4].replace("\0", "").split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
