"""The normalized shapes of Tier 1: what a session and an event are, for every agent.

Belongs here: names, kinds and plain records. Not here: how an agent writes its log (`agents`) or how rows are stored
(`store`).
"""

from collections.abc import Collection
from enum import StrEnum
from typing import Annotated, Any, NamedTuple, Protocol, Self

import orjson

from helix_assets.model.fields import About, fields_of

SCHEMA_VERSION = 1
DIGEST_VERSION = 7
"""Grows whenever the same rows would yield another digest; digests of older versions are derived again."""
FACTS_SINCE = 3
"""The first version of digests that come with facts."""
SUMMARY_CHARS = 200
MESSAGE_CHARS, PROMPT_CHARS = 4000, 400
"""What a row keeps of a message: of an agent's all that matters, of a person's the beginning and the end."""
CUT = "…"
UNPARSED = "unparsed"
"""Native type of a line that is not a JSON object: its text is kept, but it yields no event and is not counted."""
DOCUMENT = "document"
"""Native type of a file that is one object: it describes the whole session and is not counted as a record."""
UNPLACED = -1
"""`seq` of a record without a place in the conversation, such as a document or an agent's second copy."""
AFTER_THE_END = "(end of file)"
"""Native type of rows for what only the end of a file shows."""


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
    """Tokens of one API message as its log line reports them: disjoint kinds, but reasoning is part of output."""

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    reasoning: int | None = None


class SessionEvent(NamedTuple):
    """One event as an adapter emits it, before its place in the session is known.

    `detail` is a small JSON object for what has no column (test counts, command program, error text).
    `input_hash` distinguishes calls of one tool without keeping their input. `ts_us` is set only if the event
    happened at another time than its record. `text` is the whole text of a tool's result; it is not stored, only
    derived from. `size` is how many characters a message has.
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
    """One source line: its position, what identifies it, and its redacted text.

    `order_us` is the greatest timestamp of its file so far, so that the lines of a file stay in their order.
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
    """One record's part of a message. `order` is its place among the parts if that differs from the records' order.

    `kind` and `key` distinguish one message from the next; None as a key matches any.
    """

    kind: str
    key: int | None
    order: int | None
    text: str

    def continues(self, first: Self) -> bool:
        """Whether this continues the message that `first` began."""
        return self.kind == first.kind and (self.key is None or first.key is None or self.key == first.key)


class Pieces(Protocol):
    """Which records of an agent are pieces of messages, by their native types, and which others end a message."""

    kinds: Collection[str]
    ends: Collection[str]

    def piece(self, obj: dict[str, Any]) -> Piece: ...

    def with_text(self, obj: dict[str, Any], text: str) -> dict[str, Any]:
        """The record with its text replaced."""
        ...

    def said_by(self, native_type: str, text: str | None) -> tuple[str, str] | None:
        """Kind and role of a piece, None for any other record. The message's event follows its last piece.

        Optional: search manages without it for an adapter from another package.
        """
        ...


_BOTH, _RECORDS = ("events", "records"), ("records",)
_KINDS = ", ".join(f"`{kind}`" for kind in EventKind)


class Row(NamedTuple):
    """One stored row of Tier 1, in `seq` order; `raw` is set on the first row of each record."""

    seq: Annotated[int, About("place in the session, from 0; -1 without a place in the conversation")]
    parent_seq: Annotated[int | None, About("place of the event that it follows")]
    ts_us: Annotated[int | None, About("when, UTC; null where the log does not say", views=_BOTH)]
    kind: Annotated[str | None, About(f"{_KINDS}; null for a record without an event", is_ours=True)]
    role: Annotated[str | None, About("who speaks: user, assistant, system or tool")]
    tool: Annotated[str | None, About("the tool called")]
    summary: Annotated[str | None, About("its first 200 characters; of a failed call from where it says why")]
    status: Annotated[str | None, About("how it ended, such as ok, error or denied")]
    tokens: Annotated[int | None, About("all tokens of the API message, on the one event that counts them")]
    is_sidechain: Annotated[bool, About("whether a subagent did it")]
    agent_id: Annotated[str | None, About("which subagent")]
    call_id: Annotated[str | None, About("ties the result of a tool to its call")]
    message_id: Annotated[str | None, About("the API message that it is part of")]
    model: Annotated[str | None, About("the model that answered")]
    input_tokens: Annotated[int | None, About("fresh input as the line gives it; to add tokens up, ask `token_usage`")]
    output_tokens: Annotated[int | None, About("output, with reasoning")]
    cache_read_tokens: Annotated[int | None, About("input read from the cache")]
    cache_write_5m_tokens: Annotated[int | None, About("input written to the five-minute cache")]
    cache_write_1h_tokens: Annotated[int | None, About("input written to the one-hour cache")]
    reasoning_tokens: Annotated[int | None, About("the part of the output that is reasoning, where the agent gives it")]
    cost_usd: Annotated[float | None, About("the price, where the agent gives it")]
    exit_code: Annotated[int | None, About("of a command")]
    duration_ms: Annotated[int | None, About("from call to result")]
    file_path: Annotated[str | None, About("the file that it is about")]
    lines_added: Annotated[int | None, About("by an edit")]
    lines_removed: Annotated[int | None, About("by an edit")]
    input_hash: Annotated[int | None, About("distinguishes calls of one tool", views=(), is_exported=False)]
    detail: Annotated[str | None, About("a small object for what has no column", is_json=True)]
    size: Annotated[int | None, About("characters of a message", is_exported=False)]
    native_type: Annotated[str, About("the agent's own type; `unparsed` for a line that is not JSON", views=_RECORDS)]
    record_id: Annotated[str | None, About("the agent's own id of the record", views=_RECORDS)]
    parent_id: Annotated[str | None, About("the agent's own id of the record before", views=_RECORDS)]
    record_key: Annotated[int, About("names the record for good, whatever its place", views=_BOTH, is_exported=False)]
    order_us: Annotated[int, About("the time that orders the record in its session", views=(), is_exported=False)]
    file: Annotated[int, About("which of the session's files the record stands in", views=_RECORDS)]
    line: Annotated[int, About("its line in that file, from 1", views=_RECORDS)]
    offset: Annotated[int, About("the byte of that file where the line begins", views=_RECORDS, is_exported=False)]
    raw: Annotated[bytes | None, About("the whole line, redacted; on the first row of a record", views=_RECORDS)]


ROW_FIELDS = fields_of(Row)
"""The one table of a row's fields; whatever handles every field uses it."""


def light(row: Row) -> Row:
    """The row without source line, ids and detail, small enough to keep many of them in memory."""
    return Row._make((*row[:_DETAIL], None, *row[_DETAIL + 1 : _IDS], None, None, *row[_IDS + 2 : -1], None))


_DETAIL, _IDS = Row._fields.index("detail"), Row._fields.index("record_id")


def whole_text(text: str, limit: int = MESSAGE_CHARS) -> str | None:
    """A message's text as its event's `detail`; None if the summary holds all of it.

    Of one beyond the limit the beginning and the end, cut at a space, so that no mark of a redaction is cut in two.
    """
    said = text.strip()
    if len(said) <= SUMMARY_CHARS and "\n" not in said:
        return None
    if len(said) > limit:
        half = limit // 2
        said = f"{said[:half].rpartition(' ')[0]}\n{CUT}\n{said[-half:].partition(' ')[2]}"
    return orjson.dumps({"text": said.replace("\0", "").encode("utf-8", "replace").decode()}).decode()


def shorten(text: str, limit: int = SUMMARY_CHARS) -> str:
    """One line of at most `limit` characters, white space folded."""
    line = " ".join(text[: limit + 60].replace("\0", "").split())
    if len(line) <= limit and len(text) > limit + 60:  # mostly, a text that long fills the line with its first words
        line = " ".join(text[: limit * 4].replace("\0", "").split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
