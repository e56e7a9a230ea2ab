"""What names mean: taken from the agents' specs, and for every agent that is built in the same."""

from __future__ import annotations

import pytest

from helix_assets.agents import AGENTS, SPECS, vocabulary_of
from helix_assets.agents.shared import SHARED_TOOLS
from helix_assets.derive.vocabulary import Vocabulary
from helix_assets.model.agent import AgentSpec, Tools

OWN = AgentSpec(
    flavor="toy",
    tools=Tools(edit=("Poke",), search=("Seek",), plan=("List",), ask=("Ask",), approve=("May I",), shell=("Sh",)),
    windows=(("toy-", 1000),),
    refusals=("Toy may not",),
    own_prompts=(r"\Ato the toy's grader\b",),
)
TOY = Vocabulary([OWN], Tools(read=("peek",)))


def test_tools_are_known_by_what_their_spec_says() -> None:
    assert (TOY.edits, TOY.looks, TOY.plans) == ({"Poke"}, {"Seek"}, {"List"})
    assert (TOY.approvals, TOY.asks) == ({"May I"}, {"Ask", "May I"})
    assert TOY.operations == {"poke": "edit", "seek": "grep", "peek": "read"}


def test_shared_name_tells_the_operation_but_is_no_agents_edit() -> None:
    shared = Vocabulary([], SHARED_TOOLS)
    assert (shared.operations["create_file"], shared.edits, shared.looks) == ("write", frozenset(), frozenset())


@pytest.mark.parametrize(
    ("name", "known"),
    [("Sh", "Sh"), ("PEEK", "PEEK"), ("mcp__x__y", "(MCP)"), ("my secret", "(other)"), (None, "(other)")],
)
def test_only_names_of_the_specs_are_shown(name: str | None, known: str) -> None:
    assert TOY.known_tool(name) == known


def test_prompts_of_the_agents_own_are_told_from_a_persons() -> None:
    assert TOY.is_own_prompt("To the toy's grader: rate this")
    assert not TOY.is_own_prompt("rate this")


def test_a_tools_name_has_one_meaning_whoever_calls_it() -> None:
    assert len({id(vocabulary_of(agent)) for agent in AGENTS}) == 1
    found: dict[str, str] = {}
    for tools in (SHARED_TOOLS, *(spec.tools for spec in SPECS)):
        for meaning in ("edit", "write", "delete", "read", "list", "search"):
            for name in getattr(tools, meaning):
                assert found.setdefault(name.lower(), meaning) == meaning
