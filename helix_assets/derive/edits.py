"""How counts of edits add up, of which some may not say how many lines they changed."""

from __future__ import annotations

from typing import NamedTuple

from helix_assets.model.digest import Edits, FileTouched


class EditTally(NamedTuple):
    """So many edits; lines are None if there are edits and none says how many."""

    edits: int = 0
    lines_added: int | None = 0
    lines_removed: int | None = 0

    def plus(self, other: EditTally) -> EditTally:
        """Both together; the lines of those edits that say how many."""
        if not self.edits:
            return other
        if not other.edits:
            return self
        return EditTally(
            self.edits + other.edits,
            _sum(self.lines_added, other.lines_added),
            _sum(self.lines_removed, other.lines_removed),
        )

    def of_file(self, path: str) -> FileTouched:
        """The tally as that of a file."""
        return FileTouched(path=path, edits=self.edits, lines_added=self.lines_added, lines_removed=self.lines_removed)

    def of_session(self) -> Edits:
        """The tally as that of a session."""
        return Edits(count=self.edits, lines_added=self.lines_added, lines_removed=self.lines_removed)


def _sum(a: int | None, b: int | None) -> int | None:
    return a + b if a is not None and b is not None else b if a is None else a
