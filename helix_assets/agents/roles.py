"""Roles of source files other than JSON Lines, and the names of sessions in shared files as sources.

Fast to import, because every look at the disk needs it. What the roles mean for an adapter is in `agents.kinds`.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote

from helix_assets.agents.spec import FoundFile

UNITS = "units"
DATABASE = "database"
TEXT = "text"
UNREADABLE = "unreadable"
ONE_RECORD = frozenset({"document", "about"})
"""Roles of files that are one JSON object and one record, which describes the whole session."""
READ_WHOLE = ONE_RECORD | {UNITS, DATABASE}
"""Roles of files that are read from the start whenever they change."""
SHARED = frozenset({DATABASE, TEXT})
"""Roles of shared files, which contain many sessions. Such a file is found without a `native_id`. If it has news it is
opened, and each session in it becomes its own source with the same role: a part, named `<file>#<session>`."""


_OWN_LOGS = ("main", "fallback", "aside", UNITS, *sorted(SHARED), UNREADABLE)
"""Roles of the logs that are a session's own, the best one first; others are of subagents, or describe it."""


def main_log(files: Iterable[tuple[str, int, str]]) -> str | None:
    """The path of a session's main log, given the role, the rank and the path of each of its files."""

    def place(file: tuple[str, int, str]) -> tuple[int, int]:
        role, rank, _ = file
        return _OWN_LOGS.index(role) if role in _OWN_LOGS else len(_OWN_LOGS), rank

    found = min(files, key=place, default=None)
    return found[2] if found is not None else None


def is_shared(file: FoundFile) -> bool:
    """Whether this is a file that contains many sessions."""
    return file.role in SHARED and file.native_id is None


def is_part(file: FoundFile) -> bool:
    """Whether this is one session of a shared file."""
    return file.role in SHARED and file.native_id is not None


def part_path(path: str, native_id: str) -> str:
    """The name of a session in a shared file as a source."""
    return f"{path}#{quote(native_id, safe='', errors='replace')}"


def shared_path(path: str) -> str:
    """The shared file that a part is in, by the part's name."""
    return path.rpartition("#")[0]
