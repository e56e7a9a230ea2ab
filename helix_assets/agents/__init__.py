"""The list of agents. A new agent is one folder here and one line below.

`SPEC` in `<name>/spec.py` describes the agent. Its adapter is imported only when its logs are read, because the
settings import this package.

An agent may also come from another package, which names its adapter in the entry point group `helix_assets.adapters`.
It is read if helix.toml gives it a folder: `[sources] other_roots = {name = "~/.name"}`. Its adapter may have an
`AgentSpec` as its `spec`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from helix_assets.agents.shared import SHARED_TOOLS
from helix_assets.derive.places import worktree_patterns
from helix_assets.derive.vocabulary import Vocabulary
from helix_assets.model.agent import AgentSpec

if TYPE_CHECKING:
    from re import Pattern

    from helix_assets.agents.spec import Adapter
    from helix_assets.model.event import Pieces

AGENTS = (
    "claude",
    "codex",
    "grok",
)
SPECS: tuple[AgentSpec, ...] = tuple(import_module(f"{__name__}.{agent}.spec").SPEC for agent in AGENTS)
PLUMBING = tuple(dict.fromkeys(glob for tools in (SHARED_TOOLS, *(s.tools for s in SPECS)) for glob in tools.plumbing))
"""Globs over the names of tools that agents call for themselves rather than for the task."""
GROUP = "helix_assets.adapters"


class Adapters(Mapping[str, "Adapter"]):
    """Adapters by flavor: built-in ones, and those of other packages that were asked for by name.

    Each is imported when it is asked for. Installed packages are searched only for a name that is not built in.
    """

    def __init__(self, *built_in: AgentSpec) -> None:
        self._built_in = {spec.flavor: spec for spec in built_in}
        self._known: dict[str, Adapter] = {}

    def __getitem__(self, flavor: str) -> Adapter:
        if flavor not in self._known:
            spec = self._built_in.get(flavor)
            self._known[flavor] = _named(spec.adapter)() if spec else _from_outside(flavor)
        return self._known[flavor]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._built_in, *self._known]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _named(place: str) -> Any:
    """The object that `module:name` names."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def outside() -> list[str]:
    """Names of the agents that installed packages add; none is imported."""
    from importlib.metadata import entry_points  # reads the list of installed packages

    return sorted(point.name for point in entry_points(group=GROUP))


def _from_outside(flavor: str) -> Adapter:
    from importlib.metadata import entry_points  # reads the list of installed packages

    for point in entry_points(group=GROUP, name=flavor):
        try:
            adapter: Adapter = point.load()()
        except Exception as exc:  # an error of another package is reported, and stops no other agent
            raise KeyError(f"the adapter {point.value} cannot be loaded: {type(exc).__name__}") from exc
        if adapter.flavor != flavor:
            raise KeyError(f"the adapter {point.value} is for {adapter.flavor!r}, not for {flavor!r}")
        return adapter
    raise KeyError(f"no installed package has an adapter for {flavor!r}")


ADAPTERS = Adapters(*SPECS)
_BUILT_IN = {spec.flavor: spec for spec in SPECS}


def spec_of(flavor: str) -> AgentSpec:
    """An agent's spec; the defaults for one from another package without a spec, or that is not installed."""
    if spec := _BUILT_IN.get(flavor):
        return spec
    found = getattr(ADAPTERS.get(flavor), "spec", None)
    return found if isinstance(found, AgentSpec) else AgentSpec(flavor=flavor, title=flavor)


def pieces_of(flavor: str) -> Pieces | None:
    """Which of an agent's records are pieces of messages, None if it writes each message as one record."""
    spec = spec_of(flavor)
    if spec.pieces:
        found: Pieces = _named(spec.pieces)
        return found
    return None if flavor in _BUILT_IN else getattr(ADAPTERS.get(flavor), "pieces", None)


def vocabulary_of(flavor: str) -> Vocabulary:
    """What names mean in an agent's logs, including those of all built-in agents, whose tools it can call."""
    return _vocabulary(*_with(flavor))


def known_tool(name: str | None) -> str:
    """The tool's name if it is one of the agents' own, else the kind of tool, because a log may contain any name."""
    return _vocabulary(*SPECS).known_tool(name)


def worktrees_of(*flavors: str) -> tuple[Pattern[str], ...]:
    """Patterns for the worktrees of the built-in agents and of these."""
    return _worktrees(*_with(*flavors))


def _with(*flavors: str) -> tuple[AgentSpec, ...]:
    return (*SPECS, *(spec_of(flavor) for flavor in flavors if flavor not in _BUILT_IN))


@cache
def _vocabulary(*specs: AgentSpec) -> Vocabulary:
    return Vocabulary(specs, SHARED_TOOLS)


@cache
def _worktrees(*specs: AgentSpec) -> tuple[Pattern[str], ...]:
    return worktree_patterns(specs)
