"""Which repository, domain and task a session belongs to, told from its text alone; the disk is never asked.

Belongs here: the rules. The person's own map (helix.toml) comes first and wins.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

_WORKTREE_PARENTS = re.compile(
    r"[/\\](?:\.claude[/\\]worktrees|\.?worktrees|\.codex[/\\]worktrees|\.cursor[/\\]worktrees)(?:[/\\]|$)"
)
_WORKTREE_SIBLING = re.compile(r"^(.+?)[-.](?:grok-)?worktrees?$")
_SEPARATORS = re.compile(r"[/\\]+")


@dataclass(frozen=True)
class PlaceRules:
    """The person's map: `paths` names the repository of a path prefix or glob, `domains` the domain of a repository."""

    paths: Mapping[str, str] = field(default_factory=dict)
    domains: Mapping[str, str] = field(default_factory=dict)
    task_patterns: tuple[str, ...] = ()


def repo_of(cwd: str | None, rules: PlaceRules) -> str | None:
    """The repository of a working folder: the map's word, else the folder's name; a worktree counts as its repository."""
    if not cwd:
        return None
    for pattern, repo in sorted(rules.paths.items(), key=lambda item: -len(item[0])):
        prefix = pattern.rstrip("/")
        if cwd == prefix or cwd.startswith(prefix + "/") or fnmatchcase(cwd, pattern):
            return repo
    worktree = _WORKTREE_PARENTS.search(cwd)
    if worktree and worktree.start() > 0:
        cwd = cwd[: worktree.start()]
    parts = [part for part in _SEPARATORS.split(cwd) if part]
    if not parts:
        return None
    if len(parts) > 1 and (sibling := _WORKTREE_SIBLING.match(parts[-2])):
        return sibling.group(1)
    return parts[-1]


def domain_of(repo: str | None, rules: PlaceRules) -> str | None:
    """The repository's domain as the map says."""
    return rules.domains.get(repo) if repo else None


def task_of(rules: PlaceRules, *texts: str | None) -> str | None:
    """The first task reference in branch, title and first prompt, in that order."""
    for text in texts:
        for pattern in rules.task_patterns if text else ():
            if match := re.search(pattern, text or ""):
                return match.group(match.lastindex or 0)
    return None
