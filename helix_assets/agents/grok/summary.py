"""What `summary.json` and `signals.json` say about a session: its folder, title and parent. They yield no events."""

from __future__ import annotations

from helix_assets.agents.grok.tools import model_name
from helix_assets.agents.jsonl import timestamp_us
from helix_assets.agents.loose import as_count, as_name, as_object, as_text
from helix_assets.agents.spec import JsonObject, SessionFacts
from helix_assets.model.event import Record, SessionEvent, shorten


class SummaryParser:
    """Reads the one object of a `summary.json`, nested (id and cwd under `info`) or flat, or of a `signals.json`.

    Its state is what the events of other files depend on. A newer version with the same state changes no event.
    """

    def __init__(self, facts: SessionFacts) -> None:
        self._facts = facts
        self._state: JsonObject = {}

    def state(self) -> JsonObject:
        return self._state

    def finish(self) -> list[SessionEvent]:
        return []

    def feed(self, obj: JsonObject, record: Record) -> list[SessionEvent]:
        facts = self._facts
        model = model_name(obj.get("current_model_id")) or model_name(obj.get("primaryModelId"))
        facts.model = facts.model or model
        self._state = {"model": model}
        if "contextWindowTokens" not in obj:
            self._summary(obj)
        return []

    def _summary(self, obj: JsonObject) -> None:
        facts = self._facts
        info = as_object(obj.get("info")) or obj
        facts.cwd = as_text(info.get("cwd")) or facts.cwd
        facts.git_branch = as_text(obj.get("head_branch")) or facts.git_branch
        facts.parent_native_id = as_name(obj.get("parent_session_id")) or facts.parent_native_id
        summary, made = (shorten(as_text(obj.get(name))) for name in ("session_summary", "generated_title"))
        facts.offer_title(summary, 1)
        facts.offer_title(made, 3)  # above a title in an update, whichever is read first
        kind = as_text(obj.get("session_kind"))
        facts.is_subagent = facts.is_subagent or kind.startswith("subagent")
        created = timestamp_us(obj.get("created_at"))
        is_fork = kind in ("fork", "subagent_fork") or bool(as_count(obj.get("inherited_prefix_len")))
        if is_fork:
            facts.own_since_us = created
        facts.said_start_us = created
        last = timestamp_us(obj.get("last_active_at"))
        facts.said_end_us = last if last is not None else timestamp_us(obj.get("updated_at"))
        self._state |= {
            "is_subagent": kind.startswith("subagent"),
            "own_since_us": created if is_fork else None,
            "titles": [bool(summary), bool(made)],
            "places": [bool(info.get("cwd")), bool(obj.get("head_branch")), bool(obj.get("parent_session_id"))],
        }
