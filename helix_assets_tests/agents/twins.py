"""Twins: the same conversations told as JSON Lines, as documents, as a database and as a text, by one test agent.

Each kind of source has to come to what JSON Lines come to, which is read as Claude's are. `Told` writes the sources of
one home; `Told.say` makes them tell what they are given, in place or by going on, as the kind does.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from helix_assets.agents.claude.adapter import ClaudeAdapter, ClaudeParser
from helix_assets.agents.spec import FoundFile, JsonObject, SessionFacts
from helix_assets.agents.walk import entries
from helix_assets.model.errors import Problem
from helix_assets_tests.home import Memory

ENDINGS = {".jsonl": "main", ".json": "units"}
_CWD = re.compile(rb'"cwd": ?"([^"]+)"')
Conversations = dict[str, list[bytes]]


class TwinAdapter(ClaudeAdapter):
    """Reads the sources of all kinds; what they say are Claude's records."""

    flavor = "twin"

    def discover(self, root: str, problems: list[Problem]) -> Iterator[FoundFile]:
        for entry in entries(root, problems):
            stem, ending = os.path.splitext(entry.name)
            if (role := ENDINGS.get(ending)) and (file := entry.file(role, stem)):
                yield file

    def cwd_from_head(self, path: str, head: bytes) -> str | None:
        found = _CWD.search(head)
        return found.group(1).decode() if found else None

    def parser(
        self, role: str, facts: SessionFacts, hash64: Callable[[bytes], int], state: JsonObject | None = None
    ) -> ClaudeParser:
        return super().parser("main", facts, hash64, state)

    def units(self, obj: JsonObject) -> Iterator[JsonObject]:
        yield from obj["messages"]


class Told:
    """The sources of one home, all of one kind."""

    def __init__(self, folder: Path, kind: str, **environ: str) -> None:
        self.folder, self.kind = folder / "home" / "twins", kind
        self.folder.mkdir(parents=True)
        self.memory = Memory(folder, {"HELIX_OTHER_ROOTS": f'{{twin = "{self.folder}"}}', **environ})
        self._said: Conversations = {}

    def say(self, conversations: Conversations) -> None:
        """Have the sources tell these conversations, and nothing else."""
        {"lines": self._lines, "units": self._units}[self.kind](conversations)
        self._said = {name: list(records) for name, records in conversations.items()}

    def sweep(self, conversations: Conversations) -> None:
        """Tell and take in."""
        self.say(conversations)
        assert self.memory.sweep().problems == []

    def logical(self) -> list[Any]:
        """What the memory holds, without what differs between kinds: names of files, lines, and the form of a text."""
        found = [orjson.loads(line) for line in self.memory.exported().splitlines()]
        for one in found:
            for place in ("file", "files", "line"):
                one.pop(place, None)
            if "raw" in one:
                one["raw"] = orjson.loads(one["raw"])
        return found

    def _lines(self, conversations: Conversations) -> None:
        for name, records in conversations.items():
            (self.folder / f"{name}.jsonl").write_bytes(b"".join(records))

    def _units(self, conversations: Conversations) -> None:
        for name, records in conversations.items():
            document = {"id": name, "messages": [json.loads(record) for record in records]}
            (self.folder / f"{name}.json").write_text(json.dumps(document, indent=1))
