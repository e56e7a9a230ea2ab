"""The data folder as a folder: its owner's alone, whether it is new, used or came with the checkout.

Belongs here: making it and closing it to others, and what lies in it with modes and owners. Not here: what the files
mean (`store.store`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from helix_assets.model.errors import StoreError

README = "README.md"
"""The one file of git's in the data folder of a checkout; its mode is git's, too."""
_BEFORE_THE_MEMORY = frozenset({README, "inbox", "canaries.txt"})
"""What may be in the folder before any memory is: a hook's notes, and words that a person wants searched for."""


def own_folder(folder: Path) -> None:
    """Make a folder of one's own, or close an existing one to others.

    StoreError where it is another user's, or where others could put files into it before. One without any memory in it
    is as git made it, which lets a group write where the umask does.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = folder.stat()
    if info.st_uid != os.getuid():
        raise StoreError(f"{folder} belongs to another user: set HELIX_DATA_DIR to a folder of your own")
    if info.st_mode & 0o022 and not _is_without_memory(folder):
        raise StoreError(f"{folder} can be written by others: look at what is in it, then run `chmod 700 {folder}`")
    if info.st_mode & 0o077:
        folder.chmod(0o700)


def _is_without_memory(folder: Path) -> bool:
    """Whether nothing is in it but what may come before any memory, all of it the user's own."""
    with os.scandir(folder) as entries:
        return all(
            entry.name in _BEFORE_THE_MEMORY
            and not entry.is_symlink()
            and entry.stat(follow_symlinks=False).st_uid == os.getuid()
            for entry in entries
        )


def all_in(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The folder and all that is in it, each with its state, except what goes meanwhile.

    Left out is what has the mode that git gave it: the README, and the folder itself while it is without memory.
    """
    gits = {str(folder / README), *([str(folder)] if _is_without_memory(folder) else [])}
    for inner, _, names in os.walk(folder):
        for path in [inner, *(os.path.join(inner, name) for name in names)]:
            with suppress(FileNotFoundError):
                if str(path) not in gits:
                    yield path, os.lstat(path)
