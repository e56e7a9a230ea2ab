"""Test runs of maven surefire, gradle, dotnet test, rspec, minitest and phpunit."""

from __future__ import annotations

import re
from collections.abc import Iterator

from helix_assets.derive.tests.run import Found, TestRun, counted, seconds, tally, total_of

_MAVEN = re.compile(
    r"^(?:\[[A-Z]{4,7}\] +)?Tests run: (?P<run>\d{1,9}), Failures: (?P<failures>\d{1,9}), Errors: (?P<errors>\d{1,9}),"
    r" Skipped: (?P<skipped>\d{1,9})(?:, Flakes: \d{1,9})?"
    r"(?P<of_class>, Time elapsed: (?P<time>\d{1,9}(?:[.,]\d{1,9})? ?s))?"
    r"|^(?:\[[A-Z]{4,7}\] +)?BUILD (?P<end>SUCCESS|FAILURE)$"
    r"|^(?:\[[A-Z]{4,7}\] +)?[^\n]{0,300}"
    r"(?P<crash>The forked VM terminated|There was a timeout or other error in the fork)",
    re.M,
)
_GRADLE = re.compile(
    r"^(?P<total>\d{1,9}) tests? completed(?:, (?P<failed>\d{1,9}) failed)?(?:, (?P<skipped>\d{1,9}) skipped)?$"
    r"|^ *(?:SUCCESS|FAILURE): Executed (?P<executed>\d{1,9}) tests? in (?P<time>[^(\n]{1,40})"
    r"(?: ?\((?P<more>[^)\n]{1,80})\))?$"
    r"|^(?=\S)[^\n>]{1,300} > [^\n]{1,300} (?P<single>PASSED|FAILED|SKIPPED)(?: \([^)\n]{1,20}\))?$"
    r"|^BUILD (?P<end>SUCCESSFUL|FAILED)",
    re.M,
)
_DOTNET = re.compile(
    r"^ *(?:Passed|Failed|Skipped)! +- Failed: +(?P<failed>\d{1,9}), Passed: +(?P<passed>\d{1,9}),"
    r" Skipped: +(?P<skipped>\d{1,9}), Total: +\d{1,9}(?:, Duration: (?P<time>[\d.,<mshin ]{1,40}))?"
    r"|^ *Test summary: (?P<summary>total: [^\n]{1,200})$"
    r"|^(?P<old>Total tests): (?:\d{1,9}|Unknown)$"
    r"|^(?P<new>Test run summary): "
    r"|^ +(?P<word>Passed|Failed|Skipped|Total time|failed|succeeded|skipped|duration): (?P<value>\d[^\n]{0,40})$"
    r"|^(?P<crash>The active test run was aborted)",
    re.M,
)
_SUMMED = re.compile(r"(total|failed|succeeded|skipped|duration): ([^,]{1,40})")
_RSPEC = re.compile(
    r"^(?P<examples>\d{1,9}) examples?, (?P<failed>\d{1,9}) failures?(?:, (?P<pending>\d{1,9}) pending)?"
    r"(?:, (?P<errors>\d{1,9}) errors? occurred outside of examples)?$"
    r"|^Finished in (?P<time>\d[\w. ]{0,60})",
    re.M,
)
_MINITEST = re.compile(
    r"^(?P<runs>\d{1,9}) (?:runs|tests), \d{1,9} assertions, (?P<failed>\d{1,9}) failures, (?P<errors>\d{1,9}) errors"
    r"(?:, (?P<skips>\d{1,9}) (?:skips|pendings))?(?:, (?P<omitted>\d{1,9}) omissions)?"
    r"|^Finished in (?P<time>\d[\w.]{0,20}(?: seconds)?)",
    re.M,
)
_PHPUNIT = re.compile(
    r"^OK \((?P<ok>\d{1,9}) tests?, \d{1,9} assertions?\)$"
    r"|^Tests: (?P<total>\d{1,9}), Assertions: \d{1,9}(?P<more>(?:, [A-Z][\w ]{1,30}: \d{1,9})*)\.$"
    r"|^ *Tests: +(?P<pest>\d{1,9} [a-z]+(?:, \d{1,9} [a-z]+)*) \(\d{1,9} assertions?\)$"
    r"|^(?:Time| *Duration): +(?P<time>\d[\d:.]{0,20}(?: ?(?:ms|s|seconds?|minutes?))?)",
    re.M,
)
_ISSUES = re.compile(r"(Errors|Failures|Skipped|Incomplete): (\d{1,9})")


def maven_runs(text: str) -> Iterator[Found]:
    """All modules of one build are one run: the totals, or the lines of classes if there is no total."""
    if "Tests run: " not in text:
        return
    group: list[re.Match[str]] = []
    for mark in _MAVEN.finditer(text):
        group.append(mark)
        if mark["end"]:
            yield from _maven(group)
            group = []
    yield from _maven(group)


def _maven(group: list[re.Match[str]]) -> Iterator[Found]:
    classes = [mark for mark in group if mark["of_class"]]
    lines = [mark for mark in group if mark["run"] and not mark["of_class"]] or classes
    if not lines:
        return
    failed = sum(int(mark["failures"]) + int(mark["errors"]) for mark in lines)
    skipped = sum(int(mark["skipped"]) for mark in lines)
    passed = sum(int(mark["run"]) for mark in lines) - failed - skipped
    time = total_of([seconds(mark["time"].replace(",", ".")) for mark in classes])
    crashed = any(mark["crash"] for mark in group)
    yield Found(lines[-1].start(), counted("maven", (max(0, passed), failed, skipped), time, broke=crashed))


def gradle_runs(text: str) -> Iterator[Found]:
    """Gradle prints counts only if a test failed, or a line per test if the build is set so."""
    if (
        " > " not in text
        and " tests completed" not in text
        and ": Executed " not in text
        and " test completed" not in text
    ):
        return
    group: list[re.Match[str]] = []
    for mark in _GRADLE.finditer(text):
        if mark["end"]:
            yield from _gradle(group)
            group = []
        else:
            group.append(mark)
    yield from _gradle(group)


def _gradle(group: list[re.Match[str]]) -> Iterator[Found]:
    totals = [mark for mark in group if mark["total"]]
    executed = [mark for mark in group if mark["executed"]]
    if executed:
        more = [tally(mark["more"] or "") for mark in executed]
        failed, skipped = (sum(counts.get(word, 0) for counts in more) for word in ("failed", "skipped"))
        total, at = sum(int(mark["executed"]) for mark in executed), executed[-1].start()
    elif totals:
        failed, skipped = (sum(int(mark[word] or 0) for mark in totals) for word in ("failed", "skipped"))
        total, at = sum(int(mark["total"]) for mark in totals), totals[-1].start()
    else:
        singles = [mark["single"] for mark in group if mark["single"]]
        if not singles:
            return
        failed, skipped, total, at = singles.count("FAILED"), singles.count("SKIPPED"), len(singles), group[-1].start()
        if failed == total:  # only failures are printed by default
            yield Found(at, TestRun("gradle", None, failed, None, None, None, False))
            return
    time = total_of([seconds(mark["time"]) for mark in executed])
    yield Found(at, counted("gradle", (max(0, total - failed - skipped), failed, skipped), time))


def dotnet_runs(text: str) -> Iterator[Found]:
    """A line per test project, added up, or the summary of the whole run, in any of three forms."""
    if not any(
        word in text for word in ("! - Failed:", "!  - Failed:", "Test summary:", "Total tests:", "Test run summary:")
    ):
        return
    projects: list[re.Match[str]] = []
    at, counts, crashed = -1, dict[str, str](), False
    for mark in _DOTNET.finditer(text):
        if mark["summary"]:
            at, counts = mark.start(), dict(_SUMMED.findall(mark["summary"]))
        elif mark["old"] or mark["new"]:
            at, counts = mark.start(), {}
        elif mark["crash"]:
            crashed = True
        elif mark["word"]:
            if at >= 0:
                counts.setdefault(_DOTNET_WORDS.get(mark["word"], mark["word"]), mark["value"])
        else:
            projects.append(mark)
    if at >= 0:
        passed, failed, skipped = (_leading(counts.get(word)) for word in ("succeeded", "failed", "skipped"))
        time = seconds(counts.get("duration"))
        yield Found(at, counted("dotnet test", (passed, failed, skipped), time, broke=crashed))
    elif projects:
        passed, failed, skipped = (
            sum(int(mark[word]) for mark in projects) for word in ("passed", "failed", "skipped")
        )
        time = total_of([seconds(mark["time"]) for mark in projects])
        yield Found(projects[-1].start(), counted("dotnet test", (passed, failed, skipped), time, broke=crashed))


_DOTNET_WORDS = {"Passed": "succeeded", "Failed": "failed", "Skipped": "skipped", "Total time": "duration"}


def _leading(text: str | None) -> int:
    digits = re.match(r"\d{1,9}", text or "")
    return int(digits[0]) if digits else 0


def rspec_runs(text: str) -> Iterator[Found]:
    """ "5 examples, 1 failure, 1 pending"; an error outside of the examples counts as failed."""
    if " example" not in text:
        return
    time: str | None = None
    for mark in _RSPEC.finditer(text):
        if mark["time"]:
            time = mark["time"]
            continue
        failures, pending, errors = (int(mark[word] or 0) for word in ("failed", "pending", "errors"))
        passed = max(0, int(mark["examples"]) - failures - pending)
        yield Found(mark.start(), counted("rspec", (passed, failures + errors, pending), seconds(time)))
        time = None


def minitest_runs(text: str) -> Iterator[Found]:
    """ "5 runs, 10 assertions, 1 failures, 0 errors, 1 skips". Test-unit writes "tests" and has more counts."""
    if " assertions, " not in text:
        return
    time: str | None = None
    for mark in _MINITEST.finditer(text):
        if mark["time"]:
            time = mark["time"]
            continue
        failed = int(mark["failed"]) + int(mark["errors"])
        skipped = int(mark["skips"] or 0) + int(mark["omitted"] or 0)
        passed = max(0, int(mark["runs"]) - failed - skipped)
        yield Found(mark.start(), counted("minitest", (passed, failed, skipped), seconds(time)))
        time = None


def phpunit_runs(text: str) -> Iterator[Found]:
    """PHPUnit's last line, the time above it; Pest's and Artisan's with the time below. Risky tests have passed."""
    if " assertion" not in text and ", Assertions: " not in text:
        return
    time: str | None = None
    pest: Found | None = None
    for mark in _PHPUNIT.finditer(text):
        if mark["time"]:
            time = mark["time"]
            if pest:
                yield pest._replace(run=pest.run._replace(duration_s=seconds(time)))
                pest = time = None
        elif mark["pest"]:
            pest = Found(mark.start(), _pest(tally(mark["pest"])))
        else:
            issues = {word: int(number) for word, number in _ISSUES.findall(mark["more"] or "")}
            failed = issues.get("Errors", 0) + issues.get("Failures", 0)
            skipped = issues.get("Skipped", 0) + issues.get("Incomplete", 0)
            passed = max(0, int(mark["ok"] or mark["total"]) - failed - skipped)
            yield Found(mark.start(), counted("phpunit", (passed, failed, skipped), seconds(time)))
            time = None
    if pest:
        yield pest


def _pest(counts: dict[str, int]) -> TestRun:
    skipped = sum(counts.get(word, 0) for word in ("skipped", "incomplete", "todo", "todos"))
    others = sum(counts.get(word, 0) for word in ("passed", "risky", "warning", "warnings", "deprecated", "notice"))
    return counted("phpunit", (others, counts.get("failed", 0), skipped))
