"""What an agent is, as data: where its logs lie, what its tools are called, how its hooks are written.

Belongs here: the shape alone. The values are in `agents/<name>/spec.py`, one file for each agent. Its adapter reads
its lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Tools:
    """Names of tools by what they do, as the logs write them.

    `edit` and `write` change a file, `ask` and `approve` wait for the person, `other` do none of this.
    `plumbing` are globs over names: what the agent does for itself rather than for the task (docs/kaizen.md).
    """

    edit: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    delete: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    list: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    shell: tuple[str, ...] = ()
    web: tuple[str, ...] = ()
    subagent: tuple[str, ...] = ()
    plan: tuple[str, ...] = ()
    ask: tuple[str, ...] = ()
    approve: tuple[str, ...] = ()
    other: tuple[str, ...] = ()
    plumbing: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Worktrees:
    """Where an agent puts worktrees of a repository.

    `behind`: regular expressions for paths whose group 1 is the repository. `inside`: a folder of the repository.
    `suffix`: what stands between the repository's name and `-worktrees`.
    """

    behind: tuple[str, ...] = ()
    inside: tuple[str, ...] = ()
    suffix: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HookRecipe:
    """How to add a hook: `file` lies in the agent's folder.

    Style "events": JSON, `hooks` has a list of commands for each event. Style "notify": TOML, `notify` is the one
    command. `is_ours`: the file holds only hooks of helix_assets and is deleted with them.
    """

    file: str
    style: Literal["events", "notify"]
    is_ours: bool = False


@dataclass(frozen=True, kw_only=True)
class AgentSpec:
    """All that is known of an agent except how to read its lines. Only the name has no default.

    - `flavor` is its name in the store, the settings and on the command line, `title` the one that people know.
    - `adapter` and `pieces` say `module:name` and are imported when they are needed. `pieces` is for an agent that
      writes messages in pieces, which are redacted together (`model.event.Pieces`).
    - `roots` are the usual folders; `~` and `$XDG_CONFIG_HOME` are filled in. `variable` replaces them all: the
      agent's own, or `<NAME>_HOME` for one that has none, so that tests and the demo can point elsewhere.
    - `file_kinds`: a pattern for the name of each kind of file, the most special first, and its role (`agents.spec`).
    - `cleanup_days`: after how many days without writing the agent deletes a log.
    - `price_family`: whether a usage figure is of one request or of a whole turn. The price of some models depends on
      the size of a request, which the sum of a turn does not show.
    - `windows`: tokens that fit into the context window, by how the model's name begins.
    - `refusals`: how the result of a call begins if the permission was not given.
    - `own_prompts`: regular expressions for prompts that the agent writes itself.
    """

    flavor: str
    title: str = ""
    adapter: str = ""
    pieces: str = ""
    roots: tuple[str, ...] = ()
    variable: str = ""
    variable_is_list: bool = False
    file_kinds: tuple[tuple[str, str], ...] = ()
    tools: Tools = field(default_factory=Tools)
    hook: HookRecipe | None = None
    cleanup_days: int | None = None
    price_family: Literal["request", "turn"] = "request"
    windows: tuple[tuple[str, int], ...] = ()
    refusals: tuple[str, ...] = ()
    own_prompts: tuple[str, ...] = ()
    worktrees: Worktrees = field(default_factory=Worktrees)

    def role_of(self, name: str) -> str | None:
        """The role of a file by its name, None for one that is not read."""
        return next((role for pattern, role in self.file_kinds if fnmatchcase(name, pattern)), None)
