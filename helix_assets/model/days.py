"""Days as the store counts them: what its own work bears witness to, whatever a clock says.

A mark is set on each day of work. From one mark to the next the clock's difference counts if it is no step back and at
most a week; otherwise nothing counts. So a clock that jumps years ahead makes nothing older, and one put right again
makes nothing younger. A store that slept for longer than a week counts too few days, never too many.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

LONGEST_GAP = timedelta(days=7)
_DAY = timedelta(days=1)


class DayMark(NamedTuple):
    """A day of work: the last number then given out in the order of work, the days counted so far, the clock's word."""

    order: int
    days: float
    at: datetime


def next_mark(last: DayMark | None, order: int, now: datetime) -> DayMark | None:
    """The mark to set now; None as long as the last one is less than a day old."""
    if last is None:
        return DayMark(order, 0.0, now)
    if timedelta(0) <= now - last.at < _DAY:
        return None
    return DayMark(order, _counted(last, now), now)


def days_since(marks: Sequence[DayMark], order: int, now: datetime) -> float:
    """Days counted since the first mark after this place in the order of work; 0 where none has been set since."""
    first = bisect_left(marks, order, key=lambda mark: mark.order)
    return _counted(marks[-1], now) - marks[first].days if first < len(marks) else 0.0


def clock_doubt(now: datetime, last_at: datetime | None) -> str | None:
    """Why the clock cannot be believed in matters of age, in words; None when it can."""
    if last_at is None:
        return "no earlier day of work is on record to hold the clock against"
    if now < last_at:
        return f"the clock says {now:%Y-%m-%d %H:%M}, but the store was at work at {last_at:%Y-%m-%d %H:%M} already"
    if now - last_at > LONGEST_GAP:
        return f"the clock is {(now - last_at).days} days past the last day of work"
    return None


def _counted(last: DayMark, now: datetime) -> float:
    passed = now - last.at
    return last.days + (passed / _DAY if timedelta(0) <= passed <= LONGEST_GAP else 0.0)
