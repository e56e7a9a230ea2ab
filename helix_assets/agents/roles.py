"""Roles of source files beside JSON Lines, and how sessions in shared files are named as sources.

Light to import: every look at the disk needs it. What the roles mean for an adapter stands in `agents.kinds`.
"""

from __future__ import annotations

from urllib.parse import quote

from helix_assets.agents.spec import FoundFile

UNITS = "units"
DATABASE = "database"
TEXT = "text"
UNREADABLE = "unreadable"
ONE_RECORD = frozenset({"document", "about"})
"""Roles of files that are one JSON object and one record, which tells of the session as a whole."""
READ_WHOLE = ONE_RECORD | {UNITS, DATABASE}
"""Roles of files that are read from the start whenever they change."""
SHARED = frozenset({DATABASE, TEXT})
"""Roles of files that hold many sessions. Such a file is found without a `native_id`. When it has news it is opened,
and each session in it becomes a source of its own with the same role: a part, named `<file>#<session>`."""


def is_shared(file: FoundFile) -> bool:
    """Whether this is a file that holds many sessions."""
    return file.role in SHARED and file.native_id is None


def is_part(file: FoundFile) -> bool:
    """Whether this is one session of a file that holds many."""
    return file.role in SHARED and file.native_id is not None


def part_path(path: str, native_id: str) -> str:
    """How a session in a shared file is named as a source."""
    return f"{path}#{quote(native_id, safe='', errors='replace')}"


def shared_path(path: str) -> str:
    """The shared file that a part is in, by the part's name."""
    return path.rpartition("#")[0]
