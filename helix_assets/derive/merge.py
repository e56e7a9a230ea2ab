"""Merges a kept digest with one of later records, for sessions whose earlier records can no longer be read.

Belongs here: adding up what can be added, and which of two values wins. Pure. The caller (`sweep.merging`) ensures that
no record is in both. A message may be in both, if its lines are on both sides. What only the rows in order could show,
such as a streak of failures across the boundary, stays unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from helix_assets.derive.digest_builder import fitted, largest_errors, largest_files
from helix_assets.derive.edits import EditTally
from helix_assets.model.digest import Cost, Digest, Edits, ErrorSnippet, FileTouched, RunTally, Signal, Tokens
from helix_assets.model.facts import SessionFactRows, TokenUsage

_SUMS = (
    "tool_calls", "tool_calls_subagent", "tool_errors", "tool_denied", "tool_cancelled", "user_prompts",
    "assistant_messages", "assistant_messages_subagent", "interrupts", "interventions", "compactions", "event_count",
    "record_count",
)  # fmt: skip
_MAPS = ("tool_histogram", "kind_counts", "markers")
_TOKENS = ("tokens", "tokens_main", "tokens_subagent")
LATER_WINS = (
    "session_uid", "flavor", "repo", "domain", "title", "task_ref", "parent_uid", "cwd", "git_branch", "started_at",
    "ended_at", "unparsed_lines", "cost_usd", "cost_usd_main", "cost_usd_subagent", "unpriced_models", "price_table",
    "source_path", "discovered_at",
)  # fmt: skip
"""What the later digest says of the whole session, or what is set after merging, such as prices."""
_EVIDENCE = 5

Continued = tuple[int, int]


def merged(
    kept: Digest, new: Digest, old_facts: SessionFactRows, new_facts: SessionFactRows, continued: Sequence[Continued]
) -> tuple[Digest, SessionFactRows]:
    """The merged digest and facts. `new` already describes the whole session, such as its start and end.

    `continued` are messages with lines on both sides: the record whose usage counts for each, before and now.
    """
    if not new.coverage.records:
        coverage = replace(kept.coverage, generation=new.coverage.generation)
        same = {name: getattr(new, name) for name in ("unparsed_lines", "started_at", "ended_at")}
        return replace(kept, coverage=coverage, **same), old_facts
    usage, superseded = _usage(old_facts.get("token_usage", []), new_facts.get("token_usage", []), continued)
    facts = {name: [*old_facts.get(name, []), *new_facts.get(name, [])] for name in {**old_facts, **new_facts}}
    facts |= {"token_usage": usage} if usage else {}
    digest = _added_up(kept, new, {name: len(rows) for name, rows in facts.items() if rows})
    return _without(digest, superseded), facts


def _usage(
    old: list[tuple[Any, ...]], new: list[tuple[Any, ...]], continued: Sequence[Continued]
) -> tuple[list[tuple[Any, ...]], list[TokenUsage]]:
    """The usage that counts, each message once by its last line, and the superseded rows."""
    before = {row[0]: TokenUsage._make(row) for row in old}
    now = {row[0]: TokenUsage._make(row) for row in new}
    superseded = []
    for first, last in continued:
        if last in now:
            is_newer = first in before and now[last].output >= before[first].output
            superseded.append(before[first] if is_newer else now[last])
    gone = {row.record_key for row in superseded}
    return [row for row in (*old, *new) if row[0] not in gone], superseded


def _without(digest: Digest, superseded: Sequence[TokenUsage]) -> Digest:
    """The digest without this usage, and without its messages, which are counted twice."""
    if not superseded:
        return digest
    sub = [row for row in superseded if row.is_sidechain]
    main = [row for row in superseded if not row.is_sidechain]
    tokens = _less(digest.tokens, superseded)
    cost = replace(
        digest.cost,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_tokens=tokens.cache_read + tokens.cache_write,
    )
    return replace(
        digest,
        tokens=tokens,
        tokens_main=_less(digest.tokens_main, main),
        tokens_subagent=_less(digest.tokens_subagent, sub),
        cost=cost,
        assistant_messages=digest.assistant_messages - len(superseded),
        assistant_messages_subagent=digest.assistant_messages_subagent - len(sub),
    )


def _less(tokens: Tokens, rows: Sequence[TokenUsage]) -> Tokens:
    short, long = (sum(getattr(row, name) for row in rows) for name in ("cache_write_5m", "cache_write_1h"))
    return Tokens(
        input=tokens.input - sum(row.input for row in rows),
        output=tokens.output - sum(row.output for row in rows),
        cache_read=tokens.cache_read - sum(row.cache_read for row in rows),
        cache_write=tokens.cache_write - short - long,
        cache_write_5m=tokens.cache_write_5m - short,
        cache_write_1h=tokens.cache_write_1h - long,
        reasoning=tokens.reasoning and tokens.reasoning - sum(row.reasoning or 0 for row in rows),
    )


def _added_up(kept: Digest, new: Digest, facts: Mapping[str, int]) -> Digest:
    return fitted(replace(new, **sums(kept, new, facts)))


def sums(kept: Digest, new: Digest, facts: Mapping[str, int]) -> dict[str, Any]:
    """The figures of both digests together: every field but those in LATER_WINS."""
    coverage = replace(
        new.coverage,
        records=kept.coverage.records + new.coverage.records,
        events=kept.coverage.events + new.coverage.events,
        ranges=(*kept.coverage.ranges, *new.coverage.ranges),
        facts=dict(facts),
    )
    paths = {file.path for file in kept.files}
    how_it_ended = new if new.user_prompts or new.assistant_messages else kept
    more = sum(file.path not in paths for file in new.files) + new.files_touched - len(new.files)
    return {
        **{name: getattr(kept, name) + getattr(new, name) for name in _SUMS},
        **{name: _added(getattr(kept, name), getattr(new, name)) for name in _MAPS},
        **{name: _tokens(getattr(kept, name), getattr(new, name)) for name in _TOKENS},
        "model": new.model or kept.model,
        "models": tuple(sorted({*kept.models, *new.models})),
        "cost": _cost(kept, new),
        "longest_failure_streak": max(kept.longest_failure_streak, new.longest_failure_streak),
        "tests": _tests(kept.tests, new.tests),
        "edits": _edits(kept.edits).plus(_edits(new.edits)).of_session(),
        "files": _files([*kept.files, *new.files]),
        "files_touched": kept.files_touched + more,
        "first_prompt": kept.first_prompt or new.first_prompt,
        "last_assistant": new.last_assistant or kept.last_assistant,
        "error_snippets": _errors(kept, new),
        "signals": _signals([*kept.signals, *new.signals]),
        "coverage": coverage,
        "schema_version": min(kept.schema_version, new.schema_version),
        **{name: getattr(how_it_ended, name) for name in ("outcome", "outcome_reason", "outcome_confidence")},
    }


def _added(a: Mapping[str, int], b: Mapping[str, int]) -> dict[str, int]:
    return {name: a.get(name, 0) + b.get(name, 0) for name in sorted({*a, *b})}


def _tokens(a: Tokens, b: Tokens) -> Tokens:
    def both(name: str) -> int | None:
        known = [value for value in (getattr(a, name), getattr(b, name)) if value is not None]
        return sum(known) if known else None

    return Tokens(**{name: both(name) for name in asdict(a)})  # type: ignore[arg-type]


def _cost(kept: Digest, new: Digest) -> Cost:
    started, ended = new.started_at, new.ended_at
    wall_clock = 0
    if started and ended:
        wall_clock = int((datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds())
    sums = {name: getattr(kept.cost, name) + getattr(new.cost, name) for name in asdict(kept.cost)}
    return Cost(**{**sums, "wall_clock_s": max(0, wall_clock)})


def _tests(kept: RunTally, new: RunTally) -> RunTally:
    return RunTally(
        runs=kept.runs + new.runs,
        passed=kept.passed + new.passed,
        failed=kept.failed + new.failed,
        last=new.last if new.runs else kept.last,
        by_framework=_added(kept.by_framework, new.by_framework),
    )


def _edits(edits: Edits) -> EditTally:
    return EditTally(edits.count, edits.lines_added, edits.lines_removed)


def _files(files: Iterable[FileTouched]) -> tuple[FileTouched, ...]:
    found: dict[str, EditTally] = {}
    for file in files:
        tally = EditTally(file.edits, file.lines_added, file.lines_removed)
        found[file.path] = found.get(file.path, EditTally()).plus(tally)
    return largest_files(tally.of_file(path) for path, tally in found.items())


def _errors(kept: Digest, new: Digest) -> tuple[ErrorSnippet, ...]:
    found = {error.fingerprint: error for error in kept.error_snippets}
    for error in new.error_snippets:
        held = found.get(error.fingerprint)
        found[error.fingerprint] = replace(held, count=held.count + error.count) if held else error
    return largest_errors(found.values())


def _signals(signals: Iterable[Signal]) -> tuple[Signal, ...]:
    found: dict[tuple[str, int, str | None, str | None], Signal] = {}
    for signal in signals:
        key = (signal.name, signal.version, signal.tool, signal.file_path)
        held = found.get(key)
        if held is not None:
            evidence = (*held.evidence, *signal.evidence)[:_EVIDENCE]
            found[key] = replace(held, count=held.count + signal.count, evidence=evidence)
        else:
            found[key] = signal
    return tuple(found.values())
