"""What was planted in a sample home, counted while it is written and never by reading it back.

Belongs here: the counters and their JSON form. The key names are those of `helix export --sessions`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from helix_assets.demo.private import write_private

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def iso(ms: int) -> str:
    """Write a time in milliseconds since 1970 the way all three agents do."""
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds")[:-6] + "Z"


@dataclass
class SessionTruth:
    """The true figures of one session."""

    uid: str
    cwd: str
    git_branch: str | None
    counts_reasoning: bool
    parent_uid: str | None = None
    files: list[str] = field(default_factory=list)
    first_ms: int | None = None
    last_ms: int = 0
    models: set[str] = field(default_factory=set)
    main: Counter[str] = field(default_factory=Counter)
    subagent: Counter[str] = field(default_factory=Counter)
    tools: Counter[str] = field(default_factory=Counter)
    tally: Counter[str] = field(default_factory=Counter)

    def seen_at(self, ms: int) -> None:
        """Extend the session's span to a dated line."""
        self.first_ms = ms if self.first_ms is None else min(self.first_ms, ms)
        self.last_ms = max(self.last_ms, ms)

    def spend(self, tokens: Mapping[str, int], *, sidechain: bool = False) -> None:
        """Add the tokens of one finished model request."""
        (self.subagent if sidechain else self.main).update(tokens)

    def call(self, tool: str, *, sidechain: bool = False) -> None:
        """Count one tool call."""
        self.tools[tool] += 1
        self.tally["tool_calls_subagent"] += sidechain

    def as_row(self) -> dict[str, Any]:
        """Return the figures under the names of the session export."""
        return {
            "uid": self.uid,
            "files": sorted(self.files),
            "parent_uid": self.parent_uid,
            "started_at": None if self.first_ms is None else iso(self.first_ms),
            "ended_at": None if self.first_ms is None else iso(self.last_ms),
            "models": sorted(self.models),
            "cwd": self.cwd,
            "git_branch": self.git_branch,
            "tokens": self._tokens(self.main + self.subagent),
            "tokens_main": self._tokens(self.main),
            "tokens_subagent": self._tokens(self.subagent),
            "tool_calls": self.tools.total(),
            "tools": dict(sorted(self.tools.items())),
            **{name: self.tally[name] for name in _TALLIES},
        }

    def _tokens(self, spent: Counter[str]) -> dict[str, int | None]:
        tokens: dict[str, int | None] = {n: spent[n] for n in ("input", "output", "cache_read", "cache_write")}
        return {**tokens, "reasoning": spent["reasoning"] if self.counts_reasoning else None}


_TALLIES = (
    "tool_calls_subagent",
    "tool_errors",
    "tool_denied",
    "tool_cancelled",
    "user_prompts",
    "interrupts",
    "assistant_messages",
    "assistant_messages_subagent",
    "compactions",
    "unparsed_lines",
    "records",
    "records_in_files",
    "test_runs",
    "test_runs_failed",
    "file_edits",
    "commits",
)


@dataclass(frozen=True)
class PlantedSecret:
    """A made-up secret and the session that shows it."""

    uid: str
    kind: str
    value: str


@dataclass
class Truth:
    """The true figures of a whole sample home. Paths are relative to it."""

    seed: int
    sessions: dict[str, SessionTruth] = field(default_factory=dict)
    secrets: list[PlantedSecret] = field(default_factory=list)
    bad_lines: Counter[str] = field(default_factory=Counter)
    blank_lines: Counter[str] = field(default_factory=Counter)
    torn_files: list[str] = field(default_factory=list)
    jsonl_bytes: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values, in a fixed order."""
        return {
            "seed": self.seed,
            "jsonl_bytes": self.jsonl_bytes,
            "bad_lines": dict(sorted(self.bad_lines.items())),
            "blank_lines": dict(sorted(self.blank_lines.items())),
            "torn_files": sorted(self.torn_files),
            "secrets": [vars(secret) for secret in self.secrets],
            "sessions": {uid: row.as_row() for uid, row in sorted(self.sessions.items())},
        }

    def write(self, path: Path) -> None:
        """Write the figures as JSON, readable only by their owner."""
        write_private(path, json.dumps(self.as_dict(), indent=1) + "\n")
