"""The inbox: notes that agents' hooks left, each saying that a session changed. A sweep takes them in.

Belongs here: reading notes, keeping their times as facts, removing notes that were taken in. Not here: writing them
(`hooks.hook`, which imports nothing of ours), or when they make a sweep due (`defs.sensors`).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from helix_assets.model.time import iso
from helix_assets.store.catalog import hook_events, sessions
from helix_assets.store.catalog.tombstones import forgotten_marks, session_mark
from helix_assets.store.store import Store

INBOX = "inbox"
WAITS_S = 3600.0
"""How long a note waits for its session to get a log; then it is deleted."""
_LONGEST = 4096


@dataclass(frozen=True)
class Note:
    """One file of the inbox. `session` is the agent's own id, None if the hook did not know it."""

    name: str
    agent: str
    at_us: int
    event: str | None
    session: str | None
    call: str | None

    @property
    def asks_for_a_sweep(self) -> bool:
        """Whether a session may have news; of events in the middle of a turn only the time matters."""
        return self.event not in ("UserPromptSubmit", "PreToolUse")


def inbox_of(data_dir: Path) -> Path:
    """Where hooks leave their notes."""
    return data_dir / INBOX


def waiting(data_dir: Path) -> list[str]:
    """The names of all notes, oldest first."""
    try:
        names = os.listdir(inbox_of(data_dir))
    except FileNotFoundError:
        return []
    return sorted(name for name in names if name.endswith(".json") and not name.startswith("."))


def read_notes(data_dir: Path, after: str = "") -> list[Note]:
    """The notes that came after one of this name. An unreadable one counts as a note that something changed."""
    return [_read(inbox_of(data_dir) / name) for name in waiting(data_dir) if name > after]


def take_in(store: Store, notes: Sequence[Note]) -> int:
    """Keep the times from notes about known sessions, and remove these notes. Returns how many times were new.

    A note about a session without a log stays until that is swept, for an hour at most. One about a forgotten session
    is removed. Needs the writer lock.
    """
    with store.catalog.writing() as connection:
        known = sessions.uids_by_native(connection, {note.session for note in notes if note.session})
        rows = [_row(store, note, known[note.session]) for note in notes if note.session in known and note.event]
        added = hook_events.put(connection, rows)
        forgotten = forgotten_marks(connection)
    too_old = (time.time() - WAITS_S) * 1e6
    for note in notes:
        is_awaited = note.session is not None and note.session not in known and note.at_us >= too_old
        if not is_awaited or session_mark(store, f"{note.agent}:{note.session}") in forgotten:
            (inbox_of(store.data_dir) / note.name).unlink(missing_ok=True)
    return added


def drop_notes_of(data_dir: Path, natives: Collection[str]) -> None:
    """Remove the notes about forgotten sessions, given by their agents' ids."""
    for note in read_notes(data_dir):
        if note.session in natives:
            (inbox_of(data_dir) / note.name).unlink(missing_ok=True)


def _row(store: Store, note: Note, uid: str) -> Mapping[str, object]:
    call_id = store.redactor.text(note.call or "").text
    return {"session_uid": uid, "at": iso(note.at_us), "event": note.event, "call_id": call_id}


def _read(path: Path) -> Note:
    try:
        with path.open("rb") as file:
            note = json.loads(file.read(_LONGEST))
        return Note(
            path.name, note["agent"], note["at"] // 1000, note.get("event"), note.get("session"), note.get("call")
        )
    except (OSError, ValueError, KeyError, TypeError):
        return Note(path.name, "", 0, None, None, None)
