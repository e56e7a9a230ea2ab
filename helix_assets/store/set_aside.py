"""What restores set aside, and how far new redaction rules have come with it.

Belongs here: where it lies, and the note in each folder. Not here: redacting it (`sweep.aside`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from helix_assets.store.store import Store

STAGED, SET_ASIDE = ".restore", "set-aside"
NOTE = "redacted.json"


@dataclass
class Note:
    """How far a folder is with these rules: the last file that is through, and those that cannot be read."""

    version: str
    last: str = ""
    is_through: bool = False
    unread: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SetAside:
    """How many folders restores left, how many are not through with the rules in force, and what cannot be read."""

    folders: int
    waiting: int
    unread: list[str]


def read_set_aside(store: Store) -> SetAside:
    """How far sweeps are with redacting what was set aside."""
    notes = [(folder, read_note(folder, store.redactor.version)) for folder in folders_set_aside(store)]
    unread = [shown_name(folder, name) for folder, note in notes for name in note.unread]
    return SetAside(len(notes), sum(not note.is_through for _, note in notes), unread)


def folders_set_aside(store: Store) -> list[Path]:
    try:
        return sorted(path for path in (store.data_dir / SET_ASIDE).iterdir() if path.is_dir())
    except FileNotFoundError:
        return []


def shown_name(folder: Path, name: str) -> str:
    return f"{SET_ASIDE}/{folder.name}/{name}"


def read_note(folder: Path, version: str) -> Note:
    """The folder's note; with one of other rules, or one that is damaged, the folder is gone through anew."""
    try:
        note = Note(**json.loads((folder / NOTE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return Note(version)
    return note if note.version == version else Note(version)
