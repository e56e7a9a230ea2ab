"""Which files are Grok sessions, their working folders, and the times and types of their lines.

Not here: what they say (`updates`, `events`, `chat`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from urllib.parse import unquote

from helix_assets.agents.grok.chat import ChatParser
from helix_assets.agents.grok.events import EventsParser
from helix_assets.agents.grok.spec import SPEC
from helix_assets.agents.grok.summary import SummaryParser
from helix_assets.agents.grok.updates import UpdatesParser
from helix_assets.agents.jsonl import open_source, timestamp_us
from helix_assets.agents.loose import as_count, as_object, as_text
from helix_assets.agents.spec import FoundFile, Identity, JsonObject, Parser, SessionFacts
from helix_assets.agents.walk import Entry, entries
from helix_assets.model.errors import Problem, SkipSource

_LONGEST_PATH = 4096


class GrokAdapter:
    """Sessions of Grok Build."""

    spec = SPEC
    flavor = SPEC.flavor
    version = 5
    shares_history = True

    def discover(self, root: str, problems: list[Problem]) -> Iterator[FoundFile]:
        for place in entries(os.path.join(root, "sessions"), problems):
            if not place.is_folder():
                continue
            for session in entries(place.path, problems):
                if session.is_folder():
                    yield from self._session(session, problems)

    def _session(self, session: Entry, problems: list[Problem]) -> Iterator[FoundFile]:
        for entry in entries(session.path, problems):
            role = SPEC.role_of(entry.name)
            if role and (file := entry.file(role, session.name)):
                yield file

    def native_id_from_head(self, path: str, head: bytes) -> str:
        """The id is the name of the session's folder."""
        return os.path.basename(os.path.dirname(path))

    def cwd_from_head(self, path: str, head: bytes) -> str | None:
        """The working folder from the name of the folder above the session's, or from its `.cwd` file if too long."""
        place = os.path.dirname(os.path.dirname(path))
        name = os.path.basename(place)
        return unquote(name) if "%" in name else _text_of(os.path.join(place, ".cwd"))

    def identify(self, obj: JsonObject) -> Identity:
        params = obj.get("params")
        if type(params) is dict:
            update = as_object(params.get("update"))
            return Identity(None, None, _update_us(obj, params), as_text(update.get("sessionUpdate")))
        kind = obj.get("type") if type(obj.get("type")) is str else obj.get("role")
        return Identity(None, None, _event_us(obj.get("ts")), kind if type(kind) is str else "")

    def parser(
        self, role: str, facts: SessionFacts, hash64: Callable[[bytes], int], state: JsonObject | None = None
    ) -> Parser:
        known = state or {}
        if role == "events":
            return EventsParser(facts, known)
        if role == "about":
            return SummaryParser(facts)
        if role in ("fallback", "aside"):
            return ChatParser(facts, hash64, known, models_only=role == "aside")
        return UpdatesParser(facts, hash64, known)


def _update_us(obj: JsonObject, params: JsonObject) -> int | None:
    """Milliseconds in `_meta`, else the envelope's seconds."""
    ms = as_count(as_object(params.get("_meta")).get("agentTimestampMs"))
    if ms is not None:
        return ms * 1000 if 0 < ms < 1 << 43 else None
    seconds = as_count(obj.get("timestamp"))
    return seconds * 1_000_000 if seconds is not None and 0 < seconds < 1 << 33 else None


def _event_us(ts: object) -> int | None:
    ms = as_count(ts)
    return ms * 1000 if ms is not None and 0 < ms < 1 << 43 else timestamp_us(ts)


def _text_of(path: str) -> str | None:
    try:
        fd = open_source(path)
    except SkipSource:
        return None
    try:
        return os.read(fd, _LONGEST_PATH).decode("utf-8", "replace").strip() or None
    except OSError:
        return None
    finally:
        os.close(fd)
