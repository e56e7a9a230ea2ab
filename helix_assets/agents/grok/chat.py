"""Events of `chat_history.jsonl`, for sessions without an `updates.jsonl`: it has no times and no usage.

Both forms: rows with a `type` (chat format 1) and rows with a `role` as OpenAI writes them (chat format 0).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from helix_assets.agents.grok.tools import model_name, read_call
from helix_assets.agents.grok.updates import prompt_event
from helix_assets.agents.loose import as_name, as_object, as_text, texts_of
from helix_assets.agents.spec import JsonObject, SessionFacts
from helix_assets.model.event import EventKind, Record, SessionEvent, shorten, whole_text

_CANCELLED = ("cancelled", "canceled", "[cancelled", "tool call cancelled", "the tool call was cancelled")


class ChatParser:
    """Events of one `chat_history.jsonl`, or with `models_only` only the names of its models."""

    def __init__(
        self, facts: SessionFacts, hash64: Callable[[bytes], int], state: JsonObject, *, models_only: bool = False
    ) -> None:
        self._facts = facts
        self._models_only = models_only
        self._hash64 = hash64
        self._open: dict[str, None] = dict.fromkeys(state.get("open", ()))

    def state(self) -> JsonObject:
        return {"open": list(self._open)}

    def finish(self) -> list[SessionEvent]:
        return []

    def feed(self, obj: JsonObject, record: Record) -> list[SessionEvent]:
        if self._models_only:
            model = model_name(obj.get("model_id"))
            return [SessionEvent(None, "assistant", model=model)] if model else []
        handler = _HANDLERS.get(record.native_type)
        if handler is None:
            self._facts.saw_unknown(record.native_type or "(no type)")
            return []
        return handler(self, obj)

    def _user(self, row: JsonObject) -> list[SessionEvent]:
        reason = row.get("synthetic_reason")
        prompt = prompt_event(texts_of(row.get("content")), bool(reason), self._facts)
        if row.get("prior_turn_interrupt") and not self._facts.is_subagent:
            return [
                SessionEvent(EventKind.HUMAN_INTERVENTION, "user", summary="turn cancelled", status="interrupt"),
                prompt,
            ]
        if reason == "interjection":
            return [prompt._replace(kind=EventKind.HUMAN_INTERVENTION, role="user", status="interjection")]
        return [prompt]

    def _assistant(self, row: JsonObject) -> list[SessionEvent]:
        text = texts_of(row.get("content"))
        model = model_name(row.get("model_id"))
        self._facts.model = model or self._facts.model
        calls = row.get("tool_calls")
        events = [self._call(as_object(call)) for call in calls] if type(calls) is list else []
        if thought := as_text(row.get("reasoning_content")):
            events.insert(0, SessionEvent(EventKind.THINKING, "assistant", summary=shorten(thought)))
        said = SessionEvent(EventKind.ASSISTANT_MSG, "assistant", summary=shorten(text), size=len(text))
        events.insert(0, said._replace(detail=whole_text(text)))
        return [event._replace(model=model) for event in events]

    def _call(self, call: JsonObject) -> SessionEvent:
        function = as_object(call.get("function")) or call
        call_id = as_name(call.get("id"))
        while call_id in self._open:
            call_id = f"{call_id}+"
        if call_id:
            self._open[call_id] = None
        return read_call(as_name(function.get("name")), call_id, _given(function.get("arguments")), {}, self._hash64)

    def _result(self, row: JsonObject) -> list[SessionEvent]:
        text = texts_of(row.get("content"))
        call_id = as_name(row.get("tool_call_id"))
        self._open.pop(call_id or "", None)
        status = "cancelled" if text.lower().startswith(_CANCELLED) else "error" if text.startswith("Error:") else "ok"
        summary = shorten(text)
        return [SessionEvent(EventKind.TOOL_RESULT, "tool", summary=summary, status=status, call_id=call_id, text=text)]

    def _reasoning(self, row: JsonObject) -> list[SessionEvent]:
        return [SessionEvent(EventKind.THINKING, "assistant", summary=shorten(texts_of(row.get("summary"))))]

    def _backend(self, row: JsonObject) -> list[SessionEvent]:
        kind = as_object(row.get("kind"))
        tool = as_name(kind.get("name")) or as_name(kind.get("tool_type"))
        return [read_call(tool, None, as_object(kind.get("action")), {}, self._hash64)]

    def _system(self, row: JsonObject) -> list[SessionEvent]:
        text = shorten(texts_of(row.get("content")))
        return [SessionEvent(EventKind.LIFECYCLE, "system", summary=text, status="injected")]


def _given(arguments: Any) -> JsonObject:
    if type(arguments) is not str:
        return as_object(arguments)
    try:
        return as_object(orjson.loads(arguments))
    except orjson.JSONDecodeError:
        return {}


_HANDLERS: dict[str, Callable[[ChatParser, JsonObject], list[SessionEvent]]] = {
    "system": ChatParser._system,
    "user": ChatParser._user,
    "assistant": ChatParser._assistant,
    "reasoning": ChatParser._reasoning,
    "tool_result": ChatParser._result,
    "tool": ChatParser._result,
    "backend_tool_call": ChatParser._backend,
}
