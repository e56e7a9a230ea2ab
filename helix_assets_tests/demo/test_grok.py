"""The content of a sample Grok home agrees with its truth, counted again from the files."""

import json
from collections import Counter
from pathlib import Path

import pytest

from helix_assets.demo import SessionTruth, Truth, make_home
from helix_assets_tests.demo.recount import grok_tokens, grok_updates, records


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """A Grok home large enough to hold every kind of mishap."""
    home = tmp_path_factory.mktemp("grok") / "home"
    return home, make_home(home, seed=6, megabytes=6, agents=["grok"])


def _sessions(made: tuple[Path, Truth]) -> list[tuple[Path, SessionTruth]]:
    home, truth = made
    folders = sorted(path.parent for path in home.glob("grok/sessions/*/*/summary.json"))
    return [(folder, truth.sessions[f"grok:{folder.name}"]) for folder in folders]


def test_tokens_of_each_prompts_usage_agree(made: tuple[Path, Truth]) -> None:
    assert all(grok_tokens(folder) == +planted.main for folder, planted in _sessions(made))


def test_some_turns_are_reported_twice(made: tuple[Path, Truth]) -> None:
    ends = [[end["prompt_id"] for end in grok_updates(folder, "turn_completed")] for folder, _ in _sessions(made)]
    assert any(len(set(prompts)) < len(prompts) for prompts in ends)


def test_tools_errors_and_refusals_agree_with_the_events(made: tuple[Path, Truth]) -> None:
    for folder, planted in _sessions(made):
        ended = [row for row in records(folder / "events.jsonl") if row["type"] == "tool_completed"]
        outcomes = Counter(row["outcome"] for row in ended)
        assert Counter(row["tool_name"] for row in ended) == planted.tools
        assert outcomes["error"] + outcomes["permission_rejected"] == planted.tally["tool_errors"]
        assert outcomes["permission_rejected"] == planted.tally["tool_denied"]


def test_summary_names_the_session(made: tuple[Path, Truth]) -> None:
    for folder, planted in _sessions(made):
        summary = json.loads((folder / "summary.json").read_text())
        assert (summary["info"]["id"], summary["info"]["cwd"]) == (folder.name, planted.cwd)


@pytest.mark.parametrize("mishap", ["interrupts", "tool_errors", "tool_denied", "tool_cancelled"])
def test_each_kind_of_mishap_occurs(made: tuple[Path, Truth], mishap: str) -> None:
    assert sum(planted.tally[mishap] for _, planted in _sessions(made)) > 0
