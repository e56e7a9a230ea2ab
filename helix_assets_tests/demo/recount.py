"""Counts a sample home again from its files alone, with the simplest rules that are right for it.

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


def codex_tokens(path: Path) -> Counter[str]:
    """Add up `last` over the token counts of a rollout whose total changed."""
    spent: Counter[str] = Counter()
    before = None
    for record in records(path):
        info = record["payload"].get("info")
        if info and info["total_token_usage"] != before:
            before, last = info["total_token_usage"], info["last_token_usage"]
            spent["input"] += last["input_tokens"] - last["cached_input_tokens"]
            spent["cache_read"] += last["cached_input_tokens"]
            spent["output"] += last["output_tokens"]
            spent["reasoning"] += last["reasoning_output_tokens"]
    return spent


def codex_payloads(path: Path, kind: str) -> list[Record]:
    """Return the payloads of one type in a rollout."""
    return [record["payload"] for record in records(path) if record["payload"].get("type") == kind]


def grok_updates(folder: Path, kind: str) -> list[Record]:
    """Return a session's updates of one kind."""
    updates = [record["params"]["update"] for record in records(folder / "updates.jsonl")]
    return [update for update in updates if update["sessionUpdate"] == kind]


def grok_tokens(folder: Path) -> Counter[str]:
    """Add up the usage of a session's turns, each prompt once."""
    turns = {update["prompt_id"]: update.get("usage", {}) for update in grok_updates(folder, "turn_completed")}
    spent: Counter[str] = Counter()
    for usage in turns.values():
        spent["input"] += usage.get("inputTokens", 0) - usage.get("cachedReadTokens", 0)
        spent["cache_read"] += usage.get("cachedReadTokens", 0)
        spent["output"] += usage.get("outputTokens", 0)
        spent["reasoning"] += usage.get("reasoningTokens", 0)
    return spent
