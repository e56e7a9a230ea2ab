"""The digest: what remains of a session when its raw bytes are gone.

Belongs here: its shape. Not here: how it is built (`derive.digest_builder`) or kept (`store`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from helix_assets.model.event import DIGEST_VERSION

OTHER = "other"


class _Fields:
    """A field is an attribute, and an item under its name as in the stored JSON: `cost.turns` is `cost["turns"]`."""

    def __getitem__(self, name: str) -> Any:
        try:
            return getattr(self, name)
        except AttributeError:
            raise KeyError(name) from None


@dataclass(frozen=True, kw_only=True)
class Tokens(_Fields):
    """Tokens by kind; `reasoning` is part of `output`, null if the agent does not report it.

    `cache_write` is the sum of what was written to the five-minute and the one-hour cache.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    reasoning: int | None = None


@dataclass(frozen=True, kw_only=True)
class Cost(_Fields):
    """What the session took. `cache_tokens` is cache reads and writes together."""

    input_tokens: int
    output_tokens: int
    cache_tokens: int
    wall_clock_s: int
    active_s: int
    turns: int
    retries: int


@dataclass(frozen=True, kw_only=True)
class ErrorSnippet(_Fields):
    """Errors of one kind: the text without what varies, one sample, how often, by which tool.

    `error_class` comes from `derive.failures`.
    """

    fingerprint: str
    sample: str
    count: int
    tool: str | None
    error_class: str = OTHER


@dataclass(frozen=True, kw_only=True)
class FileTouched(_Fields):
    """A file that the session edited. Lines are null where no edit of it says how many."""

    path: str
    edits: int
    lines_added: int | None
    lines_removed: int | None


@dataclass(frozen=True, kw_only=True)
class Edits(_Fields):
    """All edits of the session, also those of files that `files` has no room for. Lines as in `FileTouched`."""

    count: int = 0
    lines_added: int | None = 0
    lines_removed: int | None = 0


@dataclass(frozen=True, kw_only=True)
class RunTally(_Fields):
    """The session's test runs, not single tests. A run without a visible result counts as neither passed nor failed.

    `last` is how the last run went: "passed", "failed" or null.
    """

    runs: int = 0
    passed: int = 0
    failed: int = 0
    last: str | None = None
    by_framework: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Coverage(_Fields):
    """What the digest is made of: the session's generation, its records and events, their ranges of `seq`.

    `facts` is how many rows of each fact table were made with it.
    """

    generation: int
    records: int
    events: int
    ranges: tuple[tuple[int, int], ...] = ()
    facts: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Digest(_Fields):
    """One session, distilled. Fields are only ever added. `schema_version` names the rules that built it.

    `source_path` is where its main log was when it was last read, `discovered_at` when the session was first stored.
    """

    session_uid: str
    flavor: str
    repo: str | None
    domain: str | None
    title: str | None
    cwd: str | None
    git_branch: str | None
    task_ref: str | None
    parent_uid: str | None
    model: str | None
    models: tuple[str, ...]
    started_at: str | None
    ended_at: str | None
    outcome: str
    outcome_reason: str
    outcome_confidence: str
    cost: Cost
    cost_usd: float | None = None
    cost_usd_main: float | None = None
    cost_usd_subagent: float | None = None
    unpriced_models: tuple[str, ...] = ()
    price_table: str | None = None
    tokens: Tokens
    tokens_main: Tokens
    tokens_subagent: Tokens
    tool_histogram: Mapping[str, int]
    tool_calls: int
    tool_calls_subagent: int
    tool_errors: int
    tool_denied: int
    tool_cancelled: int
    user_prompts: int
    assistant_messages: int
    assistant_messages_subagent: int
    interrupts: int
    interventions: int
    compactions: int
    longest_failure_streak: int
    tests: RunTally = RunTally()
    edits: Edits = Edits()
    files: tuple[FileTouched, ...]
    files_touched: int
    event_count: int
    record_count: int
    unparsed_lines: int
    kind_counts: Mapping[str, int]
    markers: Mapping[str, int]
    first_prompt: str | None
    last_assistant: str | None
    error_snippets: tuple[ErrorSnippet, ...]
    signals: tuple[Signal, ...] = ()
    coverage: Coverage
    source_path: str | None = None
    discovered_at: str | None = None
    schema_version: int = DIGEST_VERSION


@dataclass(frozen=True, kw_only=True)
class Signal(_Fields):
    """A sign of trouble: its rule and version, how often it was seen, keys of records that show it, and a sample."""

    name: str
    version: int
    count: int
    evidence: tuple[str, ...]
    sample: str
    tool: str | None = None
    file_path: str | None = None
