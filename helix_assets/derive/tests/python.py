"""Test runs of pytest and unittest."""

from __future__ import annotations

import re
from collections.abc import Iterator

from helix_assets.derive.tests.run import Found, TestRun, counted, seconds, tally

_WORD = r"(?:passed|failed|errors?|skipped|xfailed|xpassed|deselected|warnings?|rerun|subtests \w{1,10})"
_PYTEST = re.compile(
    rf"^(?P<bar>=+ )?(?P<counts>\d{{1,9}} {_WORD}(?:, \d{{1,9}} {_WORD})*|no tests ran)"
    r" in (?P<time>\d{1,9}(?:\.\d{1,9})? ?s(?:econds)?)(?: \([\d:]{1,20}\))?(?: =+)?$"
    r"|^=+ (?P<section>FAILURES|ERRORS|test session starts|short test summary info) =+$"
    r"|^!+ (?P<stop>[^!\n]{1,200}) !+$",
    re.M,
)
_UNITTEST = re.compile(
    r"^Ran (\d{1,9}) tests? in (\d{1,9}(?:\.\d{1,9})?s)\n{1,3}(OK|FAILED|NO TESTS RAN)(?: \(([^)\n]{1,200})\))?$", re.M
)
_DETAIL = re.compile(r"([a-z ]{1,30})=(\d{1,9})")


_OPEN = ("FAILURES", "ERRORS")
_CLOSING = "short test summary info"


def pytest_runs(text: str) -> Iterator[Found]:
    """Summary lines, with and without bars. One inside a failure's captured output is not a run."""
    if " in " not in text:
        return
    marks = list(_PYTEST.finditer(text))
    following = _next_headings(marks)
    section = stop = ""
    for place, mark in enumerate(marks):
        if section not in _OPEN:
            section = mark["section"] or section
        elif mark["section"] == _CLOSING:
            section = ""
        stop = mark["stop"] or stop
        if mark["counts"] is None:
            continue
        if section in _OPEN and following[place] == _CLOSING:
            continue
        yield Found(mark.start(), _pytest(mark, "KeyboardInterrupt" in stop or "Exit" in stop))
        section = stop = ""


def _next_headings(marks: list[re.Match[str]]) -> list[str | None]:
    """For each mark the next heading of a section."""
    headings: list[str | None] = []
    following: str | None = None
    for mark in reversed(marks):
        headings.append(following)
        if mark["section"] and mark["section"] != "test session starts":
            following = mark["section"]
    return headings[::-1]


def _pytest(mark: re.Match[str], interrupted: bool) -> TestRun:
    counts = tally(mark["counts"])
    return counted(
        "pytest",
        (
            counts.get("passed", 0) + counts.get("xpassed", 0),
            counts.get("failed", 0) + counts.get("error", 0) + counts.get("errors", 0),
            counts.get("skipped", 0) + counts.get("xfailed", 0),
        ),
        seconds(mark["time"]),
        broke=interrupted,
    )


def unittest_runs(text: str) -> Iterator[Found]:
    """ "Ran 5 tests in 0.001s" with the verdict below it, Django's as well."""
    if "Ran " not in text:
        return
    for mark in _UNITTEST.finditer(text):
        ran, time, verdict, counts = mark.groups()
        detail = {name.strip(): int(number) for name, number in _DETAIL.findall(counts or "")}
        failed = detail.get("failures", 0) + detail.get("errors", 0) + detail.get("unexpected successes", 0)
        skipped = detail.get("skipped", 0) + detail.get("expected failures", 0)
        # an error in a class's set-up is not one of the tests that ran
        passed = max(0, int(ran) - failed - skipped)
        yield Found(
            mark.start(), counted("unittest", (passed, failed, skipped), seconds(time), broke=verdict == "FAILED")
        )
