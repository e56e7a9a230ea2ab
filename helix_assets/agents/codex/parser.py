"""Events of one Codex rollout.

Belongs here: what each kind of line means for the session. Not here: copied history (`replay`), token arithmetic
(`tokens`), the text of calls and outputs (`tools`), and what is derived the same way for all agents.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from helix_assets.agents.codex.replay import ReplayGate
from helix_assets.agents.codex.tokens import TokenMeter, after_spending
from helix_assets.agents.codex.tools import milliseconds, polled_session, read_call, read_end, read_output
from helix_assets.agents.loose import as_count, as_name, as_object, as_text, packed, texts_of
from helix_assets.agents.spec import JsonObject, SessionFacts
from helix_assets.model.event import PROMPT_CHARS, EventKind, Record, SessionEvent, Usage, shorten, whole_text

_CWD_IN_TEXT = re.compile(r"<cwd>\s*([^<\n]+?)\s*</cwd>|^Current working directory: (.+)$", re.M)
_INJECTED = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions",
    "<turn_aborted>",
    "<permissions instructions>",
    "<skill>",
    "<subagent_notification>",
    "<user_shell_command>",
    "<recommended_plugins>",
    "<goal_context>",
    "<codex_internal_context",
    "<hook_prompt",
)
_OPEN_CALLS = 500
_UNCONFIRMED = 500


class CodexParser:
    """Events of one rollout. Its state is what later lines need: the token totals, open calls, the model."""

    def __init__(self, facts: SessionFacts, hash64: Callable[[bytes], int], state: JsonObject) -> None:
        self._facts = facts
        self._hash64 = hash64
        self._gate = ReplayGate(state.get("gate"))
        self._at_head: bool = state.get("at_head", True)
        self._child: bool = state.get("child", False)
        self._model: str | None = state.get("model")
        self._meter = TokenMeter(state.get("meter") or after_spending(state.get("spent")))
        self._by_event: bool = state.get("by_event", False)
        self._prompt: str | None = state.get("prompt")
        self._held: list[Any] | None = state.get("held")
        self._heard: bool = state.get("heard", False)
        self._unconfirmed: list[SessionEvent] = []
        self._open: dict[str, str | None] = dict(state.get("open", {}))
        self._running: dict[str, str] = dict(state.get("running", {}))
        self._ts: int | None = None

    def state(self) -> JsonObject | None:
        if self._unconfirmed:
            return None
        return {
            "gate": self._gate.state(),
            "at_head": self._at_head,
            "child": self._child,
            "model": self._model,
            "meter": self._meter.state(),
            "by_event": self._by_event,
            "prompt": self._prompt,
            "held": self._held,
            "heard": self._heard,
            "open": dict(self._open),
            "running": dict(self._running),
        }

    def finish(self) -> list[SessionEvent]:
        """The prompts of a rollout that should repeat them as events but never does."""
        return self._unconfirmed

    def feed(self, obj: JsonObject, record: Record) -> list[SessionEvent]:
        kind = record.native_type
        payload = obj.get("payload")
        body: JsonObject = payload if type(payload) is dict else obj
        self._ts = record.ts_us
        if kind == "session_meta":
            return self._meta(body)
        self._at_head = False
        held: list[SessionEvent] = []
        if self._gate.copying:
            if self._gate.is_copied(obj, body, record.ts_us):
                return self._copied(kind, body)
            held = self._release()
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return held + handler(self, body)
        if kind not in _QUIET:
            self._facts.saw_unknown(kind or "(no type)")
        return held

    # -- the thread itself -------------------------------------------------------------------------------------------

    def _meta(self, meta: JsonObject) -> list[SessionEvent]:
        if self._gate.thread is not None:
            if self._at_head:
                self._gate.meet(meta)
                if self._gate.copying and self._facts.parent_native_id is None:
                    self._facts.parent_native_id = as_name(meta.get("id"))
            return []
        self._gate.open(meta, self._ts)
        source = meta.get("source")
        subagent = as_object(source).get("subagent")
        spawn = as_object(as_object(subagent).get("thread_spawn"))
        parent = as_name(spawn.get("parent_thread_id")) or as_name(meta.get("parent_thread_id"))
        self._child = subagent is not None or source == "subagent" or meta.get("thread_source") == "subagent"
        self._by_event = self._by_event or bool(as_text(meta.get("cli_version")))
        facts = self._facts
        facts.parent_native_id = facts.parent_native_id or parent or as_name(meta.get("forked_from_id"))
        facts.cwd = facts.cwd or as_text(meta.get("cwd")) or None
        facts.git_branch = facts.git_branch or as_text(as_object(meta.get("git")).get("branch")) or None
        facts.agent_version = facts.agent_version or as_text(meta.get("cli_version")) or None
        return [_life("session started")]

    def _copied(self, kind: str, body: JsonObject) -> list[SessionEvent]:
        """Read a line of another thread: it yields no event, but later totals continue from its own."""
        self._facts.own_since_us = self._gate.begun
        if kind == "event_msg/token_count":
            self._meter.skip(body)
        elif kind == "turn_context":
            self._turn_context(body)
        text = _prompt_text(body) if kind in _PROMPTS else ""
        if text and not text.lstrip().startswith(_INJECTED):
            self._held = [shorten(text), self._ts]
        elif kind in _ANSWERS or body.get("role") == "assistant":
            self._held = None
        return []

    def _release(self) -> list[SessionEvent]:
        """The prompt right before the thread's first own line, which is its own, too."""
        held, self._held = self._held, None
        begun = self._gate.begun
        if held is None or (held[1] is not None and begun is not None and held[1] < begun):
            return []  # it has its old time: the copied history ends with a prompt
        self._by_event, self._heard, self._prompt = True, True, held[0]
        text, ts_us = held
        return [_injected(text) if self._child else SessionEvent(EventKind.USER_MSG, "user", summary=text, ts_us=ts_us)]

    def _turn_context(self, body: JsonObject) -> list[SessionEvent]:
        before, self._model = self._model, as_name(body.get("model")) or self._model
        self._facts.model = self._model or self._facts.model
        self._facts.cwd = self._facts.cwd or as_text(body.get("cwd")) or None
        if self._model == before:
            return []
        return [_life(f"model {self._model}", model=self._model)]

    def _settings(self, body: JsonObject) -> list[SessionEvent]:
        return self._turn_context(as_object(body.get("thread_settings")))

    def _renamed(self, body: JsonObject) -> list[SessionEvent]:
        self._facts.offer_title(shorten(as_text(body.get("thread_name"))), 2)
        return []

    # -- conversation ------------------------------------------------------------------------------------------------

    def _message(self, body: JsonObject) -> list[SessionEvent]:
        text, role = texts_of(body.get("content")), body.get("role")
        if role == "assistant":
            said = SessionEvent(EventKind.ASSISTANT_MSG, "assistant", summary=shorten(text), size=len(text))
            return [said._replace(model=self._model, detail=whole_text(text))]
        if self._facts.cwd is None and (found := _CWD_IN_TEXT.search(text[:4000])):
            self._facts.cwd = found.group(1) or found.group(2)
        if role != "user" or self._child or text.lstrip().startswith(_INJECTED):
            return [_injected(text)]
        prompt = SessionEvent(EventKind.USER_MSG, "user", summary=shorten(text), size=len(text), ts_us=self._ts)
        prompt = prompt._replace(detail=whole_text(text, PROMPT_CHARS))
        if not self._by_event:
            self._prompt = prompt.summary
            return [prompt]
        if not self._heard and len(self._unconfirmed) < _UNCONFIRMED:
            self._unconfirmed.append(prompt)
        return []  # its user_message yields the event, or it is a context that no person wrote

    def _user_message(self, body: JsonObject) -> list[SessionEvent]:
        text = _prompt_text(body)
        said = body.get("kind") in ("environment_context", "user_instructions") or text.lstrip().startswith(_INJECTED)
        if self._child or said:
            return [_injected(text)]
        before, self._prompt = self._prompt, None
        self._by_event = self._heard = True
        self._unconfirmed = []
        prompt = shorten(text)
        event = SessionEvent(EventKind.USER_MSG, "user", summary=prompt, size=len(text))
        return [] if before == prompt else [event._replace(detail=whole_text(text, PROMPT_CHARS))]

    def _relayed(self, body: JsonObject) -> list[SessionEvent]:
        return [_injected(texts_of(body.get("content")))]

    def _reasoning(self, body: JsonObject) -> list[SessionEvent]:
        text = texts_of(body.get("summary")) or texts_of(body.get("content"))
        return [SessionEvent(EventKind.THINKING, "assistant", summary=shorten(text))]

    # -- tools -------------------------------------------------------------------------------------------------------

    def _call(self, body: JsonObject) -> list[SessionEvent]:
        call = read_call(body, self._hash64)
        if call.call_id is None:
            return [call]
        call_id = call.call_id
        while call_id in self._open:  # the same id again while the first call has no result: another call
            call_id += "+"
        self._open[call_id] = polled_session(body) if call.tool == "write_stdin" else None
        if len(self._open) > _OPEN_CALLS:
            self._open.pop(next(iter(self._open)))
        return [call._replace(call_id=call_id)]

    def _output(self, body: JsonObject) -> list[SessionEvent]:
        call_id = as_name(body.get("call_id"))
        outcome = read_output(body.get("output") if "output" in body else body.get("tools"))
        summary = shorten(outcome.text)
        polled = self._open.pop(call_id, None) if call_id else None
        if outcome.running and polled is None and call_id:
            self._running[outcome.running] = call_id
            return [_life(f"still running {outcome.text}")]
        result = SessionEvent(
            EventKind.TOOL_RESULT,
            "tool",
            summary=summary,
            status=outcome.status,
            call_id=call_id,
            exit_code=outcome.exit_code,
            duration_ms=outcome.duration_ms,
            text=outcome.text,
        )
        started_by = self._running.pop(polled, None) if polled and not outcome.running else None
        if started_by is None:
            return [result]
        ended = result._replace(call_id=started_by, duration_ms=None)
        return [result._replace(status="ok", exit_code=None), ended]

    def _end(self, body: JsonObject) -> list[SessionEvent]:
        """An event with a call's status and exit code, which overrule those read from the output's text."""
        status, exit_code = read_end(body)
        duration = milliseconds(body.get("duration"))
        call_id = as_name(body.get("call_id")) or as_name(body.get("id"))
        if status is None or call_id is None:
            return []
        name = as_text(body.get("type"))
        return [_life(name, status=status, call_id=call_id, exit_code=exit_code, duration_ms=duration)]

    def _item(self, body: JsonObject) -> list[SessionEvent]:
        item = as_object(body.get("item"))
        kind = as_text(item.get("type"))
        if kind == "UserMessage":
            return self._user_message(item)
        if kind in ("CommandExecution", "FileChange", "McpToolCall", "DynamicToolCall"):
            return self._end(item)
        if kind in ("Plan", "EnteredReviewMode", "ExitedReviewMode"):
            return [_life(f"{kind} {as_text(item.get('text'))}")]
        return []

    # -- tokens ------------------------------------------------------------------------------------------------------

    def _token_count(self, body: JsonObject) -> list[SessionEvent]:
        return self._usage(self._meter.count(body), None)

    def _usage_record(self, body: JsonObject) -> list[SessionEvent]:
        owner = as_name(body.get("thread_id"))
        if owner is not None and owner == self._facts.parent_native_id:
            return []
        return self._usage(self._meter.record(body), as_name(body.get("response_id")))

    def _usage(self, usage: Usage | None, message_id: str | None) -> list[SessionEvent]:
        if usage is None:
            return []
        return [SessionEvent(None, "assistant", message_id=message_id, model=self._model, usage=usage)]

    # -- the agent's own life ----------------------------------------------------------------------------------------

    def _started(self, body: JsonObject) -> list[SessionEvent]:
        return [_life("turn started")]

    def _completed(self, body: JsonObject) -> list[SessionEvent]:
        duration = as_count(body.get("duration_ms"))
        done = SessionEvent(EventKind.COMPLETION, "system", summary="turn ended", duration_ms=duration)
        return [*self._error(as_object(body.get("error"))), done] if body.get("error") else [done]

    def _error(self, body: JsonObject) -> list[SessionEvent]:
        text = shorten(as_text(body.get("message")) or "error")
        return [SessionEvent(EventKind.ERROR, "assistant", summary=text, status="error", detail='{"error":"api"}')]

    def _aborted(self, body: JsonObject) -> list[SessionEvent]:
        reason = as_text(body.get("reason")) or "interrupted"
        duration = as_count(body.get("duration_ms"))
        if self._child or reason not in ("interrupted", "replaced"):
            return [_life(f"turn aborted: {reason}", duration_ms=duration)]
        stop = SessionEvent(EventKind.HUMAN_INTERVENTION, "user", summary=f"turn {reason}", status="interrupt")
        return [stop._replace(duration_ms=duration)]

    def _compacted(self, body: JsonObject) -> list[SessionEvent]:
        return [_life("compaction", status="compaction")]

    def _noted(self, body: JsonObject) -> list[SessionEvent]:
        detail = packed({"turns": as_count(body.get("num_turns"))})
        return [_life(as_text(body.get("type")), detail=detail)]

    def _document(self, body: JsonObject) -> list[SessionEvent]:
        """A rollout of the first CLI: one object with all items in it."""
        events = self._meta(as_object(body.get("session")))
        for item in body["items"] if type(body.get("items")) is list else []:
            handler = _ITEMS.get(as_text(as_object(item).get("type")))
            events += handler(self, item) if handler else []
        return events


_Handler = Callable[[CodexParser, JsonObject], list[SessionEvent]]
_CALLS = (
    "function_call", "custom_tool_call", "local_shell_call", "tool_search_call", "web_search_call",
    "image_generation_call",
)  # fmt: skip
_OUTPUTS = (
    "function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_search_output",
    "mcp_tool_call_output",
)  # fmt: skip
_ENDS = ("exec_command_end", "patch_apply_end", "mcp_tool_call_end", "dynamic_tool_call_response")
_NOTED = ("thread_rolled_back", "entered_review_mode", "exited_review_mode", "undo_completed", "guardian_assessment")
_ITEMS: dict[str, _Handler] = {
    "message": CodexParser._message,
    "reasoning": CodexParser._reasoning,
    "agent_message": CodexParser._relayed,
    **dict.fromkeys(_CALLS, CodexParser._call),
    **dict.fromkeys(_OUTPUTS, CodexParser._output),
}
_EVENTS: dict[str, _Handler] = {
    "user_message": CodexParser._user_message,
    "item_completed": CodexParser._item,
    "token_count": CodexParser._token_count,
    "task_started": CodexParser._started,
    "task_complete": CodexParser._completed,
    "turn_aborted": CodexParser._aborted,
    "error": CodexParser._error,
    "thread_name_updated": CodexParser._renamed,
    "thread_settings_applied": CodexParser._settings,
    **dict.fromkeys(_ENDS, CodexParser._end),
    **dict.fromkeys(_NOTED, CodexParser._noted),
}
_HANDLERS: dict[str, _Handler] = {
    **_ITEMS,
    **{f"response_item/{name}": handler for name, handler in _ITEMS.items()},
    **{f"event_msg/{name}": handler for name, handler in _EVENTS.items()},
    "response_item": CodexParser._message,
    "turn_context": CodexParser._turn_context,
    "token_usage_record": CodexParser._usage_record,
    "compacted": CodexParser._compacted,
    "document": CodexParser._document,
}
_PROMPTS = frozenset({"response_item", "response_item/message", "event_msg/user_message", "event_msg/item_completed"})
_PROMPT_ITEMS = (None, "message", "user_message", "UserMessage")
_ANSWERS = frozenset(
    {f"response_item/{name}" for name in (*_CALLS, *_OUTPUTS, "reasoning")}
    | {"event_msg/token_count", "event_msg/agent_message"}
)
# Copies of what another line says, and state that yields no event.
_QUIET_ITEMS = ("ghost_snapshot", "compaction", "context_compaction", "configuration_update", "other")
_QUIET_EVENTS = (
    "agent_message", "agent_reasoning", "agent_reasoning_raw_content", "context_compacted", "web_search_end",
    "image_generation_end", "view_image_tool_call", "collab_agent_spawn_end", "collab_agent_interaction_end",
    "collab_close_end", "collab_waiting_end", "collab_resume_end", "sub_agent_activity", "thread_goal_updated",
    "dynamic_tool_call_request",
)  # fmt: skip
_QUIET = frozenset(
    {"state", "world_state", "retained_context", "realtime_item"}
    | {"inter_agent_communication", "inter_agent_communication_metadata"}
    | {f"response_item/{name}" for name in _QUIET_ITEMS}
    | {f"event_msg/{name}" for name in _QUIET_EVENTS}
)


def _life(summary: str, **more: Any) -> SessionEvent:
    return SessionEvent(EventKind.LIFECYCLE, "system", summary=shorten(summary), **more)


def _injected(text: str) -> SessionEvent:
    return _life(text, status="injected")


def _prompt_text(body: JsonObject) -> str:
    item = as_object(body.get("item")) or body
    if body.get("role") not in (None, "user") or item.get("type") not in _PROMPT_ITEMS:
        return ""
    return as_text(item.get("message")) or texts_of(item.get("content"))
