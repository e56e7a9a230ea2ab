"""What `summary.json` and `signals.json` tell of a session: where, what for, whose child. They yield no events."""

from __future__ import annotations

from helix_assets.adapters.base import JsonObject, SessionFacts
from helix_assets.adapters.grok.tools import model_name
from helix_assets.adapters.jsonl import timestamp_us
from helix_assets.adapters.loose import as_count, as_name, as_object, as_text
from helix_assets.core.schema import Record, SessionEvent, shorten


class SummaryParser:
    """Reads the one object of a `summary.json`, nested (id and cwd under `info`) or flat, or of a `signals.json`."""

    def __init__(self, facts: SessionFacts) -> None:
        self._facts = facts

    def state(self) -> JsonObject:
        return {}

    def finish(self) -> list[SessionEvent]:
        return []

    def feed(self, obj: JsonObject, record: Record) -> list[SessionEvent]:
        facts = self._facts
        facts.model = facts.model or model_name(obj.get("current_model_id")) or model_name(obj.get("primaryModelId"))
        if "contextWindowTokens" in obj:
            return []
        info = as_object(obj.get("info")) or obj
        facts.cwd = as_text(info.get("cwd")) or facts.cwd
        facts.git_branch = as_text(obj.get("head_branch")) or facts.git_branch
        facts.parent_native_id = as_name(obj.get("parent_session_id")) or facts.parent_native_id
        facts.offer_title(shorten(as_text(obj.get("session_summary"))), 1)
        facts.offer_title(shorten(as_text(obj.get("generated_title"))), 2)
        kind = as_text(obj.get("session_kind"))
        facts.is_subagent = facts.is_subagent or kind.startswith("subagent")
        created = timestamp_us(obj.get("created_at"))
        if kind in ("fork", "subagent_fork") or as_count(obj.get("inherited_prefix_len")):
            facts.own_since_us = created
        facts.said_start_us = created
        last = timestamp_us(obj.get("last_active_at"))
        facts.said_end_us = last if last is not None else timestamp_us(obj.get("updated_at"))
        return []
