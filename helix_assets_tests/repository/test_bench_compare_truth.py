"""The comparison with a truth: what is missing, one too many or left over is wrong."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench import compare_truth

TRUTH = {
    "session_uid": "claude:s1", "flavor": "claude", "cwd": "/w", "git_branch": "main", "models": ["m2", "m1"],
    "started_at": "2026-06-05T10:00:00.000Z", "ended_at": "2026-06-05T11:00:00.000Z", "outcome": "success",
    "tokens": {"input": 1, "output": 2, "cache_creation": 0, "cache_read": 0},
    "tokens_sidechain": {"input": 0, "output": 0, "cache_creation": 0, "cache_read": 0}, "api_messages": 3,
    "user_prompts": 2, "interrupts": 0, "tool_errors": 0, "api_errors": 1, "retries": 0, "tool_counts": {"Bash": 1},
    "edits": {"count": 0, "lines_added": 0, "lines_removed": 0}, "test_runs": [], "records": 9, "copied_records": 0,
    "secrets": [{"kind": "github", "value": "hunter2-secret", "probe": "hunter2-secret"}],
    "decoys": [{"kind": "sha1", "value": "0123abcd"}],
}  # fmt: skip
MADE = {
    "cwd": "/w", "git_branch": "main", "models": ["m1", "m2"], "started_at": "2026-06-05T10:01:00.000Z",
    "ended_at": "2026-06-05T10:59:59.500Z", "outcome": "success",
    "tokens": {"input": 1, "output": 2, "cache_write": 0, "cache_read": 0}, "tokens_subagent": {"output": 0},
    "user_prompts": 2, "interrupts": 0, "tool_errors": 0, "retries": 0, "tools": {"Bash": 1},
    "edits": {"count": 0, "lines_added": 0, "lines_removed": 0}, "tests": [], "records": 9,
}  # fmt: skip
ROWS = [
    {"session_uid": "claude:s1", "kind": "error", "detail": {"error": "api"}, "raw": "[redacted:github]"},
    {"session_uid": "claude:s1", "kind": "error", "detail": {"error": "hook"}, "raw": "0123abcd"},
]


def compared(
    folder: Path, monkeypatch: pytest.MonkeyPatch, made: dict[str, Any], rows: list[dict[str, Any]] | None = None
) -> int:
    """The exit code of a comparison with the truth above."""
    files = {"truth": {"sessions": [TRUTH], "forbidden": [{"path": "auth.json", "value": "bait-value"}]}, "made": made}
    for name, value in files.items():
        (folder / f"{name}.json").write_text(json.dumps(value))
    (folder / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in (ROWS if rows is None else rows)))
    arguments = ["x", f"{folder}/truth.json", f"{folder}/made.json", "--export", f"{folder}/all.jsonl"]
    monkeypatch.setattr(sys, "argv", arguments)
    return compare_truth.main()


def test_equal_figures_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compared(tmp_path, monkeypatch, {"claude:s1": MADE}) == 0


@pytest.mark.parametrize("field", MADE)
def test_missing_value_is_wrong_even_where_0_is_expected(
    field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compared(tmp_path, monkeypatch, {"claude:s1": MADE | {field: None}}) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"cwd": "/x"},
        {"git_branch": "fix"},
        {"models": ["m1"]},
        {"started_at": "2026-06-05T10:10:00.000Z"},
        {"started_at": "2026-06-04T10:00:00.000Z"},
        {"ended_at": "2026-06-05T12:00:00.000Z"},
        {"records": 8},
        {"tests": [{"framework": "jest", "passed": 1, "failed": 0, "skipped": 0, "success": True}]},
    ],
    ids=str,
)
def test_other_value_is_wrong(change: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compared(tmp_path, monkeypatch, {"claude:s1": MADE | change}) == 1


def test_session_that_is_missing_or_one_too_many_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compared(tmp_path, monkeypatch, {}) == 1
    assert compared(tmp_path, monkeypatch, {"claude:s1": MADE, "claude:s2": MADE}) == 1


@pytest.mark.parametrize("value", ["hunter2-secret", "bait-value"])
def test_secret_that_is_left_is_wrong(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compared(tmp_path, monkeypatch, {"claude:s1": MADE}, [*ROWS, {"session_uid": "x", "raw": value}]) == 1


def test_api_errors_are_those_of_the_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert compared(tmp_path, monkeypatch, {"claude:s1": MADE}, ROWS[1:]) == 1
    assert compared(tmp_path, monkeypatch, {"claude:s1": MADE}, [ROWS[0], *ROWS]) == 1
