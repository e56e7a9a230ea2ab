"""Test runs read from what a command printed: the counts, and whether they passed.

Belongs here: text in, runs out, in time linear in the text. Not here: what a command line says (`derive.commands`).
The rules with their reasons: docs/formats/test-runs.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from helix_assets.derive.tests.compiled import cargo_runs, ctest_runs, go_runs, nextest_runs
from helix_assets.derive.tests.javascript import jest_runs, mocha_runs, node_runs, playwright_runs, vitest_runs
from helix_assets.derive.tests.managed import (
    dotnet_runs,
    gradle_runs,
    maven_runs,
    minitest_runs,
    phpunit_runs,
    rspec_runs,
)
from helix_assets.derive.tests.python import pytest_runs, unittest_runs
from helix_assets.derive.tests.run import Found, TestRun
from helix_assets.derive.tests.short import short_runs
from helix_assets.derive.tests.text import readable, without_prefixes

__all__ = ["TestRun", "parse_test_runs"]

SCRIPT = "script"
"""The name in `derive.commands` of a command that may or may not run tests: only a summary makes it a run."""
MAKE = "make"
"""A target named after tests may do anything: without a summary only another sign of tests makes it a run."""
MOST_RUNS = 100
"""If one output contains more runs, only the last ones count."""

_READERS: tuple[Callable[[str], Iterator[Found]], ...] = (
    pytest_runs, unittest_runs, jest_runs, vitest_runs, mocha_runs, node_runs, playwright_runs, nextest_runs,
    ctest_runs, maven_runs, gradle_runs, dotnet_runs, rspec_runs, minitest_runs, phpunit_runs, short_runs,
)  # fmt: skip
_TIME_WORDS = ("imed out", "Timeout of ", "Terminated")
_TIMED_OUT = re.compile(r"^(?:Error: )?[Cc]ommand timed out|^(?:Error: )?Timeout of \d{1,9}|^Terminated$", re.M)
_BROKEN = re.compile(
    r"^(?:FAILED|ERROR) \S+(?:::| - )|^INTERNALERROR>|^(?:FAIL|ERROR): \w+ \(|^--- FAIL: |^FAIL[ \t]\S|^not ok \d"
    r"|^test \S+ \.\.\. FAILED$|^error: (?:could not compile|test failed)|^make(?:\[\d+\])?: \*\*\* "
    r"|^npm (?:ERR!|error)|^ ?ERR_PNPM_|^(?:\[[A-Z]{4,7}\] )?BUILD FAIL|^  evaluation failed :\("
    r"|^Segmentation fault|Fatal Python error: |^\(fail\) \S",
    re.M,
)
_BEGUN = (
    ("pytest", re.compile(r"^=+ test session starts =+$", re.M)),
    ("vitest", re.compile(r"^ *(?:RUN|DEV) +v\d", re.M)),
    ("playwright", re.compile(r"^Running \d{1,9} tests? using ", re.M)),
    ("go test", re.compile(r"^=== RUN  ", re.M)),
    ("cargo test", re.compile(r"^running \d{1,9} tests?$", re.M)),
    ("ctest", re.compile(r"^Test project /", re.M)),
    ("bun test", re.compile(r"^bun test v\d", re.M)),
    ("unittest", re.compile(r"^Found \d{1,9} test\(s\)\.$", re.M)),
)
# One run of these prints a summary per package.
_MANY_SUMMARIES = {"go test", "cargo test"}


def parse_test_runs(
    output: str, *, framework: str | None, exit_code: int | None, timed_out: bool = False
) -> list[TestRun]:
    """The test runs in a command's output, in order.

    `framework` is from the command line (`derive.commands.test_framework`). None means that it does not run tests and
    yields nothing, whatever the output looks like. A command that runs tests but prints no summary yields one run
    without counts. The exit code, which is that of the whole command, counts only without a summary.
    """
    if framework is None:
        return []
    text, cut = readable(output)
    found = _found(text, cut)
    if not found:
        bare = without_prefixes(text)
        if bare != text:
            text, found = bare, _found(bare, cut)
    timed_out = timed_out or (any(word in text for word in _TIME_WORDS) and _TIMED_OUT.search(text) is not None)
    if found:
        rest = text[found[-1].at :] if timed_out or exit_code else ""
        return _with_unfinished([_settled(item.run, exit_code) for item in found], rest)
    if framework == SCRIPT or (framework == MAKE and not (timed_out or _begun(text) or _BROKEN.search(text))):
        return []
    return [TestRun(_begun(text) or framework, success=_verdict(text, exit_code, timed_out))]


def _found(text: str, cut: bool) -> list[Found]:
    found = [item for reader in _READERS for item in reader(text)]
    found += [*go_runs(text, cut), *cargo_runs(text, cut)]
    return sorted(found, key=lambda item: item.at)[-MOST_RUNS:]


def _begun(text: str) -> str | None:
    """The framework that announced itself last."""
    marks = [(match.start(), name) for name, pattern in _BEGUN for match in pattern.finditer(text)]
    return max(marks)[1] if marks else None


def _settled(run: TestRun, exit_code: int | None) -> TestRun:
    """The run; one without any test is judged by the exit code, because some frameworks call that a failure."""
    return run._replace(success=exit_code == 0) if run.success is None and exit_code is not None else run


def _with_unfinished(runs: list[TestRun], rest: str) -> list[TestRun]:
    """The runs, and one that began after the last summary and did not print its own; `rest` is the text from there."""
    name = _begun(rest)
    if name is None:
        return runs
    if name in _MANY_SUMMARIES and name == runs[-1].framework:
        return [*runs[:-1], runs[-1]._replace(success=False)]
    return [*runs, TestRun(name, success=False)]


def _verdict(text: str, exit_code: int | None, timed_out: bool) -> bool | None:
    """Success without a summary. A pipe hides the exit code, so traces of failure count more than a zero."""
    if timed_out or exit_code or _BROKEN.search(text):
        return False
    return None if exit_code is None else True
