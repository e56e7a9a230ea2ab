"""Listing the agents' folders without following links.

Belongs here: the walk that all adapters share. An error at one entry is a problem of that entry, and the walk
continues. Not here: which names are transcripts (the adapters), opening and reading them (`jsonl`).
"""

from __future__ import annotations

import os
import stat

from helix_assets.agents.spec import FoundFile
from helix_assets.model.errors import Problem

LINK = "skipped: it is a link"
_new = tuple.__new__  # a named tuple without the call that checks its length


class Entry:
    """An entry of a folder: its name, its path, and what it is."""

    __slots__ = ("_entry", "_problems", "name", "path")

    def __init__(self, entry: os.DirEntry[str], problems: list[Problem]) -> None:
        self._entry, self._problems = entry, problems
        self.name, self.path = entry.name, entry.path

    def is_folder(self) -> bool:
        """Whether it is a real folder. A link to one, or to a place that cannot be examined, is a problem."""
        try:
            if not self._entry.is_symlink():
                return self._entry.is_dir(follow_symlinks=False)
        except OSError as exc:
            self._note(f"cannot be examined: {_why(exc)}")
            return False
        if self._may_lead_to_folder():
            self._note(LINK)
        return False

    def file(self, role: str, native_id: str | None) -> FoundFile | None:
        """The entry as a transcript file, None if it is a link or not a regular file; then a problem is noted."""
        try:
            info = self._entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None  # deleted since it was listed
        except OSError as exc:
            self._note(f"cannot be examined: {_why(exc)}")
            return None
        mode = info.st_mode
        if not stat.S_ISREG(mode):
            kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
            self._note(LINK if stat.S_ISLNK(mode) else f"skipped: it is {kind}")
            return None
        return _new(  # faster than by name
            FoundFile, (self.path, role, native_id, info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)
        )

    def _may_lead_to_folder(self) -> bool:
        try:
            return self._entry.is_dir()
        except OSError:  # a loop, a folder without permission, a server that is gone
            return True

    def _note(self, reason: str) -> None:
        self._problems.append(Problem(self.path, reason))


def entries(folder: str, problems: list[Problem]) -> list[Entry]:
    """The entries of a folder. A missing one is empty; a link, or one that cannot be read, is a problem."""
    if os.path.islink(folder):
        problems.append(Problem(folder, LINK))
        return []
    listed = list[os.DirEntry[str]]()
    try:
        with os.scandir(folder) as found:
            listed.extend(found)  # what was listed before an error counts
    except FileNotFoundError:
        pass
    except OSError as exc:
        problems.append(Problem(folder, f"folder cannot be read: {_why(exc)}"))
    return [Entry(entry, problems) for entry in listed]


def _why(exc: OSError) -> str:
    return exc.strerror or type(exc).__name__
