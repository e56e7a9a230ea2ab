"""A program downstream that keeps a copy of all digests by catching up with the feed, as docs/kaizen.md says."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

_STEP = "SELECT position, change, first_position, session_uid, digest FROM feed WHERE position > ? ORDER BY 1 LIMIT ?"


@dataclass
class Consumer:
    """`held` are the digests by first position, `seen` all entries that were read: position, change, session."""

    catalog: Path
    position: int = 0
    held: dict[int, tuple[str, str]] = field(default_factory=dict)
    seen: list[tuple[int, str, str | None]] = field(default_factory=list)

    def catch_up(self, at_once: int = 1000) -> list[tuple[int, str, str | None]]:
        """Read to the end in steps of so many entries. Returns what was read."""
        start = len(self.seen)
        while self.step(at_once):
            pass
        return self.seen[start:]

    def step(self, at_once: int) -> int:
        """Read some entries. Returns how many there were."""
        with closing(sqlite3.connect(f"{self.catalog.as_uri()}?mode=ro", uri=True)) as connection:
            entries = connection.execute(_STEP, (self.position, at_once)).fetchall()
            for position, change, first, uid, digest in entries:
                if change != "forgotten":
                    self.held[first] = (uid, digest)
                elif first is not None:
                    self.held.pop(first, None)
                else:
                    known = {row[0] for row in connection.execute("SELECT first_position FROM digests")}
                    self.held = {first: kept for first, kept in self.held.items() if first in known}
                self.position = position
                self.seen.append((position, change, uid))
        return len(entries)

    def missed(self) -> list[str]:
        """The sessions whose digest here is not the one of the memory."""
        with closing(sqlite3.connect(f"{self.catalog.as_uri()}?mode=ro", uri=True)) as connection:
            there = set(connection.execute("SELECT session_uid, digest FROM digests"))
        return sorted({uid for uid, _ in there ^ set(self.held.values())})
