"""Counts a sample home anew from its files alone, with the simplest rules that are right for it.

Shares no code with the generator, so that the tests compare two independent answers.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Record = dict[str, Any]


def records(path: Path) -> Iterator[Record]:
    """Yield a file's records; broken, blank and torn lines are left out."""
    for line in path.read_bytes().split(b"\n"):
        try:
            yield json.loads(line)
        except ValueError:
            continue


def bad_lines(path: Path) -> int:
    """Count the complete lines that are neither blank nor JSON."""
    bad = 0
    for line in path.read_bytes().split(b"\n")[:-1]:
        try:
            json.loads(line or b"{}")
        except ValueError:
            bad += 1
    return bad


def claude_output_tokens(home: Path) -> int:
    """Add up the output tokens of the last line of each message id over all files."""
    last: dict[str, int] = {}
    for path in sorted((home / "claude" / "projects").rglob("*.jsonl")):
        for record in records(path):
            if record["type"] == "assistant":
                last[record["message"]["id"]] = record["message"]["usage"]["output_tokens"]
    return sum(last.values())


def claude_tools(home: Path) -> Counter[str]:
    """Count the tool calls by name, each tool_use id once."""
    seen: dict[str, str] = {}
    for path in (home / "claude" / "projects").rglob("*.jsonl"):
        for record in records(path):
            content = record["message"]["content"] if record["type"] == "assistant" else []
            seen |= {block["id"]: block["name"] for block in content if block["type"] == "tool_use"}
    return Counter(seen.values())
