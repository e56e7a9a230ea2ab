"""Every agent keeps the contract of `agents.testing`, with its fixtures as samples; and the suite sees who does not."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import random

import pytest

from helix_assets.agents import ADAPTERS, AGENTS
from helix_assets.agents.jsonl import timestamp_us
from helix_assets.agents.loose import as_count, as_name, as_text
from helix_assets.agents.spec import Adapter, FoundFile, Identity, JsonObject, SessionFacts
from helix_assets.agents.testing import (
    CHECKS,
    a_head_names_its_session_however_short,
    a_line_names_itself_the_same_each_time,
    a_parser_goes_on_from_what_was_spent,
    every_kind_of_file_is_found_and_declared,
    known_lines_give_sound_events,
    odd_input_is_survived,
    reading_goes_on_from_any_state,
    results_follow_their_calls,
)
from helix_assets.agents.walk import entries
from helix_assets.model.agent import AgentSpec
from helix_assets.model.errors import Problem
from helix_assets.model.event import EventKind, Record, SessionEvent, shorten
from helix_assets_tests.agents.reading import FIXTURES
from helix_assets_tests.agents.twins import Told, TwinAdapter, TwinSplitter, both

Check = Callable[[Adapter, Sequence[Path]], None]


def homes_of(agent: str) -> list[Path]:
    return sorted(case for case in (FIXTURES / agent).iterdir() if case.is_dir())


@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_every_agent_keeps_the_contract(check: Check, agent: str) -> None:
    check(ADAPTERS[agent], homes_of(agent))


@pytest.fixture
def homes_of_all_kinds(tmp_path: Path) -> list[Path]:
    """Sample homes of the test agent that has each kind of source."""
    homes = []
    for kind in ("lines", "units", "database", "text"):
        told = Told(tmp_path / kind, kind)
        told.say(both(2))
        told.memory.close()
        homes.append(told.folder)
    (homes[0] / "hidden.enc").write_bytes(b"\0\1")
    return homes


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_sources_of_every_kind_are_held_to_the_contract(check: Check, homes_of_all_kinds: list[Path]) -> None:
    check(TwinAdapter(), homes_of_all_kinds)


@pytest.mark.parametrize("name", ["units", "rows", "sessions", "splitter", "queries"])
def test_a_fault_in_what_a_kind_adds_is_seen(
    name: str, homes_of_all_kinds: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = {} if name == "queries" else lambda *_: {}[name]
    monkeypatch.setattr(TwinAdapter, name, fault)
    with pytest.raises((AssertionError, KeyError)):
        known_lines_give_sound_events(TwinAdapter(), homes_of_all_kinds)


def test_a_splitter_that_loses_its_state_is_seen(
    homes_of_all_kinds: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TwinSplitter, "state", lambda self: {"session": "", "cwd": None})
    with pytest.raises(AssertionError, match="when continued"):
        known_lines_give_sound_events(TwinAdapter(), homes_of_all_kinds)


# -- the suite itself: a sound adapter passes, and each fault is seen by the check that is for it ----------------------


class Toy:
    """One JSON object a line: `who` says `what` at `at`. Each line counts how many came before it."""

    flavor, version, shares_history = "toy", 1, False
    spec = AgentSpec(flavor="toy", file_kinds=(("*.toy", "main"),))

    def discover(self, root: str, problems: list[Problem]) -> Iterator[FoundFile]:
        for entry in entries(root, problems):
            if entry.name.endswith(".toy") and (file := entry.file("main", None)):
                yield file

    def native_id_from_head(self, path: str, head: bytes) -> str:
        return os.path.basename(path)

    def cwd_from_head(self, path: str, head: bytes) -> str | None:
        return None

    def identify(self, obj: JsonObject) -> Identity:
        return Identity(as_name(obj.get("id")), None, timestamp_us(obj.get("at")), as_text(obj.get("who")))

    def parser(self, role: str, facts: SessionFacts, hash64: object, state: JsonObject | None = None) -> ToyParser:
        return ToyParser(as_count((state or {}).get("seen")) or 0)


class ToyParser:
    def __init__(self, seen: int) -> None:
        self.seen = seen

    def state(self) -> JsonObject | None:
        return {"seen": self.seen}

    def finish(self) -> list[SessionEvent]:
        return []

    def feed(self, obj: JsonObject, record: Record) -> list[SessionEvent]:
        self.seen += 1
        kind = {"me": EventKind.USER_MSG, "call": EventKind.TOOL_CALL, "end": EventKind.TOOL_RESULT}
        said = shorten(as_text(obj.get("what")))
        call_id = "c1" if record.native_type in ("call", "end") else None
        return [SessionEvent(kind.get(record.native_type), summary=said, call_id=call_id, size=self.seen)]


class FindsUndeclared(Toy):
    spec = AgentSpec(flavor="toy", file_kinds=(("*.toy", "other"),))


class NamesAtRandom(Toy):
    def identify(self, obj: JsonObject) -> Identity:
        return super().identify(obj)._replace(native_id=f"{random()}")


class NamesByTheLastLine(Toy):
    def native_id_from_head(self, path: str, head: bytes) -> str:
        return head.strip().rpartition(b"\n")[2].decode(errors="replace") or path


class TripsOverHeads(Toy):
    def cwd_from_head(self, path: str, head: bytes) -> str | None:
        return as_text(json.loads(head.partition(b"\n")[0]).get("cwd")) or None


class SaysNothing(Toy):
    def parser(self, *_: object, **__: object) -> ToyParser:
        return type("Mute", (ToyParser,), {"feed": lambda *_: []})(0)


class Forgets(Toy):
    def parser(self, *_: object, **__: object) -> ToyParser:
        return ToyParser(0)


class NeedsItsOwnState(Toy):
    def parser(self, role: str, facts: SessionFacts, hash64: object, state: JsonObject | None = None) -> ToyParser:
        return ToyParser(state["seen"] if state else 0)


class AnswersFirst(Toy):
    def identify(self, obj: JsonObject) -> Identity:
        known = super().identify(obj)
        return known._replace(native_type={"call": "end", "end": "call"}.get(known.native_type, known.native_type))


class TrustsItsLog(Toy):
    def identify(self, obj: JsonObject) -> Identity:
        return super().identify(obj)._replace(native_type=obj["who"])


TOY_LINES = (
    b'{"id":"1","who":"me","what":"roll","at":"2026-06-05T10:00:00Z"}\n'
    b'{"id":"2","who":"call","what":"push","at":"2026-06-05T10:00:01Z"}\n'
    b'{"id":"3","who":"end","what":"it rolls","at":"2026-06-05T10:00:02Z"}\n'
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "s1.toy").write_bytes(TOY_LINES)
    return tmp_path


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_an_adapter_from_outside_can_be_checked(check: Check, home: Path) -> None:
    check(Toy(), [home])


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (FindsUndeclared, every_kind_of_file_is_found_and_declared),
        (NamesAtRandom, a_line_names_itself_the_same_each_time),
        (NamesByTheLastLine, a_head_names_its_session_however_short),
        (TripsOverHeads, a_head_names_its_session_however_short),
        (SaysNothing, known_lines_give_sound_events),
        (Forgets, reading_goes_on_from_any_state),
        (NeedsItsOwnState, a_parser_goes_on_from_what_was_spent),
        (AnswersFirst, results_follow_their_calls),
        (TrustsItsLog, odd_input_is_survived),
    ],
)
def test_a_fault_is_seen(broken: type[Toy], check: Check, home: Path) -> None:
    with pytest.raises((AssertionError, ValueError, KeyError)):
        check(broken(), [home])


def test_every_check_has_a_fault_that_it_sees() -> None:
    (marks,) = test_a_fault_is_seen.pytestmark
    assert {check for _, check in marks.args[1]} == set(CHECKS)
