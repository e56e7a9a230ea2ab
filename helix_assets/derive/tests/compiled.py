"""Test runs of go test, cargo test, cargo nextest and ctest."""

from __future__ import annotations

import re
from collections.abc import Iterator

from helix_assets.derive.tests.run import Found, TestRun, counted, seconds, tally, total_of

_GO = re.compile(
    r"^--- (?P<result>PASS|FAIL|SKIP): \S+ \("
    r"|^(?P<ok>ok)[ \t]+\S+[ \t]+(?:(?P<time>\d{1,9}\.\d{1,9}s)|\(cached\))"
    r"|^(?P<failed>FAIL)[ \t]+\S+[ \t]+(?:(?P<fail_time>\d{1,9}\.\d{1,9}s)$|\[(?:build|setup) failed\])"
    r"|^=== RUN +(?P<run>\S+)$|^(?P<end>FAIL|PASS)$(?!\n(?:FAIL[ \t]|exit status))"
    r"|^DONE (?P<done>\d{1,9} tests?(?:, \d{1,9} [a-z]+)*) in (?P<done_time>\d{1,9}\.\d{1,9}s)$",
    re.M,
)
_CARGO = re.compile(
    r"^running (?P<running>\d{1,9}) tests?$"
    r"|^test result: (?P<verdict>ok|FAILED)\. (?P<passed>\d{1,9}) passed; (?P<failed>\d{1,9}) failed;"
    r" (?P<ignored>\d{1,9}) ignored;[^\n]{0,60}?(?:finished in (?P<time>\d{1,9}\.\d{1,9}s))?$"
    r"|^ *(?P<built>Finished) .{1,80} target\(s\) in "
    r"|^(?P<error>error: (?:test failed|could not compile|\d{1,9} targets? failed))",
    re.M,
)
_NEXTEST = re.compile(r"^ *Summary \[ *(\d{1,9}\.\d{1,9}s)\] +(\d{1,9})(?:/\d{1,9})? tests? run: ([^\n]{1,300})$", re.M)
_NOTES = re.compile(r"\([^()\n]{0,200}\)")
_CTEST = re.compile(
    r"^(?P<percent>\d{1,3})% tests passed, (?P<failed>\d{1,9}) tests? failed out of (?P<total>\d{1,9})$"
    r"|^Total Test time \(real\) = +(?P<time>\d{1,9}(?:\.\d{1,9})? sec)"
    r"|^[ \t]*\d{1,9} - \S{1,200} \((?P<unrun>Skipped|Disabled)\)",
    re.M,
)


class _Go:
    """What one `go test` printed so far: packages one after another, the tests before their package's line."""

    def __init__(self) -> None:
        self.at = self.begun = self.results = self.passed = self.failed = self.skipped = self.failed_here = 0
        self.verbose = self.ended = self.broke = False
        self.times: list[float | None] = []

    def package(self, at: int, time: str | None, failed: bool) -> None:
        # a package that fails without a failed test did not build, or crashed
        self.failed += max(self.failed_here, 1) if failed else self.failed_here
        self.broke |= failed
        self.failed_here = 0
        self.at, self.ended = at, True
        self.times.append(seconds(time))

    def run(self, cut: bool) -> Found:
        failed, time = self.failed + self.failed_here, total_of(self.times)
        # results without their beginnings are what a tail or a grep left of a longer output
        if self.verbose and self.begun >= self.results and not cut:
            return Found(self.at, counted("go test", (self.passed, failed, self.skipped), time, broke=self.broke))
        success = not (failed or self.broke)
        return Found(self.at, TestRun("go test", None, failed, None, None, time, success))


def go_runs(text: str, cut: bool) -> Iterator[Found]:
    """All packages of one `go test` are one run. Only -v shows how many tests passed. Subtests are part of a test."""
    if "--- " not in text and "ok" not in text and "FAIL" not in text and "DONE" not in text:
        return
    go, after_package = _Go(), False
    for mark in _GO.finditer(text):
        result = mark["result"]
        if mark["done"]:
            yield Found(mark.start(), _gotestsum(mark["done"], mark["done_time"]))
            go, after_package = _Go(), False
        elif result or mark["run"]:
            go.verbose |= result != "FAIL"
            go.begun += result is None and "/" not in mark["run"]
            go.results += result is not None
            go.passed += result == "PASS"
            go.skipped += result == "SKIP"
            go.failed_here += result == "FAIL"
            after_package = False
        elif mark["ok"] or mark["failed"]:
            go.package(mark.start(), mark["time"] or mark["fail_time"], bool(mark["failed"]))
            after_package = True
        elif after_package and go.broke and mark["end"] == "FAIL":  # the bare FAIL after the last package ends it all
            yield go.run(cut)
            go, after_package = _Go(), False
        elif go.verbose and not after_package:
            go.at, go.ended, go.broke = mark.start(), True, go.broke or mark["end"] == "FAIL"
    if go.ended:
        yield go.run(cut)


def _gotestsum(done: str, time: str) -> TestRun:
    counts = tally(done)
    failed = sum(counts.get(word, 0) for word in ("failure", "failures", "error", "errors"))
    total = counts.get("tests", counts.get("test", 0))
    skipped = counts.get("skipped", 0)
    return counted("go test", (max(0, total - failed - skipped), failed, skipped), seconds(time))


def cargo_runs(text: str, cut: bool) -> Iterator[Found]:
    """All test binaries of one `cargo test` are one run; a new build begins the next."""
    if "test result: " not in text:
        return
    group: list[re.Match[str]] = []
    for mark in _CARGO.finditer(text):
        if mark["built"]:
            yield from _cargo(group, cut)
            group = []
        else:
            group.append(mark)
    yield from _cargo(group, cut)


def _cargo(group: list[re.Match[str]], cut: bool) -> Iterator[Found]:
    results = [mark for mark in group if mark["verdict"]]
    if not results:
        return
    fell_over = not cut and sum(mark["running"] is not None for mark in group) > len(results)
    run = counted(
        "cargo test",
        (
            sum(int(mark["passed"]) for mark in results),
            sum(int(mark["failed"]) for mark in results),
            sum(int(mark["ignored"]) for mark in results),
        ),
        total_of([seconds(mark["time"]) for mark in results]),
        broke=fell_over or any(mark["verdict"] == "FAILED" or mark["error"] for mark in group),
    )
    yield Found(results[-1].start(), run)


def nextest_runs(text: str) -> Iterator[Found]:
    """The "Summary" line of cargo nextest."""
    if "Summary [" not in text:
        return
    for mark in _NEXTEST.finditer(text):
        counts = tally(_NOTES.sub("", mark[3]))
        failed = sum(count for word, count in counts.items() if word in ("failed", "timed out", "exec failed"))
        yield Found(
            mark.start(),
            counted("cargo nextest", (counts.get("passed", 0), failed, counts.get("skipped", 0)), seconds(mark[1])),
        )


def ctest_runs(text: str) -> Iterator[Found]:
    """The percentage line. CMake counts skipped tests as passed and disabled ones not at all; a list below has both."""
    if "% tests passed" not in text:
        return
    found: list[tuple[int, int, int]] = []
    times: list[float | None] = []
    unrun: list[list[str]] = []
    for mark in _CTEST.finditer(text):
        if mark["percent"]:
            found.append((mark.start(), int(mark["total"]), int(mark["failed"])))
            times.append(None)
            unrun.append([])
        elif found and mark["time"]:
            times[-1] = seconds(mark["time"])
        elif found:
            unrun[-1].append(mark["unrun"])
    for (at, total, failed), time, names in zip(found, times, unrun, strict=True):
        passed = max(0, total - failed - names.count("Skipped"))
        yield Found(at, counted("ctest", (passed, failed, len(names)), time))
