"""An agent that another package brings along: found by its entry point, swept like any other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from helix_assets.agents import ADAPTERS, AGENTS, GROUP, SPECS, Adapters, outside, spec_of, vocabulary_of
from helix_assets.derive.places import repo_of
from helix_assets.model.agent import AgentSpec, Tools, Worktrees
from helix_assets.model.errors import SettingsError
from helix_assets.prove.verify import verify
from helix_assets.settings import load_settings
from helix_assets_tests.home import Memory

TOY = """
from helix_assets.adapters.base import FoundFile, Identity
from helix_assets.adapters.jsonl import timestamp_us
from helix_assets.adapters.walk import entries
from helix_assets.core.schema import EventKind, SessionEvent, Usage


class ToyAdapter:
    flavor = "toy"
    version = 1
    shares_history = False

    def discover(self, root, problems):
        for entry in entries(root, problems):
            if entry.name.endswith(".toy"):
                yield entry.file("main", entry.name[:-4])

    def native_id_from_head(self, path, head):
        raise AssertionError("the name tells it")

    def cwd_from_head(self, path, head):
        return None

    def identify(self, obj):
        return Identity(None, None, timestamp_us(obj.get("at")), str(obj.get("who")))

    def parser(self, role, facts, hash64, state=None):
        facts.cwd = "/home/u/toys"
        return ToyParser()


class ToyParser:
    def state(self):
        return {}

    def finish(self):
        return []

    def feed(self, obj, record):
        if obj["who"] == "me":
            return [SessionEvent(EventKind.USER_MSG, "user", summary=obj["says"])]
        return [SessionEvent(EventKind.ASSISTANT_MSG, "assistant", summary=obj["says"], usage=Usage(3, 7))]
"""
LINES = (
    b'{"who":"me","says":"roll the ball","at":"2026-06-05T10:00:00Z"}\n'
    b'{"who":"toy","says":"it rolls","at":"2026-06-05T10:00:05Z"}\n'
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Puts a package with an adapter where Python finds installed ones; it is forgotten afterwards."""
    site = tmp_path / "site"
    about = site / "toy_agent-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-agent\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        f"[{GROUP}]\ntoy = toy_agent:ToyAdapter\nbroken = toy_agent:Missing\nother = toy_agent:ToyAdapter\n"
    )
    (site / "toy_agent.py").write_text(TOY)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr(ADAPTERS, "_known", dict(ADAPTERS._known))
    monkeypatch.delitem(sys.modules, "toy_agent", raising=False)


def toys(folder: Path, agent: str = "toy") -> Memory:
    memory = Memory(folder, {"HELIX_OTHER_ROOTS": f'{{{agent} = "{folder}/home/toys"}}'})
    memory.put("toys/s1.toy", LINES)
    return memory


@pytest.mark.usefixtures("installed")
def test_toy_agent_of_another_package_is_swept(tmp_path: Path):
    memory = toys(tmp_path)
    assert memory.sweep().problems == []
    digest = memory.digest("toy:s1")
    assert (digest["repo"], digest["user_prompts"], digest["tokens"]["output"]) == ("toys", 1, 7)
    memory.put("toys/s1.toy", LINES, append=True)
    assert (memory.sweep().lines_read, memory.digest("toy:s1")["user_prompts"]) == (2, 2)
    assert not verify(memory.store)
    memory.close()


@pytest.mark.parametrize(
    ("before", "now"),
    [
        ("adapters.base", "agents.spec"),
        ("adapters.jsonl", "agents.jsonl"),
        ("adapters.loose", "agents.loose"),
        ("adapters.walk", "agents.walk"),
        ("core.errors", "model.errors"),
        ("core.moments", "model.time"),
        ("core.schema", "model.event"),
    ],
)
def test_names_that_such_a_package_was_written_against_are_the_modules_of_now(before: str, now: str) -> None:
    package, _, name = before.partition(".")
    source = f"""
import helix_assets.{before} as first
from helix_assets.{package} import {name} as second
import helix_assets.{now} as now
assert first is second is now
"""
    subprocess.run([sys.executable, "-c", source], check=True)


@pytest.mark.usefixtures("installed")
def test_adapter_without_a_spec_has_the_defaults_of_one(tmp_path: Path):
    assert spec_of("toy") == AgentSpec(flavor="toy", title="toy")
    assert spec_of("nobody") == AgentSpec(flavor="nobody", title="nobody")
    assert vocabulary_of("toy").edits == vocabulary_of("claude").edits


@pytest.mark.usefixtures("installed")
def test_spec_from_outside_is_in_force(tmp_path: Path):
    memory = toys(tmp_path)
    tools, moved = Tools(edit=("Poke",)), Worktrees(suffix=("toy",))
    ADAPTERS["toy"].spec = AgentSpec(flavor="toy", tools=tools, worktrees=moved, cleanup_days=9)
    assert "Poke" in vocabulary_of("toy").edits
    assert "Poke" not in vocabulary_of("claude").edits
    assert memory.store.settings.sources.cleanup_days_of("toy") == 9
    assert repo_of("/home/u/shop-toy-worktrees/fix", memory.store.settings.places) == "shop"
    memory.close()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("agent", "reason"),
    [
        ("nobody", "no installed package has an adapter for 'nobody'"),
        ("broken", "the adapter toy_agent:Missing cannot be loaded: AttributeError"),
        ("other", "the adapter toy_agent:ToyAdapter is for 'toy', not for 'other'"),
    ],
)
def test_agent_without_a_working_adapter_is_named_and_stops_no_other(tmp_path: Path, agent: str, reason: str):
    memory = toys(tmp_path, agent)
    memory.write("s1", b'{"type":"user","message":{"content":"hi"},"timestamp":"2026-06-05T10:00:00Z"}\n')
    ((_, said),) = memory.sweep().problems
    assert said == f"folder cannot be read: {reason}"
    assert memory.digest("claude:s1")["user_prompts"] == 1
    memory.close()


@pytest.mark.usefixtures("installed")
def test_agents_from_outside_are_listed_without_being_imported():
    assert outside() == ["broken", "other", "toy"]
    assert "toy_agent" not in sys.modules


def test_agents_of_our_own_ask_for_no_installed_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("importlib.metadata.entry_points", lambda **_: pytest.fail("asked"))
    agents = Adapters(SPECS[0])
    assert (agents["claude"].flavor, list(agents), len(agents)) == ("claude", ["claude"], 1)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("HELIX_AGENTS", "claude,cluade", f"agents 'cluade' is not one of {', '.join(AGENTS)}"),
        ("HELIX_EXCLUDE_AGENTS", "toy", f"agents 'toy' is not one of {', '.join(AGENTS)}"),
        ("HELIX_OTHER_ROOTS", '{claude = "/x"}', "other_roots 'claude' is built in: use claude_roots"),
        ("HELIX_OTHER_ROOTS", '{"../x" = "/x"}', "'../x' is not a name of an agent"),
        ("HELIX_OTHER_ROOTS", '{toy = "x"}', "'x' is not an absolute path"),
    ],
)
def test_names_that_can_mean_no_agent_are_refused(tmp_path: Path, name: str, value: str, reason: str):
    with pytest.raises(SettingsError) as refusal:
        load_settings({"HOME": str(tmp_path), name: value})
    assert reason in str(refusal.value)
