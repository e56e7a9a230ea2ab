"""What the names and phrases in a log mean, collected from the agents' specs.

Belongs here: the tables that the other modules of this room use. Not here: the names themselves (`agents/*/spec.py`),
or those of programs in a shell (`commands`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import fields
from itertools import chain

from helix_assets.model.agent import AgentSpec, Tools

# What a tool does to a file, in the facts' words, by its field of `Tools`.
_OPERATIONS = {"read": "read", "write": "write", "edit": "edit", "delete": "delete", "list": "glob", "search": "grep"}
_KNOWN = tuple(field.name for field in fields(Tools) if field.name != "plumbing")


class Vocabulary:
    """Tables by meaning. `shared` are names of tools that belong to no single agent.

    A shared name says what a call does to a file. Only the names of the agents' own tools, compared with upper and
    lower case, say whether a call counts as an edit or only looks.
    """

    def __init__(self, specs: Sequence[AgentSpec], shared: Tools) -> None:
        own = [spec.tools for spec in specs]
        self.edits = frozenset(_names(own, "edit", "write"))
        self.looks = frozenset(_names(own, "read", "list", "search"))
        self.plans = frozenset(_names(own, "plan"))
        self.approvals = frozenset(_names(own, "approve"))
        self.asks = self.approvals | frozenset(_names(own, "ask"))
        every = [*own, shared]
        self.operations = {
            name.lower(): operation for meaning, operation in _OPERATIONS.items() for name in _names(every, meaning)
        }
        self._known = frozenset(name.lower() for name in _names(every, *_KNOWN))
        self.windows = tuple(chain.from_iterable(spec.windows for spec in specs))
        self.refusals = tuple(chain.from_iterable(spec.refusals for spec in specs))
        self._own_prompts = [re.compile(pattern, re.I) for spec in specs for pattern in spec.own_prompts]

    def known_tool(self, name: str | None) -> str:
        """The tool's name if it is in a table, else "(MCP)" or "(other)"."""
        lowered = (name or "").lower()
        if lowered in self._known:
            return name or ""
        return "(MCP)" if lowered.startswith("mcp__") else "(other)"

    def is_own_prompt(self, text: str) -> bool:
        """Whether an agent wrote a prompt itself."""
        return any(pattern.search(text) for pattern in self._own_prompts)


def _names(tools: Iterable[Tools], *meanings: str) -> Iterable[str]:
    return (name for one in tools for meaning in meanings for name in getattr(one, meaning))
