"""Which repository, domain and task a session belongs to, from texts alone.

Belongs here: the rules. The user's own map (helix.toml) wins. Not here: the disk (`agents.repositories`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from helix_assets.model.agent import AgentSpec

# Worktrees of other tools than agents: the repository's name is after these folders; these names are not repositories.
_BEHIND = (r"/\.cursor/worktrees/([^/]+)",)
_NO_REPOSITORIES = ("cursor", "git")


@dataclass(frozen=True)
class PlaceRules:
    """The user's map: `paths` names the repository of a path prefix or glob, `domains` the domain of a repository.

    `worktrees` are the agents' patterns for paths, in order; group 1 is the repository.
    """

    paths: Mapping[str, str] = field(default_factory=dict)
    domains: Mapping[str, str] = field(default_factory=dict)
    task_patterns: tuple[str, ...] = ()
    worktrees: tuple[re.Pattern[str], ...] = ()


class Place(NamedTuple):
    """What a session belongs to. The fields are named as in digests."""

    repo: str | None
    domain: str | None
    task_ref: str | None


def place_of(rules: PlaceRules, cwd: str | None, root: str | None, *texts: str | None) -> Place:
    """The place of a session that ran in `cwd`, and has this branch, title and first prompt."""
    repo = repo_of(cwd, rules, root)
    return Place(repo, domain_of(repo, rules), task_of(rules, *texts))


def worktree_patterns(specs: Sequence[AgentSpec]) -> tuple[re.Pattern[str], ...]:
    """Patterns that find the repository's name in the path of a worktree: after, around or before its folder."""
    behind = [pattern for spec in specs for pattern in spec.worktrees.behind]
    inside = _any_of(folder for spec in specs for folder in spec.worktrees.inside)
    names = _any_of([*(spec.flavor for spec in specs), *_NO_REPOSITORIES])
    suffix = _any_of(word for spec in specs for word in spec.worktrees.suffix)
    around = rf"/([^/]+)/(?:{inside}|\.?worktrees)(?:/|$)"
    before = rf"/(?!{names}[-.])([^/]+?)[-.](?:{suffix}-)?worktrees?/[^/]"
    return tuple(map(re.compile, (*behind, *_BEHIND, around, before)))


def _any_of(words: Iterable[str]) -> str:
    """A pattern for any of these texts. Without texts it matches nothing."""
    return f"(?:{'|'.join(map(re.escape, words)) or '(?!)'})"


def repo_of(cwd: str | None, rules: PlaceRules, root: str | None = None) -> str | None:
    """The repository of a working folder: from the map, else the name of `root`, else from the path.

    `root` is the top folder of the repository, for a worktree that of the main one, if it is known.
    """
    if not cwd:
        return None
    for pattern, repo in sorted(rules.paths.items(), key=lambda item: -len(item[0])):
        prefix = pattern.rstrip("/")
        for folder in (cwd, root) if root else (cwd,):
            if folder == prefix or folder.startswith(prefix + "/") or fnmatchcase(folder, pattern):
                return repo
    path = "/" + cwd.replace("\\", "/").strip("/")
    for worktree in rules.worktrees if root is None else ():
        if match := worktree.search(path):
            return match.group(1)
    name = (root or path).rstrip("/").rpartition("/")[2]
    return name.removesuffix(".git") or None


def domain_of(repo: str | None, rules: PlaceRules) -> str | None:
    """The repository's domain in the map."""
    return rules.domains.get(repo) if repo else None


def task_of(rules: PlaceRules, *texts: str | None) -> str | None:
    """The first task reference in branch, title and first prompt, in that order."""
    for text in texts:
        for pattern in rules.task_patterns if text else ():
            if match := re.search(pattern, text or ""):
                return match.group(match.lastindex or 0)
    return None
