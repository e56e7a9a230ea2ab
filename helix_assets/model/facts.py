"""The fact tables: a row per call, file, test run, API message and message of a session. They outlive the raw bytes.

Belongs here: which tables there are and what their columns mean. The only transcript text in them is redacted file
paths and program names. Not here: how a session's rows become facts (`derive.fact_builder`).
"""

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple

from helix_assets.model.fields import SESSION_UID, About, Field, fields_of

_RecordKey = Annotated[int, About("the record (keyed hash), stable where `seq` is not")]
_When = Annotated[int | None, About("when, UTC; null where the log does not say")]
_IsSidechain = Annotated[bool, About("whether a subagent did it")]
_AgentId = Annotated[str | None, About("which subagent")]
_FilePath = Annotated[str | None, About("the file that it is about, if any")]
_Language = Annotated[str | None, About("its language, by its name")]
_Added = Annotated[int | None, About("lines added by an edit")]
_Removed = Annotated[int | None, About("lines removed by an edit")]


class ToolCall(NamedTuple):
    """One call with its outcome."""

    record_key: _RecordKey
    ts: _When
    is_sidechain: _IsSidechain
    agent_id: _AgentId
    tool: Annotated[str | None, About("its name")]
    status: Annotated[str, About("`ok`, `error`, `denied`, `cancelled`, or `open` when no result ever came")]
    error_class: Annotated[str | None, About("why it failed: `timeout`, `missing_file`, `test_failure` ...")]
    decision: Annotated[str | None, About("the person's: `accepted` or `denied`; null where the log shows none")]
    duration_ms: Annotated[int | None, About("until its result")]
    program: Annotated[str | None, About("of a shell command: the program that does the work")]
    exit_code: Annotated[int | None, About("of a shell command: how it ended")]
    file_path: _FilePath
    language: _Language
    lines_added: _Added
    lines_removed: _Removed


class FileOperation(NamedTuple):
    """One file, or a search over files."""

    record_key: _RecordKey
    ts: _When
    is_sidechain: _IsSidechain
    agent_id: _AgentId
    operation: Annotated[str, About("`read`, `write`, `edit`, `delete`, `glob` or `grep`")]
    tool: Annotated[str | None, About("the tool called")]
    status: Annotated[str, About("how the call ended, as in `tool_calls`")]
    file_path: _FilePath
    language: _Language
    lines_added: _Added
    lines_removed: _Removed


class TestRunFact(NamedTuple):
    """One run of a test framework."""

    record_key: _RecordKey
    ts: _When
    is_sidechain: _IsSidechain
    agent_id: _AgentId
    framework: Annotated[str | None, About("such as `pytest`, `go test`")]
    passed: Annotated[int | None, About("tests; null where the output gives no number")]
    failed: Annotated[int | None, About("tests, as above")]
    skipped: Annotated[int | None, About("tests, as above")]
    total: Annotated[int | None, About("tests, as above")]
    duration_s: Annotated[float | None, About("seconds, as the output gives them")]
    success: Annotated[bool | None, About("whether it passed; null where nothing shows it")]


class TokenUsage(NamedTuple):
    """One API message, counted once."""

    record_key: _RecordKey
    ts: _When
    is_sidechain: _IsSidechain
    agent_id: _AgentId
    model: Annotated[str | None, About("as the log names it")]
    input: Annotated[int, About("tokens of fresh input; the kinds are disjoint")]
    output: Annotated[int, About("tokens of output, with reasoning")]
    cache_read: Annotated[int, About("tokens read from the cache")]
    cache_write_5m: Annotated[int, About("tokens written to the five-minute cache")]
    cache_write_1h: Annotated[int, About("tokens written to the one-hour cache")]
    reasoning: Annotated[int | None, About("the part of `output` that is reasoning; null where no figure is given")]
    cost_usd: Annotated[float | None, About("dollars; null when the model has no known price")]
    cost_from: Annotated[str | None, About("whose figure this is: `agent`, or `table` for the price table")]


class Message(NamedTuple):
    """One thing said, by whom and how long."""

    record_key: _RecordKey
    ts: _When
    is_sidechain: _IsSidechain
    agent_id: _AgentId
    role: Annotated[str, About("`user` or `assistant`")]
    size: Annotated[int | None, About("characters")]
    model: Annotated[str | None, About("of an assistant's message")]


class SignalFact(NamedTuple):
    """One sign of trouble, by the rule that saw it and the rule's version."""

    record_key: _RecordKey
    ts: _When
    rule: Annotated[str, About("the rule that saw it")]
    version: Annotated[int, About("the version of the rule")]
    times: Annotated[int, About("how often")]
    tool: Annotated[str | None, About("the tool that it is about, if any")]
    file_path: _FilePath


GENERATION = Field("generation", int, None, "the generation of the session's stored rows with which it was written")
FACTS: Mapping[str, type[tuple[Any, ...]]] = {
    "tool_calls": ToolCall,
    "file_operations": FileOperation,
    "test_runs": TestRunFact,
    "token_usage": TokenUsage,
    "messages": Message,
    "signals": SignalFact,
}
"""The fact tables by name. `fields_of_fact` gives the fields of each as it is stored."""


SessionFactRows = dict[str, list[tuple[Any, ...]]]
"""The rows of one session by fact; a fact without rows is left out."""


@cache
def fields_of_fact(name: str) -> tuple[Field, ...]:
    """The fields of a fact as it is stored: the session's uid and the generation, then those of its row class."""
    return (SESSION_UID, GENERATION, *fields_of(FACTS[name]))
