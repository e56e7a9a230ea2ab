"""Every figure of a digest says how two of them add up, and older digests can still be read."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path

from helix_assets.derive.merge import LATER_WINS, sums
from helix_assets.model.digest import Digest
from helix_assets.model.digest_text import whole_digest
from helix_assets_tests.home import Memory, conversation

OF_THE_FIRST_VERSION = {
    "session_uid", "flavor", "repo", "domain", "cwd", "git_branch", "title", "task_ref", "parent_uid", "model",
    "models", "started_at", "ended_at", "outcome", "outcome_reason", "outcome_confidence", "first_prompt",
    "last_assistant", "tool_histogram", "tool_calls", "tool_calls_subagent", "tool_errors", "tool_denied",
    "tool_cancelled", "user_prompts", "assistant_messages", "assistant_messages_subagent", "interrupts",
    "interventions", "compactions", "longest_failure_streak", "kind_counts", "markers", "tokens", "tokens_main",
    "tokens_subagent", "cost", "files", "files_touched", "error_snippets", "event_count", "record_count",
    "unparsed_lines", "coverage",
}  # fmt: skip
"""Digests of all versions contain these. An evicted session's digest is never made again."""


def test_each_field_is_added_up_or_taken_from_the_later_digest(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(1))
    memory.sweep()
    digest = whole_digest(memory.digest_text("claude:s1"))
    memory.close()
    added = sums(digest, digest, {})
    assert sorted([*added, *LATER_WINS]) == sorted(field.name for field in fields(Digest))


def test_fields_that_older_digests_lack_have_a_default() -> None:
    required = {one.name for one in fields(Digest) if one.default is one.default_factory is MISSING}
    assert required == OF_THE_FIRST_VERSION
