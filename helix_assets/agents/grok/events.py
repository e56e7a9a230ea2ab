"""Events of `events.jsonl`: turns, and how tools really ended. Not here: the conversation (`updates`)."""

from __future__ import annotations

from helix_assets.agents.grok.tools import model_name
from helix_assets.agents.loose import as_count, as_name, as_text, packed
from helix_assets.agents.spec import JsonObject, SessionFacts
from helix_assets.model.event import EventKind, Record, SessionEvent, shorten

_OUTCOMES = {
    "error": "error",
    "invalid_tool": "error",
    "permission_rejected": "denied",
    "followup": "denied",
    "hook_denied": "denied",
    "permission_cancelled": "cancelled",
    "cancelled": "cancelled",
}
_QUIET = frozenset({"phase_changed", "first_token", "loop_started", "tool_started", "permission_requested"})
_QUIET_FAMILIES = ("goal_", "todo_gate_", "laziness_", "mcp_")
_NOTED = frozenset({"permission_resolved", "interjected", "yolo_toggled"})


class EventsParser:
    """Events of one `events.jsonl`; its state is the model of the last turn."""

    def __init__(self, facts: SessionFacts, state: JsonObject) -> None:
        self._facts = facts
        self._model: str | None = state.get("model")

    def state(self) -> JsonObject:
        return {"model": self._model}

    def finish(self) -> list[SessionEvent]:
        return []

    def feed(self, obj: JsonObject, record: Record) -> list[SessionEvent]:
        kind = record.native_type
        since = self._facts.own_since_us
        if since is not None and record.ts_us is not None and record.ts_us < since:
            return []
        if kind == "tool_completed":
            return self._tool_completed(obj)
        if kind == "turn_started":
            return self._turn_started(obj)
        if kind == "turn_ended":
            return [_life(f"turn ended: {as_text(obj.get('outcome'))}")]
        if kind in _NOTED:
            detail = packed({"tool": as_name(obj.get("tool_name")), "decision": as_name(obj.get("decision"))})
            return [_life(kind)._replace(detail=detail)]
        if kind not in _QUIET and not kind.startswith(_QUIET_FAMILIES):
            self._facts.saw_unknown(kind or "(no type)")
        return []

    def _turn_started(self, obj: JsonObject) -> list[SessionEvent]:
        if obj.get("session_relationship") == "subagent":
            self._facts.is_subagent = True
        before, self._model = self._model, model_name(obj.get("model_id")) or self._model
        self._facts.model = self._model or self._facts.model
        return [_life("turn started")._replace(model=self._model if self._model != before else None)]

    def _tool_completed(self, obj: JsonObject) -> list[SessionEvent]:
        """The end of a call. A bad outcome overrules an update that says completed; a good one does not overrule."""
        outcome = as_text(obj.get("outcome"))
        call_id = as_name(obj.get("tool_call_id"))
        ended = _life(f"tool {outcome}")._replace(
            tool=as_name(obj.get("tool_name")), call_id=call_id, duration_ms=as_count(obj.get("duration_ms"))
        )
        return [ended._replace(status=_OUTCOMES.get(outcome))] if call_id else []


def _life(summary: str) -> SessionEvent:
    return SessionEvent(EventKind.LIFECYCLE, "system", summary=shorten(summary))
