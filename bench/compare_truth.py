"""Product against a generator's truth.json, session by session and field by field.

    python bench/compare_truth.py TRUTH.json SESSIONS.json [--home HOME]  (SESSIONS.json from `helix export --sessions`)

Understands the truth file of the reference generator (a list of sessions) and of `helix demo` (a mapping by uid).
Prints how many sessions agree per field and the first disagreements; exits 1 if a field falls below its bar.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

EXACT, TESTS, NEARLY = 1.0, 0.995, 0.99
Json = dict[str, Any]


def expected_of(session: Json) -> Iterator[tuple[str, Any, float]]:
    """Fields of a truth session as (name, expected, bar)."""
    tokens = session["tokens"]
    written = tokens.get("cache_creation", tokens.get("cache_write"))
    for name, value in (("input", tokens["input"]), ("output", tokens["output"]), ("cache_read", tokens["cache_read"])):
        yield f"tokens.{name}", value, EXACT
    yield "tokens.cache_write", written, EXACT
    if "tokens_sidechain" in session:
        yield "tokens_subagent.output", session["tokens_sidechain"]["output"], EXACT
    yield "tools", session.get("tool_counts", session.get("tools")), EXACT
    yield "user_prompts", session["user_prompts"], EXACT
    yield "interrupts", session["interrupts"], EXACT
    yield "tool_errors", session["tool_errors"], NEARLY
    if "retries" in session:
        yield "retries", session["retries"], NEARLY
    if isinstance(session.get("edits"), dict):
        for name in ("count", "lines_added", "lines_removed"):
            yield f"edits.{name}", session["edits"][name], NEARLY
    if isinstance(session.get("test_runs"), list):
        # in no order: parallel calls and subagents end in another order than they begin
        yield "tests", sorted(map(_brief, session["test_runs"])), TESTS
    if session.get("outcome"):
        yield "outcome", session["outcome"], 0.95


def product_of(session: Json, name: str) -> Any:
    """The product's value of a field, None where it exports none."""
    value: Any = session
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return sorted(map(_brief, value)) if name == "tests" and isinstance(value, list) else value


def _brief(run: Json) -> str:
    """What the truth says about a test run, in the product's words."""
    framework = {"cargo": "cargo test", "go": "go test"}.get(run["framework"], run["framework"])
    counts = " ".join(f"{word} {run[word]}" for word in ("passed", "failed", "skipped"))
    return f"{framework}: {counts} {'ok' if run['success'] else 'failed'}"


def queued_prompts(home: Path, wanted: dict[str, Json]) -> Counter[str]:
    """Prompts typed while Claude worked, by session: lines that the reference generator plants and does not count.

    Those in the history that a session was resumed from are not its own.
    """
    counts: Counter[str] = Counter()
    for path in home.glob("claude/projects/*/*.jsonl"):
        uid = f"claude:{path.stem}"
        copied = wanted.get(uid, {}).get("copied_records", 0)
        for line in path.read_bytes().split(b"\n")[copied:]:
            if b'"queued_command"' in line and json.loads(line)["attachment"].get("commandMode", "prompt") == "prompt":
                counts[uid] += 1
    return counts


def main() -> int:
    """Compare and report; 0 when every field reaches its bar."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("truth", type=Path)
    parser.add_argument("sessions", type=Path)
    parser.add_argument("--home", type=Path, help="The logs: prompts that the truth leaves out are looked up in them.")
    parser.add_argument("--worst", type=int, default=12)
    options = parser.parse_args()
    truth = json.loads(options.truth.read_bytes())["sessions"]
    wanted = truth if isinstance(truth, dict) else {s["session_uid"]: s for s in truth}
    made = json.loads(options.sessions.read_bytes())
    agree: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0])
    bars: dict[str, float] = {}
    wrong: list[str] = []
    queued = queued_prompts(options.home, wanted) if options.home else Counter()
    explained = 0
    missing = [uid for uid in wanted if uid not in made]
    for uid in wanted.keys() & made.keys():
        for name, value, bar in expected_of(wanted[uid]):
            got = product_of(made[uid], name)
            cell = agree[name, uid.partition(":")[0]]
            cell[1] += 1
            bars[name] = bar
            is_queued = name == "user_prompts" and queued[uid] and got == value + queued[uid]
            explained += is_queued
            if (got or 0) == (value or 0) or is_queued:
                cell[0] += 1
            else:
                wrong.append(f"{uid} {name}: truth {value}, product {got}")
    failed = bool(missing)
    for (name, flavor), (right, of) in sorted(agree.items()):
        below = right < bars[name] * of
        failed |= below
        print(
            f"{name:26}{flavor:8}{right:>6} of {of:<6}{right / of:.4f}{'  below ' + str(bars[name]) if below else ''}"
        )
    if options.home:
        print(f"sessions whose prompts differ by exactly their attachment/queued_command lines: {explained}")
    print(f"missing {len(missing)}: {missing[:5]}")
    for text in sorted(wrong)[: options.worst]:
        print("  ", text[:300])
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
