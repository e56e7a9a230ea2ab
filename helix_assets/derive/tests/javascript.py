"""Test runs of jest, vitest, mocha, node:test and playwright."""

from __future__ import annotations

import re
from collections.abc import Iterator

from helix_assets.derive.tests.run import Found, TestRun, counted, seconds, tally

_TIME = r"\d{1,9}(?:\.\d{1,9})? ?(?:ms|s|m|h)"
_JEST = re.compile(
    r"^Tests: +(?P<counts>(?:\d{1,9} [a-z]+, )*\d{1,9} total)$"
    r"|^Test Suites: +(?:(?P<suites>\d{1,9}) failed, )?[^\n]*\d total$"
    r"|^Time: +(?P<time>\d[^,\n]{0,40})"
    r"|^ *● Test suite (?P<broken>failed) to run$"
    r"|^(?P<again>Summary of all failing tests)$",
    re.M,
)
_VITEST = re.compile(
    r"^ *Tests {2,}(?P<counts>no tests|\d[^\n]{0,200} \(\d{1,9}\))$"
    r"|^ *Errors {2,}(?P<errors>\d{1,9}) errors?$"
    r"|^ *(?:Duration|Time) {2,}(?P<time>\d[\w. ]{0,20})"
    r"|^⎯+ +Failed Suites (?P<suites>\d{1,9}) +⎯+$",
    re.M,
)
_MOCHA = re.compile(
    rf"^ *(\d{{1,9}}) passing \(({_TIME})\)$(?:\n *(\d{{1,9}}) pending$)?(?:\n *(\d{{1,9}}) failing$)?", re.M
)
_NODE = re.compile(
    r"^[\u2139#] +(tests|pass|fail|cancelled|skipped|todo|skip|duration_ms) +(\d{1,12}(?:\.\d{1,9})?)$", re.M
)
_PLAYWRIGHT = re.compile(
    rf"^  (?P<count>\d{{1,9}}) (?P<word>failed|interrupted|flaky|skipped|did not run|passed)"
    rf"(?: \((?P<time>{_TIME})\))?$"
    r"|^  (?P<errors>\d{1,9}) errors? (?:was|were) not a part of any test"
    r"|^Running (?P<header>\d{1,9}) tests? using ",
    re.M,
)


def jest_runs(text: str) -> Iterator[Found]:
    """The "Tests:" line, its time below it. A suite that did not load counts as one failed test."""
    if "Tests:" not in text:
        return
    found: tuple[int, dict[str, int], int] | None = None
    suites = broken = 0
    for mark in _JEST.finditer(text):
        if mark["counts"]:
            if found:
                yield _jest(*found, None)
            found = (mark.start(), tally(mark["counts"]), min(suites, broken))
            suites = broken = 0
        elif mark["time"] and found:
            yield _jest(*found, mark["time"])
            found = None
        elif mark["again"]:
            broken = 0
        else:
            broken += mark["broken"] is not None
            suites = int(mark["suites"] or 0)
    if found:
        yield _jest(*found, None)


def _jest(at: int, counts: dict[str, int], unloaded: int, time: str | None) -> Found:
    skipped = sum(counts.get(word, 0) for word in ("skipped", "pending", "todo"))
    return Found(
        at, counted("jest", (counts.get("passed", 0), counts.get("failed", 0) + unloaded, skipped), seconds(time))
    )


def vitest_runs(text: str) -> Iterator[Found]:
    """The "Tests" line, errors and duration below it. A heading above counts suites that did not load."""
    if "Tests  " not in text:
        return
    found: Found | None = None
    suites = 0
    for mark in _VITEST.finditer(text):
        if mark["counts"]:
            if found:
                yield found
            found, suites = Found(mark.start(), _vitest(mark["counts"], suites)), 0
        elif mark["suites"]:
            suites = int(mark["suites"])
        elif found and mark["errors"]:
            found = found._replace(run=found.run._replace(success=False))
        elif found:
            yield found._replace(run=found.run._replace(duration_s=seconds(mark["time"])))
            found = None
    if found:
        yield found


def _vitest(tests: str, suites: int) -> TestRun:
    counts = tally(tests)
    passed = counts.get("passed", 0)
    skipped = counts.get("skipped", 0) + counts.get("todo", 0) + counts.get("expected fail", 0)
    return counted("vitest", (passed, counts.get("failed", 0) + suites, skipped))


def mocha_runs(text: str) -> Iterator[Found]:
    """ "5 passing (12ms)" with pending and failing below it. Cypress prints the same."""
    if " passing (" not in text:
        return
    for mark in _MOCHA.finditer(text):
        passed, time, pending, failing = mark.groups()
        yield Found(mark.start(), counted("mocha", (int(passed), int(failing or 0), int(pending or 0)), seconds(time)))


def node_runs(text: str) -> Iterator[Found]:
    """The closing counts of node's own runner, as a list or as comments of TAP."""
    if " pass " not in text:
        return
    at, counts = 0, dict[str, float]()
    for mark in _NODE.finditer(text):
        word, number = mark.groups()
        if word in counts:
            if "pass" in counts:
                yield _node(at, counts)
            counts = {}
        at = at if counts else mark.start()
        counts[word] = float(number)
    if "pass" in counts:
        yield _node(at, counts)


def _node(at: int, counts: dict[str, float]) -> Found:
    def of(*words: str) -> int:
        return int(sum(counts.get(word, 0) for word in words))

    time = counts.get("duration_ms")
    run = counted("node:test", (of("pass"), of("fail", "cancelled"), of("skipped", "skip", "todo")))
    return Found(at, run._replace(duration_s=None if time is None else round(time / 1000, 6)))


def playwright_runs(text: str) -> Iterator[Found]:
    """The list of counts at the end. A flaky test has passed; an error outside of the tests counts as failed."""
    if (
        " passed (" not in text
        and " \u203a " not in text
        and " tests using " not in text
        and " test using " not in text
    ):
        return
    at, began, counts = 0, False, dict[str, int]()
    for mark in _PLAYWRIGHT.finditer(text):
        if mark["header"]:
            if began and counts:
                yield _playwright(at, counts, None)
            at, began, counts = mark.start(), True, {}
            continue
        at = mark.start()
        word = "errors" if mark["errors"] else mark["word"]
        counts[word] = int(mark["errors"] or mark["count"])
        if word == "passed" and mark["time"]:
            yield _playwright(at, counts, mark["time"])
            began, counts = False, {}
    if counts and (began or " \u203a " in text):
        yield _playwright(at, counts, None)


def _playwright(at: int, counts: dict[str, int], time: str | None) -> Found:
    def of(*words: str) -> int:
        return sum(counts.get(word, 0) for word in words)

    run = counted(
        "playwright",
        (of("passed", "flaky"), of("failed", "interrupted", "errors"), of("skipped", "did not run")),
        seconds(time),
    )
    return Found(at, run)
