"""Reads fixture folders the way a sweep does, but in memory: files to records to events to a digest."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from helix_assets.agents import vocabulary_of
from helix_assets.agents.jsonl import decode
from helix_assets.agents.spec import Adapter, FoundFile, JsonObject, Parser, SessionFacts
from helix_assets.agents.testing import hash64, record_of
from helix_assets.derive.digest_builder import DigestBuilder, SessionHead
from helix_assets.derive.link import Linker
from helix_assets.model.digest import Digest
from helix_assets.model.event import EventKind, Record, Row, SessionEvent

FIXTURES = Path(__file__).parents[1] / "fixtures"
WORDS = vocabulary_of("claude")
"""What names mean, the same for all agents of ours."""


@dataclass
class Told:
    """What one session's files told."""

    facts: SessionFacts = field(default_factory=SessionFacts)
    events: list[SessionEvent] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def of(self, kind: EventKind) -> list[SessionEvent]:
        return [event for event in self.events if event.kind is kind]

    def rows_of(self, kind: EventKind) -> list[Row]:
        return [row for row in self.rows if row.kind == kind.value]

    def digest(self) -> Digest:
        builder = DigestBuilder(WORDS)
        builder.add(self.rows)
        return builder.finish(_head(self.facts))


def _head(facts: SessionFacts) -> SessionHead:
    return SessionHead(
        session_uid="s",
        flavor="f",
        repo=None,
        domain=None,
        title=facts.title,
        cwd=facts.cwd,
        git_branch=facts.git_branch,
        task_ref=None,
        parent_uid=None,
        started_us=None,
        ended_us=None,
        generation=1,
        unparsed_lines=0,
    )


def read(adapter: Adapter, root: Path) -> dict[str, Told]:
    """All sessions under an agent's home."""
    files = defaultdict(list)
    for found in adapter.discover(str(root), []):
        head = Path(found.path).read_bytes()[:4096]
        files[found.native_id or adapter.native_id_from_head(found.path, head)].append(found)
    return {native_id: _session(adapter, found) for native_id, found in files.items()}


def read_one(adapter: Adapter, case: str) -> Told:
    (told,) = read(adapter, FIXTURES / adapter.flavor / case).values()
    return told


def feed_all(adapter: Adapter, lines: list[JsonObject], role: str = "main") -> Told:
    """The lines as one file of one session."""
    told = Told()
    parser = adapter.parser(role, told.facts, hash64)
    _take(told, [(record_of(adapter, obj, line=n), obj, parser) for n, obj in enumerate(lines, 1)], [parser])
    return told


def _session(adapter: Adapter, found: list[FoundFile]) -> Told:
    told = Told(files=[Path(file.path).name for file in found])
    has_main = any(file.role == "main" for file in found)
    parsers: list[Parser] = []
    records: list[tuple[Record, JsonObject, Parser]] = []
    for rank, file in enumerate(found):
        role = "aside" if file.role == "fallback" and has_main else file.role
        parser = adapter.parser(role, told.facts, hash64)
        parsers.append(parser)
        text = Path(file.path).read_bytes()
        order_us = 0
        for number, line in enumerate([text] if file.role in ("document", "about") else text.splitlines(), 1):
            obj = decode(line)
            assert isinstance(obj, dict), f"{file.path}:{number}: {obj}"
            record = record_of(adapter, obj, order_us=order_us, file=rank, line=number)
            order_us = record.order_us
            records.append((record, obj, parser))
    records.sort(key=lambda item: item[0][:3])
    _take(told, records, parsers)
    return told


def _take(told: Told, records: list[tuple[Record, JsonObject, Parser]], parsers: list[Parser]) -> None:
    linker = Linker(WORDS)
    for record, obj, parser in records:
        events = parser.feed(obj, record)
        told.events += events
        told.rows += linker.rows(record, events)
    for parser in parsers:
        rest = parser.finish()
        told.events += rest
        if rest:
            told.rows += linker.rows(records[-1][0], rest)
