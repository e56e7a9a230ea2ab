"""How full the raw cache has been, how fast it grows, and how long the budget lasts at that rate.

Belongs here: reading the catalog's own history and one small sum over it. Not here: what goes (`keep.retention`), or
how it is shown (`defs.report`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from helix_assets.model.time import iso, microseconds
from helix_assets.store.catalog import losses, sweeps
from helix_assets.store.store import Store

RATE_DAYS = 14
_NEWEST = 500
_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Filled:
    """How full the raw cache was at the end of a sweep or an eviction, and the caps if a sweep noted them."""

    at: str
    bytes: int
    soft_cap: int | None = None
    hard_cap: int | None = None


class Outlook(NamedTuple):
    """How many days of sessions the budget lasts at a rate, and how many are left until the soft cap."""

    bytes_per_day: int
    days_the_budget_holds: float
    days_until_soft_cap: float


def history(store: Store) -> Sequence[Filled]:
    """The newest sweeps and evictions, oldest first."""
    with store.catalog.reading() as connection:
        points = [Filled(*row) for row in sweeps.fill(connection, _NEWEST)]
        points += [Filled(*row) for row in losses.usage_after(connection, _NEWEST)]
    return sorted(points, key=lambda point: point.at)


def bytes_per_day(store: Store, now: datetime) -> float | None:
    """The daily growth of the raw cache over the last two weeks; None before a day of sweeps, or if it does not grow.

    The very first sweep does not count: it takes in all older logs.
    """
    since, until = (iso(microseconds(moment)) or "" for moment in (now - RATE_DAYS * _DAY, now))
    points = [point for point in history(store) if since <= point.at <= until]
    if not points:
        return None
    with store.catalog.reading() as connection:
        went = losses.evicted_bytes(connection, points[0].at, points[-1].at)
    return rate_of(points, went)


def rate_of(points: Sequence[Filled], evicted_bytes: int) -> float | None:
    """Bytes a day between the first and the last point, plus what was evicted between them."""
    first, last = points[0], points[-1]
    days = (datetime.fromisoformat(last.at) - datetime.fromisoformat(first.at)) / _DAY
    taken_in = last.bytes - first.bytes + evicted_bytes
    return taken_in / days if days >= 1 and taken_in > 0 else None


def outlook(rate: float | None, used_bytes: int, soft_cap_bytes: int) -> Outlook | None:
    """How long the budget lasts at this rate; None without one."""
    if rate is None:
        return None
    return Outlook(
        bytes_per_day=round(rate),
        days_the_budget_holds=round(soft_cap_bytes / rate, 1),
        days_until_soft_cap=round(max(0, soft_cap_bytes - used_bytes) / rate, 1),
    )
