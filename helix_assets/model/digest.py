"""The digest: what remains of a session when its raw bytes are gone.

Belongs here: its shape. Not here: how it is built (`derive.digest_builder`) or kept (`store`).
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from helix_assets.model.event import DIGEST_VERSION

OTHER = "other"


class Tokens(BaseModel):
    """Tokens by kind; `reasoning` is part of `output`, null if the agent does not report it.

    `cache_write` is the sum of what was written to the five-minute and the one-hour cache.
    """

    model_config = ConfigDict(frozen=True)

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    reasoning: int | None = None


class Cost(BaseModel):
    """What the session took. `cache_tokens` is cache reads and writes together."""

    model_config = ConfigDict(frozen=True)

    input_tokens: int
    output_tokens: int
    cache_tokens: int
    wall_clock_s: int
    active_s: int
    turns: int
    retries: int


class ErrorSnippet(BaseModel):
    """Errors of one kind: the text without what varies, one sample, how often, by which tool.

    `error_class` comes from `derive.failures`.
    """

    model_config = ConfigDict(frozen=True)

    fingerprint: str
    sample: str
    count: int
    tool: str | None
    error_class: str = OTHER


class FileTouched(BaseModel):
    """A file that the session edited. Lines are null where no edit of it says how many."""

    model_config = ConfigDict(frozen=True)

    path: str
    edits: int
    lines_added: int | None
    lines_removed: int | None


class Edits(BaseModel):
    """All edits of the session, also those of files that `files` has no room for. Lines as in `FileTouched`."""

    model_config = ConfigDict(frozen=True)

    count: int = 0
    lines_added: int | None = 0
    lines_removed: int | None = 0


class RunTally(BaseModel):
    """The session's test runs, not single tests. A run without a visible result counts as neither passed nor failed.

    `last` is how the last run went: "passed", "failed" or null.
    """

    model_config = ConfigDict(frozen=True)

    runs: int = 0
    passed: int = 0
    failed: int = 0
    last: str | None = None
    by_framework: dict[str, int] = {}


class Coverage(BaseModel):
    """What the digest is made of: the session's generation, its records and events, their ranges of `seq`.

    `facts` is how many rows of each fact table were made with it.
    """

    model_config = ConfigDict(frozen=True)

    generation: int
    records: int
    events: int
    ranges: list[tuple[int, int]] = []
    facts: dict[str, int] = {}


class Digest(BaseModel):
    """One session, distilled. Fields are only ever added. `schema_version` names the rules that built it."""

    model_config = ConfigDict(frozen=True)

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
    models: list[str]
    started_at: str | None
    ended_at: str | None
    outcome: str
    outcome_reason: str
    outcome_confidence: str
    cost: Cost
    cost_usd: float | None = None
    cost_usd_main: float | None = None
    cost_usd_subagent: float | None = None
    unpriced_models: list[str] = []
    price_table: str | None = None
    tokens: Tokens
    tokens_main: Tokens
    tokens_subagent: Tokens
    tool_histogram: dict[str, int]
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
    files: list[FileTouched]
    files_touched: int
    event_count: int
    record_count: int
    unparsed_lines: int
    kind_counts: dict[str, int]
    markers: dict[str, int]
    first_prompt: str | None
    last_assistant: str | None
    error_snippets: list[ErrorSnippet]
    signals: list[Signal] = []
    coverage: Coverage
    schema_version: int = DIGEST_VERSION


class Signal(BaseModel):
    """A sign of trouble: its rule and version, how often it was seen, keys of records that show it, and a sample."""

    model_config = ConfigDict(frozen=True)

    name: str
    version: int
    count: int
    evidence: list[str]
    sample: str
    tool: str | None = None
    file_path: str | None = None
