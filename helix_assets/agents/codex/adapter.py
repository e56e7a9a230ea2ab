"""Which files are Codex rollouts, their sessions, and the ids of their lines. Not here: what they say (`parser`)."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator

from helix_assets.agents.codex.parser import CodexParser
from helix_assets.agents.codex.spec import SPEC
from helix_assets.agents.jsonl import decode, timestamp_us
from helix_assets.agents.loose import as_name, as_object, as_text
from helix_assets.agents.spec import FoundFile, Identity, JsonObject, SessionFacts
from helix_assets.agents.walk import entries
from helix_assets.model.errors import Problem

_DEEPEST = 6
_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")
_HEAD_ID = re.compile(rb'(?<=[{,\s])"id"\s*:\s*"([\w.:-]{1,200})"')
_HEAD_CWD = re.compile(rb'"cwd"\s*:\s*("(?:[^"\\]|\\.)*")')


class CodexAdapter:
    """Rollouts of Codex CLI, IDE and Desktop, every version."""

    spec = SPEC
    flavor = SPEC.flavor
    version = 4
    shares_history = False

    def discover(self, root: str, problems: list[Problem]) -> Iterator[FoundFile]:
        for tree in ("sessions", "archived_sessions"):
            yield from self._tree(os.path.join(root, tree), problems, _DEEPEST)

    def _tree(self, folder: str, problems: list[Problem], deeper: int) -> Iterator[FoundFile]:
        listed = entries(folder, problems)
        names = {entry.name for entry in listed}
        for entry in listed:
            if role := SPEC.role_of(entry.name):
                if entry.name.removesuffix(".zst") in names and entry.name.endswith(".zst"):
                    continue  # the same rollout, caught while Codex compresses it
                if file := entry.file(role, None):
                    yield file
            elif deeper and entry.is_folder():
                yield from self._tree(entry.path, problems, deeper - 1)

    def native_id_from_head(self, path: str, head: bytes) -> str:
        """The thread in the first session_meta, else in the file's name."""
        for number, line in enumerate(head.split(b"\n")):
            if number and b'"session_meta"' not in line:
                continue
            obj = decode(line)
            if isinstance(obj, dict):
                meta = as_object(obj.get("payload")) or as_object(obj.get("session")) or obj
                named = as_name(meta.get("id")) if native_type(obj) in ("session_meta", "document") else None
            else:  # the line may continue after the head
                match = _HEAD_ID.search(line) if b'"session' in line else None
                named = match.group(1).decode() if match else None
            if named:
                return named
        return _id_in_name(os.path.basename(path))

    def cwd_from_head(self, path: str, head: bytes) -> str | None:
        match = _HEAD_CWD.search(head)
        found_cwd = decode(b'{"cwd":' + match.group(1) + b"}") if match else None
        return as_text(found_cwd.get("cwd")) or None if isinstance(found_cwd, dict) else None

    def identify(self, obj: JsonObject) -> Identity:
        kind = native_type(obj)
        return Identity(None, None, timestamp_us(obj.get("timestamp")), kind)

    def parser(
        self, role: str, facts: SessionFacts, hash64: Callable[[bytes], int], state: JsonObject | None = None
    ) -> CodexParser:
        return CodexParser(facts, hash64, state or {})


def native_type(obj: JsonObject) -> str:
    """`event_msg/token_count` and the like; bare items by their own type; session_meta for the old first line."""
    kind = obj.get("type")
    if type(kind) is not str:
        if type(obj.get("items")) is list and type(obj.get("session")) is dict:
            return "document"
        if "record_type" in obj:
            return "state"
        return "session_meta" if as_name(obj.get("id")) and "timestamp" in obj else ""
    payload = obj.get("payload")
    inner = payload.get("type") if type(payload) is dict else None
    if type(inner) is str and kind != "session_meta":
        return f"{kind}/{inner}" if kind in ("response_item", "event_msg") else kind
    return kind


def _id_in_name(name: str) -> str:
    """The thread in `rollout-<time>-<thread>[_<rollout>].jsonl`."""
    match = _UUID.search(name)
    return match.group() if match else name.removeprefix("rollout-").partition(".")[0]
