"""Kinds of source files beside JSON Lines, and what an adapter adds for each.

Whatever a source is, it is read as units, and a unit is a JSON object. In JSON Lines the lines are the units; of any
other kind the adapter makes them. From there on all kinds are the same: a unit is one record. It is redacted as a line
of JSON, named by `Adapter.identify` and turned into events by the parser.

- "units", with `SplitsDocuments`: a JSON object that holds one session. It is read whole whenever it changes; a unit's
  `line` is its number from 1 on, its `offset` 0.

Belongs here: names and protocols. Not here: opening and reading (`sweep.read`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from helix_assets.agents.spec import JsonObject

UNITS = "units"
ONE_RECORD = frozenset({"document", "about"})
"""Roles of files that are one JSON object and one record, which tells of the session as a whole."""
READ_WHOLE = ONE_RECORD | {UNITS}
"""Roles of files that are read from the start whenever they change."""


class SplitsDocuments(Protocol):
    """What an adapter adds that finds files of the role "units"."""

    def units(self, obj: JsonObject) -> Iterator[JsonObject]:
        """The document in pieces: what it says of the session as a whole, then its messages in their order.

        The newest version of a unit counts, and one that the file no longer has is kept. A unit is known by its own id
        (`identify`), else by its content.
        """
        ...
