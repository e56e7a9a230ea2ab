"""Tier 2: what remains of a session when its raw bytes are gone.

Belongs here: how a digest is built from stored rows, one row at a time. Pure: rows in, digest out. Not here: its shape
(`model.digest`), where digests are kept (`store`) or which sessions need a new one (`sweep`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import orjson

from helix_assets.derive.edits import EditTally
from helix_assets.derive.failures import error_class
from helix_assets.derive.outcome.ending import Ending, judge
from helix_assets.derive.signals import SignalBuilder, SignalRow
from helix_assets.derive.vocabulary import Vocabulary
from helix_assets.model.digest import (
    Cost,
    Coverage,
    Digest,
    ErrorSnippet,
    FileTouched,
    RunTally,
    Tokens,
)
from helix_assets.model.digest_text import written_digest
from helix_assets.model.event import AFTER_THE_END, DOCUMENT, UNPARSED, UNPLACED, EventKind, Row, light
from helix_assets.model.fingerprint import fingerprint
from helix_assets.model.time import SECOND_US, iso

UNNAMED = "(unknown)"
MAX_ERRORS = 20
MAX_FILES = 50
MAX_TOOLS = 100
MAX_NAME = 200
MAX_BYTES = 30 << 10
"""A digest's lists are cut until its JSON is no larger, whatever the size of its session."""
_NO_RECORDS = frozenset({UNPARSED, DOCUMENT, AFTER_THE_END})
IDLE_US = 10 * 60 * 1_000_000


@dataclass(frozen=True)
class SessionHead:
    """What a digest says about its session apart from its rows; `facts` is how many rows of each fact were made."""

    session_uid: str
    flavor: str
    repo: str | None
    domain: str | None
    title: str | None
    cwd: str | None
    git_branch: str | None
    task_ref: str | None
    parent_uid: str | None
    started_us: int | None
    ended_us: int | None
    generation: int
    unparsed_lines: int
    facts: Mapping[str, int] = field(default_factory=dict)


class _Spend(dict[str | int, Row]):
    """Usage rows by message id: the last line of a message has its final figures."""

    def total(self) -> Tokens:
        def add(name: str) -> int:
            return sum(getattr(row, name) or 0 for row in self.values())

        reasoning = [row.reasoning_tokens for row in self.values() if row.reasoning_tokens is not None]
        return Tokens(
            input=add("input_tokens"),
            output=add("output_tokens"),
            cache_read=add("cache_read_tokens"),
            cache_write=add("cache_write_5m_tokens") + add("cache_write_1h_tokens"),
            cache_write_5m=add("cache_write_5m_tokens"),
            cache_write_1h=add("cache_write_1h_tokens"),
            reasoning=sum(reasoning) if reasoning else None,
        )


class DigestBuilder:
    """Collects one session's rows in order; `finish` may be called at any time and again after more rows."""

    def __init__(self, words: Vocabulary) -> None:
        self._spend: dict[bool, _Spend] = {False: _Spend(), True: _Spend()}
        self._kinds: Counter[str] = Counter()
        self._tools: Counter[str] = Counter()
        self._results: dict[str | int, tuple[str, bool]] = {}
        self._overruled: dict[str, str] = {}
        self._messages: dict[bool, set[str | int]] = {False: set(), True: set()}
        self._models: dict[str, None] = {}
        self._errors: dict[str, ErrorSnippet] = {}
        self._files: dict[str, EditTally] = {}
        self._edits = EditTally()
        self._runs: Counter[str] = Counter()
        self._frameworks: Counter[str] = Counter()
        self._last_run: str | None = None
        self._counts: Counter[str] = Counter()
        self._ending = Ending(words)
        self._signals = SignalBuilder(words)
        self._streak = self._longest = 0
        self._active_us = 0
        self._last_ts: int | None = None
        self._record_key: int | None = None
        self._records = 0
        self._last_seq = -1
        self._gaps: list[tuple[int, int]] = []
        self.first_prompt: str | None = None
        self._last_assistant: str | None = None

    @property
    def rows(self) -> int:
        """How many rows were numbered so far."""
        return self._last_seq + 1

    def add(self, rows: Iterable[Row]) -> None:
        """Take in rows in `seq` order."""
        for row in rows:
            if row.seq != UNPLACED:
                if row.seq != self._last_seq + 1:
                    self._gaps.append((self._last_seq, row.seq))
                self._last_seq = row.seq
            if row.record_key != self._record_key:
                self._record_key = row.record_key
                self._records += row.native_type not in _NO_RECORDS
            if row.tokens is not None:
                self._spend_of(row)
            model = row.model
            if model and model not in self._models and model != "<synthetic>":
                self._models[model] = None
            if row.kind is not None or row.tokens is not None:
                self._signals.add(row)
            if row.kind is not None:
                self._kinds[row.kind] += 1
                self._time(row.ts_us)
                handler = _BY_KIND.get(row.kind)
                if handler:
                    handler(self, row)
                if not row.is_sidechain:
                    self._ending.add(row)

    def _spend_of(self, row: Row) -> None:
        key: str | int = row.message_id or row.seq
        spend = self._spend[row.is_sidechain]
        other = self._spend[not row.is_sidechain]
        if key in other:  # a message that is in both belongs to the main session
            held = self._spend[True].pop(key, None)
            spend = self._spend[False]
            if held is not None:
                spend[key] = held
        held = spend.get(key)
        if held is None or (row.output_tokens or 0) >= (held.output_tokens or 0):
            spend[key] = light(row)

    def _time(self, ts_us: int | None) -> None:
        if ts_us is None:
            return
        if self._last_ts is not None and 0 < ts_us - self._last_ts <= IDLE_US:
            self._active_us += ts_us - self._last_ts
        self._last_ts = ts_us if self._last_ts is None else max(self._last_ts, ts_us)

    def _on_user(self, row: Row) -> None:
        if row.is_sidechain:
            return
        self._counts["prompts"] += 1
        self.first_prompt = self.first_prompt or row.summary

    def _on_assistant(self, row: Row) -> None:
        self._note_message(row)
        if not row.is_sidechain:
            self._last_assistant = row.summary or self._last_assistant

    def _note_message(self, row: Row) -> None:
        self._messages[row.is_sidechain].add(row.message_id or row.seq)

    def _note_part(self, row: Row) -> None:
        """Count the message of a thought, call or error, which are only parts of one, if the agent names it."""
        if row.message_id:
            self._note_message(row)

    def _on_call(self, row: Row) -> None:
        self._note_part(row)
        self._tools[(row.tool or UNNAMED)[:MAX_NAME]] += 1
        self._counts["calls_sub" if row.is_sidechain else "calls"] += 1

    def _on_result(self, row: Row) -> None:
        status = row.status or "ok"
        self._results[row.call_id or row.seq] = (status, row.is_sidechain)
        self._streak = self._streak + 1 if status == "error" else 0
        self._longest = max(self._longest, self._streak)

    def _on_error(self, row: Row) -> None:
        text = row.summary or ""
        mark = fingerprint(text)
        held = self._errors.get(mark)
        if held:
            self._errors[mark] = replace(held, count=held.count + 1)
        else:
            kind = error_class(text, row.exit_code)
            self._errors[mark] = ErrorSnippet(fingerprint=mark, sample=text, count=1, tool=row.tool, error_class=kind)
        if row.role == "assistant":
            self._note_part(row)

    def _on_edit(self, row: Row) -> None:
        edit = EditTally(1, row.lines_added, row.lines_removed)
        path = _end_of(row.file_path or "?")
        self._edits = self._edits.plus(edit)
        self._files[path] = self._files.get(path, EditTally()).plus(edit)

    def _on_test(self, row: Row) -> None:
        detail = orjson.loads(row.detail) if row.detail else {}
        self._frameworks[str(detail.get("framework", UNNAMED))] += 1
        self._last_run = {"ok": "passed", "error": "failed"}.get(row.status or "")
        self._runs[self._last_run or "unknown"] += 1

    def _on_human(self, row: Row) -> None:
        self._counts["interventions"] += 1
        if row.status == "interrupt":
            self._counts["interrupts"] += not row.is_sidechain

    def _on_lifecycle(self, row: Row) -> None:
        if row.status == "compaction":
            self._counts["compactions"] += not row.is_sidechain
        elif row.call_id and row.status:
            self._overruled[row.call_id] = row.status

    def _on_retry(self, row: Row) -> None:
        self._counts["retries"] += 1

    def _on_thinking(self, row: Row) -> None:
        self._note_part(row)

    def _results_with(self, status: str) -> int:
        return sum(self._overruled.get(str(call), logged) == status for call, (logged, _) in self._results.items())

    def signal_rows(self) -> list[SignalRow]:
        """The session's signals as rows of their fact table."""
        return self._signals.facts()

    def counted_usage(self) -> Iterator[tuple[Row, bool]]:
        """The rows whose tokens count, one per API message, and whether they are a subagent's spend."""
        for is_sidechain, spend in self._spend.items():
            for row in spend.values():
                yield row, is_sidechain

    def finish(self, head: SessionHead) -> Digest:
        """The digest of what was added so far."""
        main, sub = self._spend[False].total(), self._spend[True].total()
        both = _sum(main, sub)
        verdict = judge(self._ending, self._overruled)
        errors, denied = self._results_with("error"), self._results_with("denied")
        digest = Digest(
            session_uid=head.session_uid,
            flavor=head.flavor,
            repo=head.repo,
            domain=head.domain,
            title=head.title,
            cwd=head.cwd,
            git_branch=head.git_branch,
            task_ref=head.task_ref,
            parent_uid=head.parent_uid,
            started_at=iso(head.started_us),
            ended_at=iso(head.ended_us),
            model=max(self._model_counts(), default=(0, None))[1],
            models=tuple(sorted(self._models)),
            outcome=verdict.outcome,
            outcome_reason=verdict.reason,
            outcome_confidence=verdict.confidence,
            cost=Cost(
                input_tokens=both.input,
                output_tokens=both.output,
                cache_tokens=both.cache_read + both.cache_write,
                wall_clock_s=max(0, (head.ended_us or 0) - (head.started_us or 0)) // SECOND_US,
                active_s=self._active_us // 1_000_000,
                turns=self._counts["prompts"],
                retries=self._counts["retries"],
            ),
            tokens=both,
            tokens_main=main,
            tokens_subagent=sub,
            tool_histogram=dict(sorted(self._tools.most_common(MAX_TOOLS))),
            tool_calls=self._counts["calls"] + self._counts["calls_sub"],
            tool_calls_subagent=self._counts["calls_sub"],
            tool_errors=errors + denied,
            tool_denied=denied,
            tool_cancelled=self._results_with("cancelled"),
            user_prompts=self._counts["prompts"],
            assistant_messages=len(self._messages[False] | self._messages[True]),
            assistant_messages_subagent=len(self._messages[True]),
            interrupts=self._counts["interrupts"],
            interventions=self._counts["interventions"],
            compactions=self._counts["compactions"],
            longest_failure_streak=self._longest,
            tests=self._tally(),
            edits=self._edits.of_session(),
            files=largest_files(tally.of_file(path) for path, tally in self._files.items()),
            files_touched=len(self._files),
            event_count=self._kinds.total(),
            record_count=self._records,
            unparsed_lines=head.unparsed_lines,
            kind_counts=dict(sorted(self._kinds.items())),
            markers={k: self._counts[k] for k in ("retries", "interventions", "interrupts", "compactions")}
            | {"errors": errors + denied},
            first_prompt=self.first_prompt,
            last_assistant=self._last_assistant,
            error_snippets=largest_errors(self._errors.values()),
            signals=self._signals.finish(),
            coverage=Coverage(
                generation=head.generation,
                records=self._records,
                events=self._kinds.total(),
                ranges=self._ranges(),
                facts=dict(head.facts),
            ),
        )

        return fitted(digest)

    def _ranges(self) -> tuple[tuple[int, int], ...]:
        firsts = [0, *(after for _, after in self._gaps)]
        lasts = [*(before for before, _ in self._gaps), self._last_seq]
        return tuple((first, last) for first, last in zip(firsts, lasts, strict=True) if first <= last)

    def _tally(self) -> RunTally:
        return RunTally(
            runs=self._runs.total(),
            passed=self._runs["passed"],
            failed=self._runs["failed"],
            last=self._last_run,
            by_framework=dict(sorted(self._frameworks.items())),
        )

    def _model_counts(self) -> list[tuple[int, str | None]]:
        seen = Counter(row.model for spend in self._spend.values() for row in spend.values() if row.model)
        return [
            (count, model)
            for model, count in sorted(seen.items(), key=lambda item: item[0] or "")
            if model != "<synthetic>"
        ]


_BY_KIND = {
    EventKind.USER_MSG.value: DigestBuilder._on_user,
    EventKind.ASSISTANT_MSG.value: DigestBuilder._on_assistant,
    EventKind.THINKING.value: DigestBuilder._on_thinking,
    EventKind.TOOL_CALL.value: DigestBuilder._on_call,
    EventKind.TOOL_RESULT.value: DigestBuilder._on_result,
    EventKind.ERROR.value: DigestBuilder._on_error,
    EventKind.EDIT.value: DigestBuilder._on_edit,
    EventKind.TEST_RUN.value: DigestBuilder._on_test,
    EventKind.HUMAN_INTERVENTION.value: DigestBuilder._on_human,
    EventKind.LIFECYCLE.value: DigestBuilder._on_lifecycle,
    EventKind.RETRY.value: DigestBuilder._on_retry,
}


def _end_of(path: str) -> str:
    """A path short enough for a digest; a very long one keeps its end, which says more."""
    return path if len(path) <= MAX_NAME else "…" + path[-MAX_NAME:]


def largest_errors(errors: Iterable[ErrorSnippet]) -> tuple[ErrorSnippet, ...]:
    """The most frequent errors, as many as a digest has room for."""
    return tuple(sorted(errors, key=lambda error: (-error.count, error.fingerprint))[:MAX_ERRORS])


def largest_files(files: Iterable[FileTouched]) -> tuple[FileTouched, ...]:
    """The most edited files, as many as a digest has room for."""
    return tuple(sorted(files, key=lambda file: (-file.edits, file.path))[:MAX_FILES])


def fitted(digest: Digest) -> Digest:
    """The digest with its lists cut to the most frequent items until it fits; its counts stay complete."""
    room = MAX_TOOLS
    while room > 1 and len(written_digest(digest)) > MAX_BYTES:
        room //= 2
        tools = Counter(digest.tool_histogram).most_common(room)
        digest = replace(
            digest,
            files=digest.files[:room],
            error_snippets=digest.error_snippets[:room],
            signals=digest.signals[:room],
            tool_histogram=dict(sorted(tools)),
            models=digest.models[:room],
        )
    return digest


def _sum(a: Tokens, b: Tokens) -> Tokens:
    known = [t.reasoning for t in (a, b) if t.reasoning is not None]
    return Tokens(
        input=a.input + b.input,
        output=a.output + b.output,
        cache_read=a.cache_read + b.cache_read,
        cache_write=a.cache_write + b.cache_write,
        cache_write_5m=a.cache_write_5m + b.cache_write_5m,
        cache_write_1h=a.cache_write_1h + b.cache_write_1h,
        reasoning=sum(known) if known else None,
    )
