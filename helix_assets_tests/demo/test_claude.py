"""The content of a sample Claude home agrees with its truth, counted again from the files."""

from collections import Counter
from pathlib import Path

import pytest

from helix_assets.demo import Truth, make_home
from helix_assets_tests.demo.recount import claude_output_tokens, claude_tools, records


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """A Claude home large enough to hold every kind of mishap."""
    home = tmp_path_factory.mktemp("claude") / "home"
    return home, make_home(home, seed=2, megabytes=12, agents=["claude"])


def _all(home: Path) -> list[dict[str, object]]:
    return [record for path in sorted(home.rglob("projects/*/**/*.jsonl")) for record in records(path)]


def test_output_tokens_are_those_of_each_messages_last_line(made: tuple[Path, Truth]) -> None:
    planted = sum(session.as_row()["tokens"]["output"] for session in made[1].sessions.values())
    assert claude_output_tokens(made[0]) == planted


def test_tools_agree(made: tuple[Path, Truth]) -> None:
    planted: Counter[str] = sum((session.tools for session in made[1].sessions.values()), Counter())
    assert claude_tools(made[0]) == planted


def test_records_agree_with_copies_counted_once(made: tuple[Path, Truth]) -> None:
    found = _all(made[0])
    native = [record["uuid"] for record in found if "uuid" in record]
    planted = sum(session.tally["records"] for session in made[1].sessions.values())
    assert len(found) - len(native) + len(set(native)) == planted
    assert len(set(native)) < len(native)


def test_all_layouts_of_subagents_occur(made: tuple[Path, Truth]) -> None:
    projects = made[0] / "claude" / "projects"
    inline = [record for path in projects.glob("*/*-*-*-*-*.jsonl") for record in records(path)]
    assert any(record.get("isSidechain") for record in inline)
    assert list(projects.glob("*/agent-*.jsonl"))
    assert list(projects.glob("*/*/subagents/agent-*.jsonl"))


def test_streamed_messages_grow_over_their_lines(made: tuple[Path, Truth]) -> None:
    outputs: dict[str, list[int]] = {}
    for record in _all(made[0]):
        if isinstance(message := record.get("message"), dict) and record["type"] == "assistant":
            outputs.setdefault(message["id"], []).append(message["usage"]["output_tokens"])
    assert all(max(seen) == seen[-1] for seen in outputs.values())
    assert any(seen[0] < seen[-1] for seen in outputs.values())


@pytest.mark.parametrize(
    "mishap",
    ["interrupts", "tool_errors", "tool_denied", "tool_cancelled", "compactions", "test_runs_failed", "commits"],
)
def test_each_kind_of_mishap_occurs(made: tuple[Path, Truth], mishap: str) -> None:
    assert sum(session.tally[mishap] for session in made[1].sessions.values()) > 0
