"""What went from the raw cache: evictions of what a digest covers, and losses without one.

Belongs here: reading their logs, without the names of sessions. Not here: what goes (`keep.retention`), or how full the
raw cache is (`ask.budget`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import NamedTuple

from helix_assets.store.catalog import losses
from helix_assets.store.store import Store


class Evicted(NamedTuple):
    """What was evicted of a partition on a day for one reason."""

    flavor: str
    day: str
    reason: str
    sessions: int
    bytes: int


class Loss(NamedTuple):
    """Raw bytes of a session that went without a digest. `id` grows with each loss, `day` is the session's."""

    id: int
    at: str
    flavor: str
    day: str
    bytes: int
    records: int
    reason: str


@dataclass(frozen=True)
class Gone:
    """What went on a day, and in all. A session counts each time that it was evicted or lost."""

    evicted: tuple[Evicted, ...]
    sessions_evicted_ever: int
    sessions_lost: int
    sessions_lost_ever: int
    bytes_lost_ever: int
    newest_losses: tuple[Loss, ...]
    """Of all days, the newest first."""


def gone_on(store: Store, day: date, listed: int) -> Gone:
    """What went on a day, with at most so many losses listed."""
    with store.catalog.reading() as connection:
        lost_ever, lost_bytes = losses.totals(connection)
        return Gone(
            evicted=tuple(Evicted(*row) for row in losses.evictions_on(connection, day)),
            sessions_evicted_ever=losses.count_evictions(connection),
            sessions_lost=losses.count_on(connection, day),
            sessions_lost_ever=lost_ever,
            bytes_lost_ever=lost_bytes,
            newest_losses=tuple(Loss(*row) for row in losses.newest(connection, listed)),
        )


def losses_after(store: Store, number: int) -> tuple[Loss, ...]:
    """The losses after the one of this number, in order."""
    with store.catalog.reading() as connection:
        return tuple(Loss(*row) for row in losses.after(connection, number))
