"""Test runs of frameworks that print their whole result in one place: a row of a table for each.

Not here: frameworks whose result must be put together from many lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from helix_assets.derive.tests.run import Found, TestRun, counted, seconds


class _Form(NamedTuple):
    """A framework's summary, and a text that each of its summaries has.

    Numbers are the groups passed, failed, skipped and total, with a digit behind the name if several are added up.
    Where `passed` is missing it is the rest of `total`. The group `broke` is a word that says that the run failed.
    """

    framework: str
    hint: str
    summary: str


@cache
def _compiled(summary: str) -> re.Pattern[str]:
    """The pattern, made when first needed: most sweeps meet few of these frameworks."""
    summary = summary.replace("#", r"\d{1,9}").replace("<TIME>", r"(?P<time>\d{1,9}(?:\.\d{1,9})? ?(?:ms|s|m|h)?)")
    return re.compile(summary, re.M)


_FORMS = (
    _Form("bun test", " fail", r"^(?: *(?P<passed>#) pass\n)?(?: *# filtered out\n)?(?: *(?P<skipped1>#) skip\n)?"
          r"(?: *(?P<skipped2>#) todo\n)?(?: *# filtered out\n)? *(?P<failed1>#) fail$(?:\n *(?P<failed2>#) errors?$)?"
          r"(?:(?:\n *# [^\n]{1,80}){0,3}\nRan # tests? across # files?\.(?: \[<TIME>\])?)?"),
    _Form("deno test", " passed", r"^(?:ok|(?P<broke>FAILED)) \| (?P<passed>#) passed[^|\n]{0,40}"
          r"\| (?P<failed>#) failed[^|\n(]{0,40}(?:\(# steps?\) )?(?:\| (?P<skipped>#) ignored[^|\n(]{0,40})?"
          r"(?:\| [^|\n(]{1,40}){0,2}"
          r"(?:\(<TIME>\))?$"),
    _Form("googletest", "[==========] ", r"^\[={10}\] (?P<total>#) tests? from # test (?:suite|case)s? ran\."
          r"(?: \(<TIME> total\))?\n\[  PASSED  \] # tests?\.(?:\n\[  SKIPPED \] (?P<skipped>#) tests?, listed below:"
          r"(?:\n\[  SKIPPED \] [^\d\n][^\n]{0,400})*)?(?:\n\[  FAILED  \] (?P<failed>#) tests?, listed below:)?"),
    _Form("catch2", "assertion", r"^All tests passed \(# assertions? in (?P<total1>#) test cases?\)$"
          r"|^test cases: *(?P<total2>#)(?: \| *(?P<passed>#) passed)?(?: \| *(?P<failed>#) failed)?"
          r"(?: \| *(?P<skipped1>#) skipped)?(?: \| *(?P<skipped2>#) failed as expected)?$"),
    _Form("xctest", "Executed ", r"^Test Suite '(?:All|Selected) tests' (?:passed|failed) at [^\n]{1,80}\n"
          r"[ \t]+Executed (?P<total>#) tests?, with (?:(?P<skipped>#) tests? skipped and )?(?P<failed>#) failures?"
          r" \(# unexpected\) in "),
    _Form("dart test", " tests ", r"^(?:#:)?#:# \+(?P<passed>#)(?: ~(?P<skipped>#))?(?: -(?P<failed>#))?:"
          r" (?:All tests (?:passed!|skipped\.)|Some tests failed\.)$"),
    _Form("mix test", "Finished in ", r"^Finished in <TIME>(?:econds)?(?: \([^)\n]{1,60}\))?\n(?:# doctests?, )?"
          r"(?:# propert\w{1,3}, )?(?P<total>#) tests?, (?P<failed1>#) failures?(?:, # excluded)?"
          r"(?:, (?P<failed2>#) invalid)?(?:, (?P<skipped>#) skipped)?$"),
    _Form("scalatest", "Tests: succeeded ", r"^(?:\[info\] )?Tests: succeeded (?P<passed>#), failed (?P<failed>#),"
          r" canceled (?P<skipped1>#), ignored (?P<skipped2>#), pending (?P<skipped3>#)$"),
    _Form("forge test", " total tests)", r"^Ran # test suites?[^:\n]{0,80}: (?P<passed>#) tests passed,"
          r" (?P<failed>#) failed, (?P<skipped>#) skipped \(# total tests\)"),
    _Form("jasmine", " spec", r"^(?P<total>#) specs?, (?P<failed>#) failures?(?:, (?P<skipped>#) pending specs?)?$"),
    _Form("ava", " passed", r"^  (?:(?P<failed>#) tests? failed\n  )?(?:# known failures?\n  )?"
          r"(?P<passed>#) tests? passed$(?:\n  (?P<skipped1>#) tests? skipped$)?(?:\n  (?P<skipped2>#) tests? todo$)?"),
    _Form("pester", "Tests Passed: ", r"^Tests Passed: (?P<passed>#), Failed: (?P<failed>#), Skipped: (?P<skipped>#)"),
)  # fmt: skip


def short_runs(text: str) -> Iterator[Found]:
    """The summaries of all frameworks of the table."""
    for form in _FORMS:
        if form.hint in text:
            for mark in _compiled(form.summary).finditer(text):
                yield Found(mark.start(), _run(form.framework, mark))


def _run(framework: str, mark: re.Match[str]) -> TestRun:
    numbers: dict[str, int] = {}
    for name, number in mark.groupdict().items():
        if number is not None and name not in ("time", "broke"):
            kind = name.rstrip("123")
            numbers[kind] = numbers.get(kind, 0) + int(number)
    failed, skipped = numbers.get("failed", 0), numbers.get("skipped", 0)
    groups = mark.groupdict()
    time, broke = seconds(groups.get("time")), bool(groups.get("broke"))
    if "passed" not in numbers and "total" not in numbers:  # only the end of the summary is left
        return TestRun(framework, failed=failed, duration_s=time, success=not failed)
    passed = numbers.get("passed", max(0, numbers.get("total", 0) - failed - skipped))
    return counted(framework, (passed, failed, skipped), time, broke=broke)
