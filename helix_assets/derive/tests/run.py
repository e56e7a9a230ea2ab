"""What a test run is, and small readers that the summaries of all frameworks share.

Not here: what any one framework prints.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,9})?) ?(ms|milliseconds?|hours?|h|minutes?|min|m|seconds?|secs?|s)\b", re.I)
_CLOCK = re.compile(r"(?:(\d{1,4}):)?(\d{1,2}):(\d{1,2}(?:\.\d{1,9})?)")
_UNITS = {"ms": 0.001, "mi": 60.0, "m": 60.0, "h": 3600.0, "s": 1.0}
_COUNT = re.compile(r"(\d{1,9}) ([a-z]+(?: [a-z]+)?)")


class TestRun(NamedTuple):
    """One run of a test framework. Counts are None if its output does not contain them, `success` if nothing shows it.

    `failed` includes errors, also those of collection. `skipped` is all that did not run or was expected to fail.
    """

    framework: str
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    total: int | None = None
    duration_s: float | None = None
    success: bool | None = None


class Found(NamedTuple):
    """A run and the position of its summary in the text."""

    at: int
    run: TestRun


def counted(
    framework: str, counts: tuple[int, int, int], duration_s: float | None = None, *, broke: bool = False
) -> TestRun:
    """A run whose summary has the counts passed, failed and skipped; `broke` means that more than its tests failed."""
    passed, failed, skipped = counts
    # a run without a single test proves nothing
    success = False if failed or broke else True if passed or skipped else None
    return TestRun(framework, passed, failed, skipped, passed + failed + skipped, duration_s, success)


def tally(text: str) -> dict[str, int]:
    """Counts by their word: "2 failed, 5 passed" gives {"failed": 2, "passed": 5}. A repeated word is added up."""
    counts: dict[str, int] = {}
    for number, word in _COUNT.findall(text):
        counts[word] = counts.get(word, 0) + int(number)
    return counts


def seconds(text: str | None) -> float | None:
    """A duration as frameworks write it: 1.2s, 350 ms, 1m 5s, 2 minutes 3 seconds, 00:01.250."""
    if not text:
        return None
    parts = _DURATION.findall(text)
    if parts:
        return round(sum(float(number) * _unit(unit.lower()) for number, unit in parts), 6)
    clock = _CLOCK.search(text)
    if clock is None:
        return None
    return round(int(clock.group(1) or 0) * 3600 + int(clock.group(2)) * 60 + float(clock.group(3)), 6)


def _unit(name: str) -> float:
    return _UNITS.get(name[:2]) or _UNITS[name[:1]]


def total_of(values: list[float | None]) -> float | None:
    """The sum of the known durations, None if there are none."""
    known = [value for value in values if value is not None]
    return round(sum(known), 6) if known else None
