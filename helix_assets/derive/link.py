"""Numbers the events of one session, links results to calls, and derives what no single line says.

The same rules for every agent; docs/formats.md states each with an example. Feed records in session order. After an
append, feed the stored rows to `resume` first, then continue with the new records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from typing import Any, NamedTuple

import orjson

from helix_assets.derive.failures import meaningful_part
from helix_assets.derive.tests import SCRIPT, TestRun, parse_test_runs
from helix_assets.derive.vocabulary import Vocabulary
from helix_assets.model.event import UNPLACED, EventKind, Record, Row, SessionEvent, Usage

FAILED = frozenset({"error", "denied"})
_NO_EVENT = (SessionEvent(None),)
_new = tuple.__new__  # a named tuple without the call that checks its length
_NOTHING_SPENT: tuple[int | None, ...] = (None,) * len(Usage._fields)


class _Call(NamedTuple):
    tool: str | None
    file_path: str | None
    ts_us: int | None
    input_hash: int | None
    lines_added: int | None
    lines_removed: int | None
    is_edit: bool
    test: str | None
    polls: str | None


class Linker:
    """Turns records with their events into stored rows. One per session.

    `foreign_messages` are the hashed ids of messages whose usage another session owns.
    """

    def __init__(self, words: Vocabulary, foreign_messages: Set[str] = frozenset()) -> None:
        self._edit_tools = words.edits
        self._seq = 0
        self._last_seq_of: dict[str, int] = {}
        self._calls: dict[str, _Call] = {}
        self._answered: set[str] = set()
        self._background: set[str] = set()
        self._just_failed: dict[str | bool, set[int]] = {}
        self._sidechain_texts: set[tuple[str, str, str]] = set()
        self._foreign = foreign_messages

    def start_at(self, seq: int) -> None:
        """Start numbering here: the rows before are no longer stored."""
        self._seq = seq

    def resume(self, rows: Iterable[Row]) -> None:
        """Take in the rows stored earlier, so that the next record continues them."""
        for row in rows:
            if row.seq == UNPLACED:
                continue
            self._seq = row.seq + 1
            if row.record_id:
                self._last_seq_of[row.record_id] = row.seq
            if row.kind == EventKind.TOOL_CALL and row.call_id:
                self._calls[row.call_id] = _Call(
                    row.tool,
                    row.file_path,
                    row.ts_us,
                    row.input_hash,
                    row.lines_added,
                    row.lines_removed,
                    row.tool in self._edit_tools or row.lines_added is not None,
                    *self._tests_of(row.detail),
                )
            elif row.kind == EventKind.TOOL_RESULT and row.call_id:
                self._answered.add(row.call_id)
            if row.kind == EventKind.TOOL_RESULT:
                self._note_failure(row)
                self._note_background(row)
            elif row.kind == EventKind.TOOL_CALL:
                self._repeats_failure(row)
            elif row.kind == EventKind.TEST_RUN:
                self._note_run(row)
            if row.is_sidechain and row.message_id and row.kind:
                self._sidechain_texts.add((row.message_id, row.kind, row.summary or ""))

    def rows(self, record: Record, events: Sequence[SessionEvent]) -> list[Row]:
        """The rows of one record: at least one, the first carrying the raw line."""
        derived: list[SessionEvent] = []
        for event in events:
            if not self._is_copy(event):
                derived.extend(self._derive(event, record))
        seq = self._seq
        parent = self._last_seq_of.get(record.parent_id) if record.parent_id else None
        raw: bytes | None = record.raw
        out = []
        for event in derived or _NO_EVENT:
            out.append(self._row(record, event, seq, parent, raw))
            parent, raw = seq, None
            seq += 1
        self._seq = seq
        if record.native_id:
            self._last_seq_of[record.native_id] = seq - 1
        return out

    def unplaced(self, record: Record, events: Sequence[SessionEvent]) -> list[Row]:
        """The one row of a record without a place in the conversation; its event, if any, loses its kind."""
        event = events[0]._replace(kind=None) if events else SessionEvent(None)
        return [self._row(record, event, UNPLACED, None, record.raw)]

    def _is_copy(self, event: SessionEvent) -> bool:
        """Whether a call, result or subagent message repeats one of the same id, as progress records do."""
        kind = event.kind
        if kind is EventKind.TOOL_CALL and event.call_id:
            return event.call_id in self._calls
        if kind is EventKind.TOOL_RESULT and event.call_id:
            return event.call_id in self._answered
        if event.is_sidechain and event.message_id and kind:
            key = (event.message_id, kind.value, event.summary or "")
            if key in self._sidechain_texts:
                return event.usage is None
            self._sidechain_texts.add(key)
        return False

    def _derive(self, event: SessionEvent, record: Record) -> list[SessionEvent]:
        kind = event.kind
        if kind is EventKind.TOOL_CALL:
            return self._call(event, record)
        if kind is EventKind.TOOL_RESULT:
            return self._result(event, record)
        if kind is EventKind.USER_MSG and event.status == "queued":
            return [event, event._replace(kind=EventKind.HUMAN_INTERVENTION)]
        return [event]

    def _call(self, event: SessionEvent, record: Record) -> list[SessionEvent]:
        # a shell command that contains a patch is an edit, too: its call says how many lines
        is_edit = event.tool in self._edit_tools or event.lines_added is not None
        if event.call_id:
            self._calls[event.call_id] = _Call(
                event.tool,
                event.file_path,
                event.ts_us or record.ts_us,
                event.input_hash,
                event.lines_added,
                event.lines_removed,
                is_edit,
                *self._tests_of(event.detail),
            )
        out = [event]
        if self._repeats_failure(event):
            out.append(_derived(event, EventKind.RETRY, status="tool"))
        return out

    def _result(self, event: SessionEvent, record: Record) -> list[SessionEvent]:
        call = self._calls.get(event.call_id) if event.call_id else None
        if event.call_id:
            self._answered.add(event.call_id)
        if call is not None:
            event = _complete(event, call, event.ts_us or record.ts_us)
        out = [event]
        if call is not None and call.test is not None:
            runs = _test_runs(event, call.test)
            out += runs
            if runs:
                self._note_run(event)
        self._note_background(event)
        self._note_failure(event)
        if event.status == "error":
            out[0] = event = _with_reason(event)
            out.append(
                _derived(event, EventKind.ERROR, status="error", summary=event.summary, exit_code=event.exit_code)
            )
        elif event.status == "denied":
            out.append(_derived(event, EventKind.HUMAN_INTERVENTION, role="user", status="denied"))
        elif event.status == "ok" and call is not None and call.is_edit:
            lines = {"lines_added": event.lines_added, "lines_removed": event.lines_removed}
            out.append(_derived(event, EventKind.EDIT, status="ok", **lines))
        return out

    def _tests_of(self, detail: str | None) -> tuple[str | None, str | None]:
        """The framework that a call's command runs, by its detail, and the background command whose output it reads.

        Later calls show what a background command prints: only a summary in it is a run.
        """
        if detail is None or ('"test"' not in detail and '"polls"' not in detail):
            return None, None
        parsed = orjson.loads(detail)
        polls = parsed.get("polls")
        return parsed.get("test") or (SCRIPT if polls in self._background else None), polls

    def _note_background(self, result: SessionEvent | Row) -> None:
        call = self._calls.get(result.call_id) if result.call_id else None
        if call is not None and call.test is not None and result.detail and '"background"' in result.detail:
            self._background.add(str(orjson.loads(result.detail)["background"]))

    def _note_run(self, run: SessionEvent | Row) -> None:
        """Only the first poll that shows a summary counts: some tools repeat the whole output at each poll."""
        call = self._calls.get(run.call_id) if run.call_id else None
        if call is not None and call.polls is not None:
            self._background.discard(call.polls)

    def _note_failure(self, result: SessionEvent | Row) -> None:
        if result.status in FAILED and result.input_hash is not None:
            self._just_failed.setdefault(_thread(result), set()).add(result.input_hash)

    def _repeats_failure(self, call: SessionEvent | Row) -> bool:
        """Whether the same call failed and its thread has called nothing else since."""
        failed = self._just_failed.get(_thread(call))
        if not failed:
            return False
        if call.input_hash in failed:
            failed.discard(call.input_hash)
            return True
        failed.clear()
        return False

    def _row(self, record: Record, event: SessionEvent, seq: int, parent: int | None, raw: bytes | None) -> Row:
        # Unpacked and built as plain tuples: this runs for every row, and attribute access takes half of the time.
        (kind, role, tool, summary, status, call_id, message_id, model, usage, cost_usd, is_sidechain, agent_id,
         exit_code, duration_ms, file_path, lines_added, lines_removed, input_hash, detail, ts_us,
         _, size) = event  # fmt: skip
        order_us, file, line, offset, key, native_id, parent_id, record_ts_us, native_type, _ = record
        tokens: int | None = None
        spent = _NOTHING_SPENT
        if usage is not None and message_id not in self._foreign:
            tokens = usage.input + usage.output + usage.cache_read + usage.cache_write_5m + usage.cache_write_1h
            spent = usage
        return _new(Row, (
            seq, parent, record_ts_us if ts_us is None else ts_us, kind and kind.value, role, tool, summary, status,
            tokens, is_sidechain, agent_id, call_id, message_id, model, *spent, cost_usd, exit_code, duration_ms,
            file_path, lines_added, lines_removed, input_hash, detail, size, native_type, native_id, parent_id, key,
            order_us, file, line, offset, raw,
        ))  # fmt: skip


class BareLinker(Linker):
    """Only numbers records: the fallback if deriving fails."""

    def rows(self, record: Record, events: Sequence[SessionEvent]) -> list[Row]:
        self._seq += 1
        return [self._row(record, _NO_EVENT[0], self._seq - 1, None, record.raw)]


def _with_reason(failed: SessionEvent) -> SessionEvent:
    """The failed result with a summary that says what went wrong, if its text does."""
    if not failed.text:
        return failed
    return failed._replace(summary=meaningful_part(failed.text, failed.summary or ""))


def _thread(event: SessionEvent | Row) -> str | bool:
    """Who called: the main thread, or a subagent."""
    return event.agent_id or event.is_sidechain


def _derived(event: SessionEvent, kind: EventKind, **changes: Any) -> SessionEvent:
    """A derived event: the same call and place, nothing that would count twice."""
    own = {"role": event.role, "summary": event.summary, **changes}
    return SessionEvent(
        kind,
        tool=event.tool,
        call_id=event.call_id,
        is_sidechain=event.is_sidechain,
        agent_id=event.agent_id,
        file_path=event.file_path,
        ts_us=event.ts_us,
        text=event.text,
        **own,
    )


def _test_runs(event: SessionEvent, framework: str) -> list[SessionEvent]:
    """An event per run in the result of a test command. A command that was denied or cancelled ran nothing."""
    if event.text is None or event.status not in ("ok", "error"):
        return []
    exit_code = event.exit_code
    if exit_code is None and event.status == "error":
        exit_code = 1
    runs = parse_test_runs(event.text, framework=framework, exit_code=exit_code)
    return [
        _derived(
            event,
            EventKind.TEST_RUN,
            status=None if run.success is None else "ok" if run.success else "error",
            summary=_summary(run),
            detail=orjson.dumps(run._asdict()).decode(),
        )
        for run in runs
    ]


def _summary(run: TestRun) -> str:
    counts = {"passed": run.passed, "failed": run.failed, "skipped": run.skipped}
    return f"{run.framework}: {', '.join(f'{n} {word}' for word, n in counts.items() if n) or 'no counts'}"


def _complete(event: SessionEvent, call: _Call, ts_us: int | None) -> SessionEvent:
    """The result with what only its call says."""
    duration = event.duration_ms
    if duration is None and ts_us is not None and call.ts_us is not None and ts_us >= call.ts_us:
        duration = (ts_us - call.ts_us) // 1000
    return event._replace(
        tool=event.tool or call.tool,
        file_path=event.file_path or call.file_path,
        duration_ms=duration,
        input_hash=call.input_hash,
        lines_added=event.lines_added if event.lines_added is not None else call.lines_added,
        lines_removed=event.lines_removed if event.lines_removed is not None else call.lines_removed,
    )
