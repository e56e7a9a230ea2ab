"""Days as the store counts them, from its own days of work, so that a wrong clock ages nothing.

A mark is set on each day of work. The time between two marks counts if it is not negative and at most a week;
otherwise nothing counts. So a clock that jumps years ahead makes nothing older, and correcting it makes nothing
younger. A store that was not used for more than a week counts too few days, never too many.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

LONGEST_GAP = timedelta(days=7)
_DAY = timedelta(days=1)


class DayMark(NamedTuple):
    """A day of work: the last number given out in the order of work, the days counted so far, the clock's time."""

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
    """Days counted since the first mark after this place in the order of work; 0 if there is no such mark."""
    first = bisect_left(marks, order, key=lambda mark: mark.order)
    return _counted(marks[-1], now) - marks[first].days if first < len(marks) else 0.0


def clock_doubt(now: datetime, last_at: datetime | None) -> str | None:
    """Why the clock cannot be trusted for ages, in words; None if it can."""
    if last_at is None:
        return "there is no earlier day of work to compare the clock with"
    if now < last_at:
        return f"the clock shows {now:%Y-%m-%d %H:%M}, but the store already worked at {last_at:%Y-%m-%d %H:%M}"
    if now - last_at > LONGEST_GAP:
        return f"the clock is {(now - last_at).days} days past the last day of work"
    return None


def _counted(last: DayMark, now: datetime) -> float:
    passed = now - last.at
    return last.days + (passed / _DAY if timedelta(0) <= passed <= LONGEST_GAP else 0.0)
