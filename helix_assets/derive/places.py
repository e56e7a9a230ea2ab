"""Which repository, domain and task a session belongs to, told from its text alone.

Belongs here: the rules. The person's own map (helix.toml) comes first and wins. Not here: the disk
(`agents.repositories`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

# Where tools put worktrees. In the first two the repository's name stands behind, in the last before.
_BY_CODEX = re.compile(r"/\.codex/worktrees/[^/]+/([^/]+)")
_BY_CURSOR = re.compile(r"/\.cursor/worktrees/([^/]+)")
_INSIDE = re.compile(r"/([^/]+)/(?:\.claude/worktrees|\.?worktrees)(?:/|$)")
_BESIDE = re.compile(r"/(?!(?:grok|claude|codex|cursor|git)[-.])([^/]+?)[-.](?:grok-)?worktrees?/[^/]")


@dataclass(frozen=True)
class PlaceRules:
    """The person's map: `paths` names the repository of a path prefix or glob, `domains` the domain of a repository."""

    paths: Mapping[str, str] = field(default_factory=dict)
    domains: Mapping[str, str] = field(default_factory=dict)
    task_patterns: tuple[str, ...] = ()


def repo_of(cwd: str | None, rules: PlaceRules, root: str | None = None) -> str | None:
    """The repository of a working folder: the map's word, else the name of `root`, else what the path tells.

    `root` is the top folder of the repository, or of the main one of a worktree, as far as it is known.
    """
    if not cwd:
        return None
    for pattern, repo in sorted(rules.paths.items(), key=lambda item: -len(item[0])):
        prefix = pattern.rstrip("/")
        for folder in (cwd, root) if root else (cwd,):
            if folder == prefix or folder.startswith(prefix + "/") or fnmatchcase(folder, pattern):
                return repo
    path = "/" + cwd.replace("\\", "/").strip("/")
    for worktree in (_BY_CODEX, _BY_CURSOR, _INSIDE, _BESIDE) if root is None else ():
        if match := worktree.search(path):
            return match.group(1)
    name = (root or path).rstrip("/").rpartition("/")[2]
    return name.removesuffix(".git") or None


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
