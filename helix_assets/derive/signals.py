"""Signs of trouble in a session, each by a named rule with a version (docs/signals.md).

Belongs here: rules that need several rows, or a row's text. They take light rows, one at a time. Pure.
Not here: the class of a single failure (`failures`), how the session ended (`outcome`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from helix_assets.derive.failures import error_class
from helix_assets.derive.vocabulary import Vocabulary
from helix_assets.model.digest import Signal
from helix_assets.model.event import EventKind, Row, shorten
from helix_assets.model.fingerprint import SAMPLE_CHARS, fingerprint

MAX_SIGNALS = 24
MAX_EVIDENCE = 5
MAX_ERRORS = 8
LOOP_RETRIES = 2
CHURN_ROUNDS = 4
FAILING_EDITS = 2
PRESSURE = 0.85
_LARGE_WINDOW = 1_000_000
_MASK = (1 << 64) - 1
_LOOKS_ONLY = frozenset(
    {"cat", "grep", "rg", "ls", "head", "tail", "find", "fd", "wc", "tree", "less", "stat", "pwd", "which"}
)
_MISSING = re.compile(
    r"no module named ['\"]?([\w.-]{1,80})|cannot find (?:module|package) ['\"]?([\w./@-]{1,80})"
    r"|([\w.-]{1,60}): (?:command )?not found|no matching distribution found for ([\w.-]{1,80})"
    r"|exec: \"?([\w./-]{1,60})\"?: executable file not found",
    re.I,
)


SignalRow = tuple[int, int | None, str, int, int, str | None, str | None]
"""First record, time, rule, version, times, tool, file: a row of the fact table `signals`."""


VERSIONS: Mapping[str, int] = {
    "error": 1,
    "retry_loop": 1,
    "churn": 1,
    "edit_test_loop": 1,
    "flaky_test": 1,
    "permission_denied": 1,
    "missing_dependency": 1,
    "context_pressure": 1,
    "compaction_mid_task": 1,
}
"""The rules with their versions; a version grows whenever its rule changes."""


@dataclass
class _Sign:
    """A signal while it is counted."""

    sample: str
    tool: str | None = None
    file_path: str | None = None
    ts_us: int | None = None
    count: int = 0
    keys: list[int] = field(default_factory=list)

    def add(self, *keys: int, times: int = 1) -> None:
        self.count += times
        self.keys += [key for key in keys if key not in self.keys][: max(0, MAX_EVIDENCE - len(self.keys))]


class _Call(NamedTuple):
    """A call without its result so far."""

    record_key: int
    input_hash: int | None
    file_path: str | None
    is_edit: bool
    is_test: bool
    changes_nothing: bool


class _Result(NamedTuple):
    """What later rows need of a result. `test` is the hashed input of a call that ran tests."""

    record_key: int
    ts_us: int | None
    tool: str | None
    test: int | None


@dataclass
class _Thread:
    """What one agent did, the main one or a subagent: chains that only its own calls continue or end."""

    failed: dict[int, list[int]] = field(default_factory=dict)
    rounds: Counter[str] = field(default_factory=Counter)
    round_keys: dict[str, list[int]] = field(default_factory=dict)
    last_edited: str | None = None
    edit_key: int | None = None
    red_after_edit: list[int] = field(default_factory=list)
    runs: dict[int, tuple[str, int]] = field(default_factory=dict)
    calls: int = 0


class SignalBuilder:
    """Collects one session's rows in order; `finish` may be called at any time and again after more rows."""

    def __init__(self, words: Vocabulary) -> None:
        self._words = words
        self._looks_only = _LOOKS_ONLY | words.looks
        self._signs: dict[tuple[str, str], _Sign] = {}
        self._threads: dict[str | bool, _Thread] = {}
        self._calls: dict[str, _Call] = {}
        self._results: dict[str, _Result] = {}
        self._refused: dict[str, _Result] = {}
        self._largest = 0
        self._requests: dict[str | int, tuple[int, int, Row]] = {}
        self._compacted: list[int] = []

    def add(self, row: Row) -> None:
        """Take in the next row."""
        if row.tokens is not None and not row.is_sidechain:
            self._on_usage(row)
        handler = _BY_KIND.get(row.kind)
        if handler is not None:
            handler(self, row, self._thread(row))

    def _thread(self, row: Row) -> _Thread:
        key = row.agent_id or row.is_sidechain if row.is_sidechain else False
        thread = self._threads.get(key)
        if thread is None:
            thread = self._threads[key] = _Thread()
        return thread

    def _sign(self, name: str, sample: str, row: Row, *, about: str | None = None) -> _Sign:
        """The signal of this rule about this thing; the first row gives the sample."""
        key = name, sample if about is None else about
        held = self._signs.get(key)
        if held is None:
            held = self._signs[key] = _Sign(shorten(sample, SAMPLE_CHARS), row.tool, ts_us=row.ts_us)
        return held

    # -- calls and their results ---------------------------------------------------------------------------------------

    def _on_call(self, row: Row, thread: _Thread) -> None:
        detail = orjson.loads(row.detail) if row.detail else {}
        is_edit = row.tool in self._words.edits or row.lines_added is not None
        is_test, is_note = "test" in detail, row.tool in self._words.plans
        looks = is_test or is_note or (detail.get("program") or row.tool) in self._looks_only
        if row.call_id:
            self._calls[row.call_id] = _Call(row.record_key, row.input_hash, row.file_path, is_edit, is_test, looks)
        thread.calls += 1
        self._go_on(row)
        if not is_edit and not is_note:
            thread.last_edited = None
        failures = thread.failed.get(row.input_hash) if row.input_hash is not None else None
        if failures is not None:
            failures.append(row.record_key)
            if len(failures) > LOOP_RETRIES:
                sign = self._sign("retry_loop", row.summary or row.tool or "", row, about=str(row.input_hash))
                sign.add(*failures, times=len(failures) - 1 if len(failures) == LOOP_RETRIES + 1 else 1)

    def _on_result(self, row: Row, thread: _Thread) -> None:
        call = self._calls.pop(row.call_id or "", None)
        test = call.input_hash if call is not None and call.is_test else None
        result = _Result(row.record_key, row.ts_us, row.tool, test)
        if row.call_id:
            self._results[row.call_id] = result
        if row.status == "denied" or (row.summary or "").startswith(self._words.refusals):
            self._refused[row.call_id or str(row.seq)] = result
        if row.status == "error":
            self._on_failure(row, thread, call)
        elif row.status == "ok" and call is not None:
            if call.input_hash is not None:
                thread.failed.pop(call.input_hash, None)
            if call.is_edit:
                self._on_edit(row, thread, call.file_path or row.file_path)
        if call is not None and not call.changes_nothing:
            self._forget_runs()

    def _forget_runs(self) -> None:
        """Forget test runs, because files have changed since."""
        for thread in self._threads.values():
            thread.runs.clear()

    def _on_failure(self, row: Row, thread: _Thread, call: _Call | None) -> None:
        text = row.summary or ""
        kind = error_class(text, row.exit_code)
        self._sign("error", f"{kind}: {fingerprint(text)}", row).add(row.record_key)
        if call is not None and call.input_hash is not None:
            thread.failed.setdefault(call.input_hash, [call.record_key])
        if kind in ("missing_dependency", "missing_command"):
            found = _MISSING.search(text)
            what = next(filter(None, found.groups()), kind) if found else kind
            self._sign("missing_dependency", what, row).add(row.record_key)

    def _on_edit(self, row: Row, thread: _Thread, path: str | None) -> None:
        thread.failed.clear()  # the same call after an edit is not a repetition
        thread.edit_key = row.record_key
        if path is None or thread.last_edited == path:
            return
        thread.last_edited = path
        thread.rounds[path] += 1
        thread.round_keys.setdefault(path, []).append(row.record_key)
        rounds = thread.rounds[path]
        if rounds >= CHURN_ROUNDS:
            sign = self._sign("churn", path, row)
            sign.file_path = path
            sign.add(*thread.round_keys[path], times=rounds if rounds == CHURN_ROUNDS else 1)

    def _on_test(self, row: Row, thread: _Thread) -> None:
        if row.status not in ("ok", "error"):
            return
        if row.status == "ok":
            thread.red_after_edit.clear()
        elif thread.edit_key is not None:
            thread.red_after_edit += [thread.edit_key, row.record_key]
            thread.edit_key = None
            red = len(thread.red_after_edit) // 2
            if red >= FAILING_EDITS:
                sign = self._sign("edit_test_loop", row.summary or "tests", row, about="")
                sign.add(*thread.red_after_edit, times=red if red == FAILING_EDITS else 1)
        self._compare_runs(row, thread)

    def _compare_runs(self, row: Row, thread: _Thread) -> None:
        """Find the same tests run twice over the same files with different results."""
        result = self._results.get(row.call_id or "")
        key = result.test if result is not None else None
        if key is None or row.status is None:
            return
        before = thread.runs.get(key)
        if before is not None and before[0] != row.status and before[1] != row.record_key:
            self._sign("flaky_test", row.summary or "tests", row, about=str(key)).add(before[1], row.record_key)
        thread.runs[key] = (row.status, row.record_key)

    # -- the course of the session ------------------------------------------------------------------------------------

    def _on_prompt(self, row: Row, thread: _Thread) -> None:
        """A person's prompt begins another task: what repeats across it is not a loop."""
        if row.status == "queued" or row.is_sidechain:
            return
        for each in self._threads.values():
            each.failed.clear()
            each.rounds.clear()
            each.round_keys.clear()
            each.red_after_edit.clear()
            each.edit_key = each.last_edited = None
            each.calls = 0
        self._forget_runs()
        self._compacted.clear()

    def _on_life(self, row: Row, thread: _Thread) -> None:
        if row.status == "compaction" and not row.is_sidechain and thread.calls:
            self._compacted.append(row.record_key)
        elif row.status == "denied" and row.call_id in self._results:
            self._refused[row.call_id] = self._results[row.call_id]
        elif row.status in ("ok", "error", "cancelled") and row.call_id:
            self._refused.pop(row.call_id, None)

    def _go_on(self, row: Row) -> None:
        """A compaction was in the middle of a task if the same turn continues after it."""
        if self._compacted and not row.is_sidechain:
            sign = self._sign("compaction_mid_task", "compaction", row)
            sign.tool = None
            sign.add(*self._compacted, times=len(self._compacted))
            self._compacted.clear()

    def _on_usage(self, row: Row) -> None:
        """Note how full the window was; unknown for an agent that reports usage per turn, not per request."""
        window = next((size for prefix, size in self._words.windows if (row.model or "").startswith(prefix)), None)
        if window is None:
            return
        written = (row.cache_write_5m_tokens or 0) + (row.cache_write_1h_tokens or 0)
        held = (row.input_tokens or 0) + (row.cache_read_tokens or 0) + written
        self._largest = max(self._largest, held)
        if held >= PRESSURE * window:
            self._requests[row.message_id or row.seq] = (held, window, row._replace(raw=None))

    def _pressure(self) -> Iterator[_Found]:
        """Requests that nearly filled the window. A session that once had more tokens in it had the large window."""
        sign = _Sign("")
        for held, usual, row in self._requests.values():
            window = usual if self._largest <= usual else _LARGE_WINDOW
            if held >= PRESSURE * window:
                sign.add(row.record_key)
                sign.ts_us = row.ts_us if sign.ts_us is None else sign.ts_us
                sign.sample = sign.sample or f"{held * 100 // window} % of {window} tokens"
        if sign.count:
            yield "context_pressure", sign

    def _denied(self) -> Iterator[_Found]:
        signs: dict[str, _Sign] = {}
        for result in self._refused.values():
            tool = result.tool or "tool"
            signs.setdefault(tool, _Sign(tool, result.tool, ts_us=result.ts_us)).add(result.record_key)
        for sign in signs.values():
            yield "permission_denied", sign

    def _kept(self) -> list[_Found]:
        """The signals by rule, the most frequent first, then a limited number of errors."""
        found = [(name, sign) for (name, _), sign in self._signs.items()]
        found += [*self._pressure(), *self._denied()]
        found.sort(key=lambda item: (_ORDER[item[0]], -item[1].count, item[1].sample))
        errors = [item for item in found if item[0] == "error"][:MAX_ERRORS]
        return [item for item in found if item[0] != "error"][: MAX_SIGNALS - len(errors)] + errors

    def finish(self) -> tuple[Signal, ...]:
        """The signals of what was added so far, for the digest."""
        return tuple(
            Signal(
                name=name,
                version=VERSIONS[name],
                count=sign.count,
                evidence=tuple(f"{key & _MASK:016x}" for key in sign.keys),
                sample=sign.sample,
                tool=sign.tool,
                file_path=sign.file_path,
            )
            for name, sign in self._kept()
        )

    def facts(self) -> list[SignalRow]:
        """The same signals as rows of the fact table `signals`."""
        return [
            (sign.keys[0], sign.ts_us, name, VERSIONS[name], sign.count, sign.tool, sign.file_path)
            for name, sign in self._kept()
        ]


_Found = tuple[str, _Sign]
_ORDER = {name: place for place, name in enumerate(VERSIONS)}
_BY_KIND: dict[str | None, Callable[[SignalBuilder, Row, _Thread], None]] = {
    EventKind.TOOL_CALL.value: SignalBuilder._on_call,
    EventKind.TOOL_RESULT.value: SignalBuilder._on_result,
    EventKind.TEST_RUN.value: SignalBuilder._on_test,
    EventKind.USER_MSG.value: SignalBuilder._on_prompt,
    EventKind.LIFECYCLE.value: SignalBuilder._on_life,
}
