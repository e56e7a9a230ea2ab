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


def own_folder(folder: Path) -> None:
    """Make a folder of one's own, or close an existing one to others.

    StoreError where it is another user's, or where others could put files into it before. One with nothing in it but
    the README is as git made it, which lets a group write where the umask does.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    info = folder.stat()
    if info.st_uid != os.getuid():
        raise StoreError(f"{folder} belongs to another user: set HELIX_DATA_DIR to a folder of your own")
    if info.st_mode & 0o022 and not set(os.listdir(folder)) <= {README}:
        raise StoreError(f"{folder} can be written by others: look at what is in it, then run `chmod 700 {folder}`")
    if info.st_mode & 0o077:
        folder.chmod(0o700)


def all_in(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """The folder and all that is in it, each with its state, but for the README. What goes meanwhile is passed over."""
    for inner, _, names in os.walk(folder):
        for path in [inner, *(os.path.join(inner, name) for name in names)]:
            with suppress(FileNotFoundError):
                if path != str(folder / README):
                    yield path, os.lstat(path)
