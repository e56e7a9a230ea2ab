"""The infrastructure bucket: MCP and plumbing tools, as a share of all calls."""

import pytest

from helix_assets.agents import PLUMBING
from helix_assets.derive.overhead import infra_overhead_share, is_infra


@pytest.mark.parametrize("tool", ["mcp__github__search", "files__read_file", "TodoWrite", "update_plan", "BashOutput"])
def test_mcp_and_plumbing_are_in_the_bucket(tool: str) -> None:
    assert is_infra(tool, PLUMBING)


@pytest.mark.parametrize("tool", ["Bash", "Edit", "Read", "Task", "Agent", "shell", "apply_patch", "WebFetch"])
def test_work_is_not(tool: str) -> None:
    assert not is_infra(tool, PLUMBING)


def test_share_is_of_calls() -> None:
    assert infra_overhead_share({"Bash": 6, "mcp__a__b": 2, "TodoWrite": 1}, PLUMBING) == 0.333


def test_without_calls_there_is_no_overhead() -> None:
    assert infra_overhead_share({}, PLUMBING) == 0.0


def test_a_persons_own_list_takes_the_place_of_ours() -> None:
    assert infra_overhead_share({"Bash": 1, "TodoWrite": 1, "deploy": 2}, ("deploy",)) == 0.5
