"""Events of `updates.jsonl`: the conversation in chunks, tool calls in steps, turns with their usage.

Belongs here: joining lines that belong together. Not here: the content of calls and results (`tools`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from helix_assets.agents.grok.pieces import CHUNKS, INJECTED, PIECES
from helix_assets.agents.grok.tools import model_name, read_call, read_result, tool_name
from helix_assets.agents.jsonl import count_or_zero
from helix_assets.agents.loose import as_count, as_name, as_object, as_text, packed
from helix_assets.agents.spec import JsonObject, SessionFacts
from helix_assets.model.event import PROMPT_CHARS, EventKind, Piece, Record, SessionEvent, Usage, shorten, whole_text

TICKS_PER_DOLLAR = 10_000_000_000
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z", re.I)
_QUERY = re.compile(r"\A\s*<user_query>\n?(.*?)\n?</user_query>\s*\Z", re.S)
_RUN_CHARS = 64_000
_REMEMBERED = 500


def prompt_event(text: str, synthetic: bool, facts: SessionFacts, ts_us: int | None = None) -> SessionEvent:
    """A person's prompt, or in a subagent's session and for injected text what Grok itself wrote."""
    query = _QUERY.match(text)
    said = query.group(1) if query else text
    if synthetic or facts.is_subagent or said.lstrip().startswith(INJECTED):
        return SessionEvent(EventKind.LIFECYCLE, "system", summary=shorten(said), status="injected", ts_us=ts_us)
    prompt = SessionEvent(EventKind.USER_MSG, "user", summary=shorten(said), size=len(said), ts_us=ts_us)
    return prompt._replace(detail=whole_text(said, PROMPT_CHARS))


class _Run(NamedTuple):
    """Chunks of one message; `first` is the first chunk."""

    first: Piece
    ts_us: int | None
    synthetic: bool
    pieces: list[tuple[int, str]]

    def text(self) -> str:
        """The pieces in the order of their event ids, which is not always that of the lines."""
        return "".join(text for _, text in sorted(self.pieces, key=lambda piece: piece[0]))


class UpdatesParser:
    """Events of one `updates.jsonl`. Its state is the open run of chunks, and the known calls and turns."""

    def __init__(self, facts: SessionFacts, hash64: Callable[[bytes], int], state: JsonObject) -> None:
        self._facts = facts
        self._hash64 = hash64
        self._model: str | None = state.get("model")
        self._calls: dict[str, _Call] = {key: _Call(*call) for key, call in state.get("calls", {}).items()}
        self._turns: dict[str, None] = dict.fromkeys(state.get("turns", ()))
        self._run: _Run | None = None
        self._length = 0

    def state(self) -> JsonObject | None:
        if self._run is not None or any(call.held for call in self._calls.values()):
            return None
        calls = {key: list(call) for key, call in self._calls.items()}
        return {"model": self._model, "calls": calls, "turns": list(self._turns)}

    def finish(self) -> list[SessionEvent]:
        held = [self._emit(key, {}, {}) for key, call in list(self._calls.items()) if call.held]
        return self._close() + held

    def feed(self, obj: JsonObject, record: Record) -> list[SessionEvent]:
        params = as_object(obj.get("params"))
        update = as_object(params.get("update"))
        kind = record.native_type
        since = self._facts.own_since_us
        if since is not None and record.ts_us is not None and record.ts_us < since:
            return []  # a fork's copy of what happened in its parent
        if kind in CHUNKS:
            piece = PIECES.piece(obj)
            return self._chunk(piece, update, record.ts_us) if piece.kind == kind else []  # else it was withheld
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, update)
        if kind not in _QUIET:
            self._facts.saw_unknown(kind or "(no type)")
        return []

    # -- conversation ------------------------------------------------------------------------------------------------

    def _chunk(self, piece: Piece, update: JsonObject, ts_us: int | None) -> list[SessionEvent]:
        said = as_object(update.get("_meta"))
        if piece.kind == "user_message_chunk":
            self._use_model(said.get("modelId"))
        run = self._run
        closed: list[SessionEvent] = []
        if run is None or not piece.continues(run.first):
            closed = self._close()
            synthetic = bool(said.get("synthetic_reason") or said.get("syntheticReason"))
            run = self._run = _Run(piece, ts_us, synthetic, [])
        if self._length < _RUN_CHARS:
            before = run.pieces[-1][0] if run.pieces else 0
            run.pieces.append((before if piece.order is None else piece.order, piece.text))
        self._length += len(piece.text)
        return closed

    def _close(self) -> list[SessionEvent]:
        """The message of the open run."""
        run, self._run = self._run, None
        size, self._length = self._length, 0
        if run is None:
            return []
        text = run.text()
        kind = CHUNKS[run.first.kind]
        if kind is EventKind.USER_MSG:
            return [prompt_event(text, run.synthetic, self._facts, run.ts_us)]
        said = SessionEvent(kind, "assistant", summary=shorten(text), size=size, ts_us=run.ts_us)
        end = whole_text(text) if kind is EventKind.ASSISTANT_MSG else None
        return [said._replace(model=self._model_now(), detail=end)]

    def _use_model(self, value: Any) -> None:
        self._model = model_name(value) or self._model

    def _model_now(self) -> str | None:
        return self._model or self._facts.model

    # -- tools -------------------------------------------------------------------------------------------------------

    def _tool_call(self, update: JsonObject) -> list[SessionEvent]:
        closed = self._close()
        key = as_name(update.get("toolCallId")) or ""
        before = self._calls.get(key)
        if before is not None and not before.done:
            return closed + self._tool_update(update)
        call_id = key if before is None else f"{before.call_id}+"  # an id used again is another call
        self._calls.pop(key, None)
        self._calls[key] = _Call(call_id, tool_name(update), held=True, done=False)
        self._forget()
        return closed + self._tool_update(update)

    def _tool_update(self, update: JsonObject) -> list[SessionEvent]:
        key = as_name(update.get("toolCallId")) or ""
        if key not in self._calls:
            self._calls[key] = _Call(key, None, held=True, done=False)
        call = self._calls[key]
        if call.done:
            return []
        given = as_object(update.get("rawInput"))
        result = read_result(call.call_id or None, update)
        events = [self._emit(key, given, update)] if call.held and (given or result) else []
        if result is not None:
            self._calls[key] = self._calls[key]._replace(done=True)
            events.append(result)
        return events

    def _emit(self, key: str, given: JsonObject, shown: JsonObject) -> SessionEvent:
        call = self._calls[key]
        self._calls[key] = call._replace(held=False)
        return read_call(call.tool, call.call_id or None, given, shown, self._hash64)._replace(model=self._model_now())

    def _forget(self) -> None:
        """Forget the oldest calls beyond a limit."""
        while len(self._calls) > _REMEMBERED:
            self._calls.pop(next(iter(self._calls)))

    # -- turns -------------------------------------------------------------------------------------------------------

    def _turn_completed(self, update: JsonObject) -> list[SessionEvent]:
        """A turn's end with its usage; repeated for the same prompt it counts once."""
        closed = self._close()
        prompt = as_name(update.get("prompt_id"))
        ended = [SessionEvent(None, "assistant")] if prompt in self._turns else self._ending(update)
        if prompt:
            self._turns[prompt] = None
            if len(self._turns) > _REMEMBERED:
                self._turns.pop(next(iter(self._turns)))
        usage = update.get("usage")
        if type(usage) is dict:
            self._use_model(_main_model(usage))
            message_id = prompt if prompt is None or _UUID.match(prompt) else f"turn:{prompt}"
            ended[0] = ended[0]._replace(
                message_id=message_id, model=self._model_now(), usage=_usage(usage), cost_usd=_cost(usage)
            )
        return closed + ended

    def _ending(self, update: JsonObject) -> list[SessionEvent]:
        reason = as_text(update.get("stop_reason"))
        if reason == "cancelled":
            if self._facts.is_subagent:
                return [_life("turn cancelled")]
            return [SessionEvent(EventKind.HUMAN_INTERVENTION, "user", summary="turn cancelled", status="interrupt")]
        if reason == "error":
            text = shorten(as_text(update.get("agent_result")) or "error")
            model = self._model_now()
            return [
                SessionEvent(
                    EventKind.ERROR, "assistant", summary=text, status="error", model=model, detail='{"error":"api"}'
                )
            ]
        return [SessionEvent(EventKind.COMPLETION, "system", summary=f"turn ended {shorten(reason, 40)}".strip())]

    # -- the agent's own life ----------------------------------------------------------------------------------------

    def _retry(self, update: JsonObject) -> list[SessionEvent]:
        text = shorten(as_text(update.get("message")) or as_text(update.get("error_type")) or "API error")
        if update.get("type") == "failed":
            return [_life(f"gave up: {text}")]  # turn_completed has the error
        return [SessionEvent(EventKind.RETRY, "system", summary=text, status="api")]

    def _compacted(self, update: JsonObject) -> list[SessionEvent]:
        before, after = as_count(update.get("tokens_before")), as_count(update.get("tokens_after"))
        return [_life("compaction", status="compaction", detail=packed({"before": before, "after": after}))]

    def _model_changed(self, update: JsonObject) -> list[SessionEvent]:
        self._use_model(update.get("model_id") or update.get("modelId") or update.get("model"))
        return [_life(f"model {self._model_now()}", model=self._model_now())]

    def _titled(self, update: JsonObject) -> list[SessionEvent]:
        self._facts.offer_title(shorten(as_text(update.get("title"))), 2)
        return []

    def _noted(self, update: JsonObject) -> list[SessionEvent]:
        agent = as_name(update.get("subagent_id") or update.get("child_session_id"))
        return [_life(as_text(update.get("sessionUpdate")), detail=packed({"agent": agent}))]


class _Call(NamedTuple):
    """What is known about a tool call: `held` until its input is known, `done` once it has its result."""

    call_id: str
    tool: str | None
    held: bool
    done: bool


_HANDLERS: dict[str, Callable[[UpdatesParser, JsonObject], list[SessionEvent]]] = {
    "tool_call": UpdatesParser._tool_call,
    "tool_call_update": UpdatesParser._tool_update,
    "turn_completed": UpdatesParser._turn_completed,
    "retry_state": UpdatesParser._retry,
    "auto_compact_completed": UpdatesParser._compacted,
    "model_changed": UpdatesParser._model_changed,
    "model_auto_switched": UpdatesParser._model_changed,
    "session_info_update": UpdatesParser._titled,
    "auto_compact_started": UpdatesParser._noted,
    "auto_compact_failed": UpdatesParser._noted,
    "rewind_marker": UpdatesParser._noted,
    "subagent_spawned": UpdatesParser._noted,
    "subagent_finished": UpdatesParser._noted,
    "task_backgrounded": UpdatesParser._noted,
    "task_completed": UpdatesParser._noted,
}
_QUIET = frozenset(
    {
        "plan", "hook_execution", "current_mode_update", "available_commands_update", "config_option_update",
        "response_completed", "pending_interaction", "interaction_resolved", "compaction_checkpoint", "goal_updated",
        "workflow_updated", "session_recap", "last_turn_summary", "subagent_progress", "usage_update",
    }
)  # fmt: skip


def _life(summary: str, **more: Any) -> SessionEvent:
    return SessionEvent(EventKind.LIFECYCLE, "system", summary=shorten(summary), **more)


def _usage(usage: JsonObject) -> Usage:
    cached = count_or_zero(usage.get("cachedReadTokens"))
    reasoning = usage.get("reasoningTokens")
    return Usage(
        max(0, count_or_zero(usage.get("inputTokens")) - cached),
        count_or_zero(usage.get("outputTokens")),
        cached,
        reasoning=None if reasoning is None else count_or_zero(reasoning),
    )


def _cost(usage: JsonObject) -> float | None:
    ticks = as_count(usage.get("costUsdTicks"))
    return None if ticks is None or ticks < 0 else ticks / TICKS_PER_DOLLAR


def _main_model(usage: JsonObject) -> str | None:
    """The model that used most of a turn's tokens."""
    used = {
        name: count_or_zero(as_object(part).get("totalTokens"))
        for name, part in as_object(usage.get("modelUsage")).items()
    }
    return max(used, key=lambda name: used[name], default=None)
