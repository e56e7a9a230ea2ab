"""The content of a sample Codex home agrees with its truth, counted again from the rollouts."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from helix_assets.demo import SessionTruth, Truth, make_home
from helix_assets_tests.demo.recount import codex_payloads, codex_tokens


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    """A Codex home large enough to hold every kind of mishap."""
    home = tmp_path_factory.mktemp("codex") / "home"
    return home, make_home(home, seed=4, megabytes=6, agents=["codex"])


def _rollouts(made: tuple[Path, Truth]) -> list[tuple[Path, SessionTruth]]:
    home, truth = made
    paths = sorted(home.glob("codex/sessions/*/*/*/rollout-*.jsonl"))
    return [(path, truth.sessions[f"codex:{path.stem[-36:]}"]) for path in paths]


def test_tokens_of_changed_totals_agree(made: tuple[Path, Truth]) -> None:
    assert all(codex_tokens(path) == +planted.main for path, planted in _rollouts(made))


def test_tools_agree(made: tuple[Path, Truth]) -> None:
    for path, planted in _rollouts(made):
        calls = codex_payloads(path, "function_call") + codex_payloads(path, "custom_tool_call")
        assert Counter(call["name"] for call in calls) == planted.tools


def test_prompts_are_the_user_messages_outside_child_threads(made: tuple[Path, Truth]) -> None:
    for path, planted in _rollouts(made):
        prompts = 0 if planted.parent_uid else len(codex_payloads(path, "user_message"))
        assert prompts == planted.tally["user_prompts"]


def test_some_token_counts_are_repeated_and_some_empty(made: tuple[Path, Truth]) -> None:
    counts = [codex_payloads(path, "token_count") for path, _ in _rollouts(made)]
    assert any(one["info"] is None for rollout in counts for one in rollout)
    assert any(one["info"] == two["info"] for rollout in counts for one, two in pairwise(rollout))


def test_child_threads_name_a_parent_that_exists(made: tuple[Path, Truth]) -> None:
    parents = {planted.parent_uid for _, planted in _rollouts(made)} - {None}
    assert parents
    assert parents <= made[1].sessions.keys()


@pytest.mark.parametrize("mishap", ["interrupts", "tool_errors", "tool_denied", "tool_cancelled", "compactions"])
def test_each_kind_of_mishap_occurs(made: tuple[Path, Truth], mishap: str) -> None:
    assert sum(planted.tally[mishap] for _, planted in _rollouts(made)) > 0
