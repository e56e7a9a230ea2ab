"""Twins: the same conversations told as JSON Lines, as documents, as a database and as a text, by one test agent.

Each kind of source has to come to what JSON Lines come to, which is read as Claude's are. `Told` writes the sources of
one home; `Told.say` makes them tell what they are given, in place or by going on, as the kind does.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import orjson
import pytest

from helix_assets.agents import ADAPTERS
from helix_assets.agents.claude.adapter import ClaudeAdapter, ClaudeParser
from helix_assets.agents.jsonl import decode
from helix_assets.agents.kinds import Ask, Block, Held, Query
from helix_assets.agents.roles import SHARED
from helix_assets.agents.spec import FoundFile, JsonObject, SessionFacts
from helix_assets.agents.walk import entries
from helix_assets.model.agent import AgentSpec
from helix_assets.model.errors import Problem
from helix_assets_tests.home import Memory, conversation

ENDINGS = {".jsonl": "main", ".json": "units", ".db": "database", ".md": "text", ".enc": "unreadable"}
_CWD = re.compile(rb'"cwd": ?"([^"]+)"')
Conversations = dict[str, list[bytes]]


class TwinAdapter(ClaudeAdapter):
    """Reads the sources of all kinds; what they say are Claude's records."""

    flavor = "twin"
    spec = AgentSpec(flavor="twin")
    unreadable_because = "it is encrypted"

    def discover(self, root: str, problems: list[Problem]) -> Iterator[FoundFile]:
        for entry in entries(root, problems):
            stem, ending = os.path.splitext(entry.name)
            role = ENDINGS.get(ending)
            if role and (file := entry.file(role, None if role in SHARED else stem)):
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

    queries: ClassVar = {
        "sessions": Query(
            "select s.id, s.cwd, max(m.changed), count(m.id), sum(length(m.data)) from session s"
            " join message m on m.session_id = s.id group by s.id",
            {"session": ("id", "cwd"), "message": ("id", "session_id", "changed", "data")},
        ),
        "messages": Query(
            "select data from message where session_id = ? order by n", {"message": ("session_id", "data", "n")}
        ),
    }

    def sessions(self, ask: Ask) -> Iterator[Held]:
        for native_id, cwd, changed, count, size in ask("sessions"):
            yield Held(native_id, (changed, count), changed, cwd, size)

    def rows(self, ask: Ask, native_id: str) -> Iterator[JsonObject]:
        for (data,) in ask("messages", native_id):
            yield json.loads(data)

    def splitter(self, path: str, state: JsonObject | None) -> TwinSplitter:
        return TwinSplitter(state or {"session": "", "cwd": None})


class TwinSplitter:
    """Blocks of `--- uuid` and lines of JSON; `=== session cwd` before a block says whose it and all behind it are."""

    def __init__(self, state: JsonObject) -> None:
        self._state = dict(state)
        self._is_headed = False

    def begins(self, line: str) -> bool:
        is_head, was_headed = line.startswith("=== "), self._is_headed
        self._is_headed = is_head
        return is_head or (line.startswith("--- ") and not was_headed)

    def block(self, text: str, line: int) -> Block:
        lines = text.split("\n")
        if lines[0].startswith("=== "):
            _, session, cwd = lines.pop(0).split(" ", 2)
            self._state = {"session": session, "cwd": cwd}
        unit = decode("\n".join(lines[1:]).encode())
        return Block(self._state["session"], unit if isinstance(unit, dict) else {"bad": unit}, self._state["cwd"])

    def state(self) -> JsonObject:
        return dict(self._state)


def both(turns: int, others: int = 2) -> Conversations:
    """Two sessions, of so many turns each."""
    return {"one": conversation(turns, session="a"), "two": conversation(others, session="b")}


@pytest.fixture(name="told")
def make_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Told]]:
    """Makes homes whose sources are of a kind, and has the test agent be one of the agents."""
    monkeypatch.setattr(ADAPTERS, "_known", {**ADAPTERS._known, "twin": TwinAdapter()})
    made: list[Told] = []

    def make(kind: str, **environ: str) -> Told:
        made.append(Told(tmp_path / f"{kind}{len(made)}", kind, **environ))
        return made[-1]

    yield make
    for one in made:
        one.memory.close()


class Told:
    """The sources of one home, all of one kind."""

    def __init__(self, folder: Path, kind: str, **environ: str) -> None:
        self.folder, self.kind = folder / "home" / "twins", kind
        self.folder.mkdir(parents=True)
        self._said: list[tuple[str, JsonObject]] = []
        self.memory = Memory(folder, {"HELIX_OTHER_ROOTS": f'{{twin = "{self.folder}"}}', **environ})

    def say(self, conversations: Conversations) -> None:
        """Have the sources tell these conversations, and nothing else."""
        {"lines": self._lines, "units": self._units, "database": self._database, "text": self._text}[self.kind](
            conversations
        )

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

    def _database(self, conversations: Conversations) -> None:
        """Sessions, messages, and a table that nobody may read. What changes leaves all other rows alone."""
        with self.database() as connection:
            connection.executescript(_TABLES)
            for name, records in conversations.items():
                told = [json.loads(record) for record in records]
                connection.execute("insert or ignore into session values (?, ?)", (name, told[0].get("cwd")))
                ids = [message["uuid"] for message in told]
                gone = f"delete from message where session_id = ? and id not in ({','.join('?' * len(ids))})"
                connection.execute(gone, (name, *ids))
                for n, message in enumerate(told):
                    connection.execute(
                        _MESSAGE, (message["uuid"], name, n, json.dumps(message), time.time_ns() // 1000)
                    )

    def _text(self, conversations: Conversations) -> None:
        """What is new goes behind what is there; a text that says something else is written anew."""
        told = [(name, json.loads(record)) for name, records in conversations.items() for record in records]
        goes_on = all(
            [message for said, message in self._said if said == name] == [json.loads(record) for record in records][:n]
            for name, records in conversations.items()
            for n in [sum(said == name for said, _ in self._said)]
        )
        fresh = [one for one in told if one not in self._said] if goes_on else told
        with (self.folder / "agent.md").open("a" if goes_on else "w") as file:
            session = self._said[-1][0] if goes_on and self._said else ""
            for name, message in fresh:
                head = f"=== {name} {message.get('cwd')}\n" if name != session else ""
                file.write(f"{head}--- {message['uuid']}\n{json.dumps(message, indent=1)}\n")
                session = name
        self._said = [*self._said, *fresh] if goes_on else fresh

    @contextmanager
    def database(self) -> Iterator[sqlite3.Connection]:
        """The database, as its owner writes it: in one transaction."""
        path = self.folder / "agent.db"
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("pragma journal_mode=wal")
            yield connection
            connection.commit()
        os.utime(path, ns=(time.time_ns() - 10**9,) * 2)  # not this very moment: that would be waited for


_TABLES = """
create table if not exists session (id text primary key, cwd text);
create table if not exists message (id text, session_id text, n integer, data text, changed integer,
                                    primary key (id, session_id));
create table if not exists credential (id integer, secret text);
"""
_MESSAGE = """
insert into message values (?, ?, ?, ?, ?) on conflict do update set n = excluded.n, data = excluded.data,
changed = excluded.changed where data != excluded.data
"""
