"""Finding the agents' transcripts: every enabled root, without what the user excludes.

Belongs here: the files that are on disk now. Not here: what changed (`model.changes`) or what they say (`sweep.read`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from helix_assets.agents import ADAPTERS
from helix_assets.agents.jsonl import READING_FAILED, block_reader, open_source
from helix_assets.agents.repositories import repository_root
from helix_assets.agents.roles import shared_path
from helix_assets.agents.spec import FoundFile
from helix_assets.derive.places import PlaceRules, repo_of
from helix_assets.model.errors import Problem, SkipSource

HEAD_BYTES = 64 << 10


@dataclass
class Discovery:
    """What a look saw. The paths of problems could not be seen: nothing at or under them counts as gone."""

    files: dict[str, FoundFile] = field(default_factory=dict)
    flavors: dict[str, str] = field(default_factory=dict)
    problems: list[tuple[str, Problem]] = field(default_factory=list)

    @property
    def unknown(self) -> list[str]:
        return [problem.path for _, problem in self.problems]


def discover(roots: Mapping[str, Sequence[Path]], left_out: Sequence[str]) -> Discovery:
    """List the files in these folders of these agents: only names and states, no file is opened.

    Problems with excluded paths are not reported.
    """
    seen = Discovery()
    for flavor, folders in roots.items():
        for root in dict.fromkeys(os.path.realpath(folder) for folder in folders):
            problems: list[Problem] = []
            files = _files_under(flavor, root, problems)
            seen.files |= files
            seen.flavors |= dict.fromkeys(files, flavor)
            seen.problems += [(flavor, problem) for problem in problems if not is_below(problem.path, left_out)]
    return seen


def _files_under(flavor: str, root: str, problems: list[Problem]) -> dict[str, FoundFile]:
    """What an agent's adapter finds. One of another package may be missing or fail without stopping the others."""
    files: dict[str, FoundFile] = {}
    try:
        adapter = ADAPTERS[flavor]
    except KeyError as exc:
        problems.append(Problem(root, f"folder cannot be read: {exc.args[0]}"))
        return files
    try:
        for file in adapter.discover(root, problems):
            files[file[0]] = file
    except Exception as exc:  # noqa: BLE001 - any error is this root's problem
        problems.append(Problem(root, f"folder cannot be read: {type(exc).__name__} in the adapter"))
    return files


def read_head(path: str) -> bytes:
    """The first whole lines of a transcript."""
    fd, head = open_source(path), b""
    try:
        read = block_reader(fd, path)
        while len(head) < HEAD_BYTES and (block := read(HEAD_BYTES - len(head))):
            head += block
    except OSError as exc:
        if not head:
            raise SkipSource(f"{READING_FAILED}: {exc.strerror}") from exc
    finally:
        os.close(fd)
    cut = head.rfind(b"\n")
    return head[: cut + 1] if cut >= 0 else head


def native_id_of(flavor: str, path: str) -> str:
    """The session of a transcript, from its first lines. SkipSource if they cannot be understood."""
    head = read_head(path)
    try:
        return ADAPTERS[flavor].native_id_from_head(path, head)
    except Exception as exc:
        raise SkipSource(f"its first lines cannot be understood: {type(exc).__name__}") from exc


class Exclusions:
    """What the user excludes, by repository and by path; excluded agents are not looked at in the first place."""

    def __init__(self, repos: Sequence[str], paths: Sequence[str], places: PlaceRules) -> None:
        self._repos, self._paths = repos, paths
        self._places = places

    def __bool__(self) -> bool:
        return bool(self._repos or self._paths)

    def covers(self, flavor: str, path: str, head: Callable[[str], bytes] = read_head) -> bool:
        """Whether a file is excluded, by its own path, or by the working folder in its path or first lines."""
        if self.covers_path(path):
            return True
        try:
            cwd = ADAPTERS[flavor].cwd_from_head(path, head(path))
        except SkipSource:
            return False
        except Exception:  # noqa: BLE001 - the adapter failed: what may be excluded is not read
            return True
        return self._covers_place(cwd)

    def covers_part(self, path: str, cwd: str | None) -> bool:
        """Whether one session of a shared file is excluded, by its name, its file or its working folder."""
        return self.covers_path(path) or self.covers_path(shared_path(path)) or self._covers_place(cwd)

    def covers_path(self, path: str) -> bool:
        """Whether a path itself is excluded."""
        return is_below(path, self._paths)

    def _covers_place(self, cwd: str | None) -> bool:
        if cwd is None:
            return False
        repo = repo_of(cwd, self._places, repository_root(cwd))
        return self.covers_path(cwd) or any(repo is not None and fnmatchcase(repo, pattern) for pattern in self._repos)


def is_below(path: str, patterns: Iterable[str]) -> bool:
    """Whether one of these patterns matches the path or names a folder above it."""
    return any(path == p.rstrip("/") or path.startswith(p.rstrip("/") + "/") or fnmatchcase(path, p) for p in patterns)
