"""The one visible list of agents. A new agent is one module here and one line below.

An agent may also live in a package of its own, which names its adapter in the entry point group `helix_assets.adapters`
and is read once helix.toml gives it a folder: `[sources] other_roots = {name = "~/.name"}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from helix_assets.agents.claude import ClaudeAdapter
from helix_assets.agents.codex import CodexAdapter
from helix_assets.agents.grok import GrokAdapter
from helix_assets.agents.spec import Adapter
from helix_assets.model.event import Pieces

GROUP = "helix_assets.adapters"


class Adapters(Mapping[str, Adapter]):
    """Adapters by flavor: those built in, and those from outside that were asked for by name.

    Only a name that is not built in makes it look at installed packages, and only that one is imported.
    """

    def __init__(self, *built_in: Adapter) -> None:
        self._known = {adapter.flavor: adapter for adapter in built_in}

    def __getitem__(self, flavor: str) -> Adapter:
        if flavor not in self._known:
            self._known[flavor] = _from_outside(flavor)
        return self._known[flavor]

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._known))

    def __len__(self) -> int:
        return len(self._known)


def outside() -> list[str]:
    """Names of the agents that installed packages bring along; none of them is imported."""
    from importlib.metadata import entry_points  # reads the list of installed packages

    return sorted(point.name for point in entry_points(group=GROUP))


def _from_outside(flavor: str) -> Adapter:
    from importlib import import_module
    from importlib.metadata import entry_points  # reads the list of installed packages

    for point in entry_points(group=GROUP, name=flavor):
        import_module(GROUP)  # the names that such a package may have been written against
        try:
            adapter: Adapter = point.load()()
        except Exception as exc:  # another package's trouble is told, and stops no other agent
            raise KeyError(f"the adapter {point.value} cannot be loaded: {type(exc).__name__}") from exc
        if adapter.flavor != flavor:
            raise KeyError(f"the adapter {point.value} is for {adapter.flavor!r}, not for {flavor!r}")
        return adapter
    raise KeyError(f"no installed package has an adapter for {flavor!r}")


def all_pieces() -> list[Pieces]:
    """Those of all agents that write messages in pieces."""
    return [pieces for flavor in ADAPTERS if (pieces := pieces_of(flavor)) is not None]


def pieces_of(flavor: str) -> Pieces | None:
    """Which of an agent's records are pieces of messages; None for one that writes each message as one record."""
    return getattr(ADAPTERS[flavor], "pieces", None) if flavor in ADAPTERS else None


ADAPTERS = Adapters(ClaudeAdapter(), CodexAdapter(), GrokAdapter())
