"""Notes to the State Hub: Markdown files with front matter in the hub folder, which others read and remove.

Belongs here: the form of a note, and that it is on the disk when the call returns. A note contains numbers, ids and our
own words, never transcript text. Not here: when one is due (`keep.evict`, `ask.reports`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from helix_assets.store.durable import replace_file

RETRO = "-weekly-retro.md"
"""How the names of these notes end."""


class Loss(Protocol):
    """A loss record, as the catalog holds it."""

    @property
    def session_uid(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def records(self) -> int: ...


def write_loss_note(data_dir: Path, at: str, losses: Sequence[Loss]) -> Path:
    """Report that raw bytes went without a digest. The same losses give the same file, so it may be written again."""
    size, records = sum(loss.bytes for loss in losses), sum(loss.records for loss in losses)
    front = {
        "kind": "data_loss",
        "event": "session_memory.data_loss",
        "at": at,
        "sessions": len(losses),
        "bytes": size,
        "records": records,
        "session_uids": [loss.session_uid for loss in losses],
    }
    text = f"""# {len(losses)} session(s) left the raw cache without a digest

The raw cache was above its hard cap and every session that a digest covers had gone already. Analysis was tried first
and failed for those that the front matter names. {records} records ({size} bytes) were dropped. Where an agent still
has its own log, the session is taken in again once that log grows.

What to do: `helix status` names the failures of analysis; a higher `raw_hard_cap_bytes` gives them more time.
"""
    stamp = "".join(char for char in at if char not in "-:")
    return _write_note(data_dir / "hub", f"{stamp}-data-loss.md", front, text)


def write_retro_note(data_dir: Path, at: str, week: str, figures: Mapping[str, int | float], text: str) -> Path:
    """Report on a week; `week` is its Monday. A new note replaces the one before."""
    front = {"kind": "weekly_retro", "at": at, "week": week, **figures}
    return _write_note(data_dir / "hub", f"{week}{RETRO}", front, text)


def write_memory_note(data_dir: Path, at: str, used: int, cap: int) -> Path | None:
    """Report that digests and facts are over their cap. None if that was reported today."""
    name = f"{at[:10].replace('-', '')}-memory-over-cap.md"
    if (data_dir / "hub" / name).exists():
        return None
    front = {"kind": "memory_over_cap", "event": "session_memory.over_cap", "at": at, "bytes": used, "cap_bytes": cap}
    text = f"""# Digests and facts are over their cap

They take {used} bytes, {cap} are allowed. Nothing was dropped and nothing will be: they are the memory itself.

What to do: raise `distilled_cap_bytes` under `[retention]` in helix.toml, or have sessions erased that nobody needs
(`helix forget`).
"""
    return _write_note(data_dir / "hub", name, front, text)


def drop_retro_notes(data_dir: Path) -> None:
    """Remove the notes of all weeks: their figures come from sessions that will be forgotten or redacted again."""
    for note in (data_dir / "hub").glob(f"*{RETRO}"):
        note.unlink()


def rename_in_notes(data_dir: Path, uid: str, instead: str) -> None:
    """Replace a session's uid by another name in every note."""
    spellings = {re.escape(spelling) for spelling in (uid, json.dumps(uid)[1:-1])}
    named = re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(spellings))})(?![\w-])")
    for path in sorted((data_dir / "hub").glob("*.md")):
        text = path.read_text(encoding="utf-8")
        clean = named.sub(instead, text)
        if clean != text:
            replace_file(path, clean.encode())


def _write_note(folder: Path, name: str, front: dict[str, Any], text: str) -> Path:
    # JSON is YAML: whatever an id holds, it stays a quoted string.
    lines = [f"{key}: {json.dumps(value)}" for key, value in front.items()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(folder / name, "\n".join(["---", *lines, "---", "", text]).encode())
    return folder / name


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that what was made, renamed or removed in it is on the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
