"""Which updates are chunks of a message, and what a chunk says. Not here: the events of messages (`updates`)."""

from __future__ import annotations

import re

from helix_assets.agents.loose import as_count, as_object, as_text, texts_of
from helix_assets.agents.spec import JsonObject
from helix_assets.model.event import EventKind, Piece

CHUNKS = {
    "user_message_chunk": EventKind.USER_MSG,
    "agent_message_chunk": EventKind.ASSISTANT_MSG,
    "agent_thought_chunk": EventKind.THINKING,
}
INJECTED = ("<user_info>", "<system-reminder>", "<task-notification>", "<git_status>", "<project_layout>")
_new = tuple.__new__  # a named tuple without the call that checks its length: a log has many chunks
_NUMBER = re.compile(r"(\d{1,15})\Z")


class GrokPieces:
    """The runs of chunks in `updates.jsonl`: what distinguishes one message from the next, and their order."""

    kinds = CHUNKS.keys()
    ends = frozenset({"tool_call", "turn_completed"})

    def piece(self, obj: JsonObject) -> Piece:
        """What a chunk says; its order is the number at the end of its event id."""
        params = as_object(obj.get("params"))
        update, meta = as_object(params.get("update")), as_object(params.get("_meta"))
        kind, content, event_id = update.get("sessionUpdate"), update.get("content"), meta.get("eventId")
        is_prompt = kind == "user_message_chunk"
        key = as_count(as_object(update.get("_meta")).get("promptIndex") if is_prompt else meta.get("streamStartMs"))
        number = _NUMBER.search(event_id) if type(event_id) is str else None
        text = content.get("text") if type(content) is dict else None
        said = text if text and type(text) is str else texts_of(content)
        return _new(Piece, (as_text(kind), key, int(number[1]) if number else None, said))

    def with_text(self, obj: JsonObject, text: str) -> JsonObject:
        params = as_object(obj.get("params"))
        update = as_object(params.get("update"))
        content = as_object(update.get("content"))
        kept = {name: value for name, value in content.items() if name not in ("text", "content")}
        said = {"type": "text", **kept, "text": text}
        return {**obj, "params": {**params, "update": {**update, "content": said}}}

    def said_by(self, native_type: str, text: str | None) -> tuple[str, str] | None:
        kind = CHUNKS.get(native_type)
        if kind is EventKind.USER_MSG and text is not None and text.lstrip().startswith(INJECTED):
            return EventKind.LIFECYCLE, "system"
        if kind is None:
            return None
        return kind, "user" if kind is EventKind.USER_MSG else "assistant"


PIECES = GrokPieces()
