"""Finds the repository of a working folder on disk, as long as the folder exists. Git itself is never run.

Belongs here: looking upward for `.git`. Not here: the name of a repository (`derive.places`), which also works without
the disk.
"""

from __future__ import annotations

import os
from functools import lru_cache

from helix_assets.agents.jsonl import open_source
from helix_assets.model.errors import SkipSource

_MAX_FOLDERS = 64
_MAX_LINK_BYTES = 4096
# Folders that a look would mount or create.
_LEFT_ALONE = ("//", "/net/", "/afs/", "/proc/", "/dev/", "/sys/")


@lru_cache(maxsize=4096)
def repository_root(cwd: str) -> str | None:
    """The top folder of the repository with `cwd`, for a worktree of the main one; None if there is none on disk."""
    if not cwd.startswith("/") or f"{cwd}/".startswith(_LEFT_ALONE) or "\0" in cwd:
        return None
    if not os.path.isdir(cwd):
        return None
    folder = os.path.realpath(cwd)
    for _ in range(_MAX_FOLDERS):
        git = os.path.join(folder, ".git")
        if os.path.isfile(os.path.join(git, "HEAD")):
            return folder
        if main := _main_of(git):
            return main
        if os.path.isfile(git):
            return folder  # a submodule, or a worktree whose repository is gone
        folder, below = os.path.dirname(folder), folder
        if folder == below:
            break
    return None


def _main_of(git: str) -> str | None:
    """The repository that a worktree's `.git` file names: `gitdir: <repository>/.git/worktrees/<name>`."""
    try:
        fd = open_source(git)
    except SkipSource:
        return None
    try:
        text = os.read(fd, _MAX_LINK_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return None
    finally:
        os.close(fd)
    word, _, path = text.strip().partition(":")
    shared, worktrees, _ = path.strip().rpartition("/worktrees/")
    if word != "gitdir" or not worktrees:
        return None
    shared = os.path.normpath(os.path.join(os.path.dirname(git), shared))
    # A bare repository is a separate folder, `shop.git`, or a hidden one next to its worktrees, `shop/.bare`.
    return os.path.dirname(shared) if os.path.basename(shared).startswith(".") else shared
