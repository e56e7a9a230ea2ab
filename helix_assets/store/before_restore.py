"""The before-restore folders: what restores moved out of the way, and how far it is redacted by new rules.

Belongs here: where they are, and the note in each of them. Not here: redacting them (`sweep.rescan_folders`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from helix_assets.store.store import Store

STAGED, BEFORE_RESTORE = ".restore", "set-aside"
NOTE = "redacted.json"


@dataclass
class Note:
    """How far a folder is redacted by these rules: the last finished file, and those that cannot be read."""

    version: str
    last: str = ""
    is_through: bool = False
    unread: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class BeforeRestore:
    """How many folders restores left, how many wait to be redacted by the rules in force, and what cannot be read."""

    folders: int
    waiting: int
    unread: list[str]


def read_before_restore(store: Store) -> BeforeRestore:
    """How far sweeps have redacted the before-restore folders."""
    notes = [(folder, read_note(folder, store.redactor.version)) for folder in folders_before_restore(store)]
    unread = [shown_name(folder, name) for folder, note in notes for name in note.unread]
    return BeforeRestore(len(notes), sum(not note.is_through for _, note in notes), unread)


def folders_before_restore(store: Store) -> list[Path]:
    try:
        return sorted(path for path in (store.data_dir / BEFORE_RESTORE).iterdir() if path.is_dir())
    except FileNotFoundError:
        return []


def shown_name(folder: Path, name: str) -> str:
    return f"{BEFORE_RESTORE}/{folder.name}/{name}"


def read_note(folder: Path, version: str) -> Note:
    """The folder's note. If it is of other rules or damaged, the folder is redacted from the start."""
    try:
        note = Note(**json.loads((folder / NOTE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return Note(version)
    return note if note.version == version else Note(version)
