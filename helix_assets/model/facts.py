"""The fact tables: a row per call, file, test run, API message and message of a session. They outlive the raw bytes.

Belongs here: which tables there are and what their columns mean. No transcript text but redacted file paths and program
names. Not here: how a session's rows become facts (`derive.fact_builder`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class ToolCall(NamedTuple):
    """One call with its outcome. `status` is ok, error, denied, cancelled, or open when no result ever came.

    `decision` is the person's: accepted or denied, null where the log does not tell that anybody was asked.
    """

    record_key: int
    ts: int | None
    is_sidechain: bool
    agent_id: str | None
    tool: str | None
    status: str
    error_class: str | None
    decision: str | None
    duration_ms: int | None
    program: str | None
    exit_code: int | None
    file_path: str | None
    language: str | None
    lines_added: int | None
    lines_removed: int | None


class FileOperation(NamedTuple):
    """One file, or a search over files: read, write, edit, delete, glob or grep."""

    record_key: int
    ts: int | None
    is_sidechain: bool
    agent_id: str | None
    operation: str
    tool: str | None
    status: str
    file_path: str | None
    language: str | None
    lines_added: int | None
    lines_removed: int | None


class TestRunFact(NamedTuple):
    """One run of a test framework; counts are null where its output does not tell them."""

    record_key: int
    ts: int | None
    is_sidechain: bool
    agent_id: str | None
    framework: str | None
    passed: int | None
    failed: int | None
    skipped: int | None
    total: int | None
    duration_s: float | None
    success: bool | None


class TokenUsage(NamedTuple):
    """One API message, counted once. `cost_from` says whose figure the cost is: the agent's or the price table's."""

    record_key: int
    ts: int | None
    is_sidechain: bool
    agent_id: str | None
    model: str | None
    input: int
    output: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int
    reasoning: int | None
    cost_usd: float | None
    cost_from: str | None


class Message(NamedTuple):
    """One thing said, by whom and how long; `size` is in characters."""

    record_key: int
    ts: int | None
    is_sidechain: bool
    agent_id: str | None
    role: str
    size: int | None
    model: str | None


class SignalFact(NamedTuple):
    """One sign of trouble, by the rule that saw it and the rule's version."""

    record_key: int
    ts: int | None
    rule: str
    version: int
    times: int
    tool: str | None
    file_path: str | None


FACTS: Mapping[str, type[tuple[Any, ...]]] = {
    "tool_calls": ToolCall,
    "file_operations": FileOperation,
    "test_runs": TestRunFact,
    "token_usage": TokenUsage,
    "messages": Message,
    "signals": SignalFact,
}
"""The fact tables by name. In storage each row also has the session's uid, and the generation that it is made of."""


SessionFactRows = dict[str, list[tuple[Any, ...]]]
"""The rows of one session by fact; a fact without rows is left out."""
