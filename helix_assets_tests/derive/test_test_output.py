"""Runs and counts read from real outputs; the expectations are hand-written, each beside its file and exit code."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix_assets.derive import tests
from helix_assets.derive.tests import parse_test_runs

OUTPUTS = Path(__file__).parent.parent / "fixtures" / "test_output"

# (file, what the command says, exit code, [(framework, passed, failed, skipped, seconds, success), ...])
TABLE = [
    ("pytest/bars", "pytest", 1, [("pytest", 6, 1, 2, 0.65, False)]),
    ("pytest/quiet", "pytest", 1, [("pytest", 6, 1, 2, 0.84, False)]),
    ("pytest/color", "pytest", 1, [("pytest", 6, 1, 2, 0.91, False)]),
    ("pytest/collection_error", "pytest", 2, [("pytest", 0, 1, 0, 0.67, False)]),
    ("pytest/nothing_selected", "pytest", 5, [("pytest", 0, 0, 0, 0.44, False)]),
    ("pytest/no_such_file", "pytest", 4, [("pytest", 0, 0, 0, 0.0, False)]),
    ("pytest/xdist_crash", "pytest", 1, [("pytest", 209, 1, 2, 62.41, False)]),
    ("pytest/quoted_summary", "pytest", 1, [("pytest", 3, 1, 0, 0.52, False)]),
    ("pytest/two_runs", "pytest", 1, [("pytest", 12, 0, 0, 0.31, True), ("pytest", 2, 1, 1, 2.04, False)]),
    ("pytest/last_line_only", "pytest", 0, [("pytest", 204, 0, 4, 18.9, True)]),
    ("pytest/old_style", "pytest", 1, [("pytest", 4, 2, 0, 0.12, False)]),
    ("pytest/interrupted", "pytest", 2, [("pytest", 4, 0, 0, 9.12, False)]),
    (
        "pytest/second_run_hangs",
        "pytest",
        None,
        [("pytest", 2, 0, 0, 0.02, True), ("pytest", None, None, None, None, False)],
    ),
    ("pytest/segfault", "pytest", 139, [("pytest", None, None, None, None, False)]),
    ("pytest/failures_grepped", "pytest", 0, [("pytest", None, None, None, None, False)]),
    ("unittest/failed", "unittest", 1, [("unittest", 1, 2, 2, 0.001, False)]),
    ("unittest/import_error", "unittest", 1, [("unittest", 0, 1, 0, 0.0, False)]),
    ("unittest/ok", "unittest", 0, [("unittest", 1, 0, 0, 0.0, True)]),
    ("unittest/django", "unittest", 0, [("unittest", 23, 0, 0, 1.204, True)]),
    ("unittest/set_up_of_class_fails", "unittest", 1, [("unittest", 0, 1, 0, 0.003, False)]),
    ("unittest/nothing_ran", "unittest", 5, [("unittest", 0, 0, 0, 0.0, False)]),
    ("jest/ok", "jest", 0, [("jest", 1, 0, 0, 0.309, True)]),
    ("jest/color", "npm test", 1, [("jest", 1, 1, 2, 0.146, False)]),
    ("jest/suite_that_does_not_load", "jest", 1, [("jest", 2, 2, 2, 0.6, False)]),
    ("jest/summary_repeated_above", "jest", 1, [("jest", 41, 2, 0, 65.2, False)]),
    ("jest/bail", "jest", 1, [("jest", 2, 1, 0, 1.11, False)]),
    ("jest/workspaces", "npm test", 1, [("jest", 8, 0, 0, 0.9, True), ("jest", 3, 2, 0, 2.1, False)]),
    ("jest/tail_only", "jest", 0, [("jest", 3, 0, 0, None, True)]),
    ("vitest/ok", "vitest", 0, [("vitest", 15, 0, 0, 1.24, True)]),
    ("vitest/color", "npm test", 1, [("vitest", 1, 1, 2, 0.267, False)]),
    ("vitest/suite_that_does_not_load", "vitest", 1, [("vitest", 1, 2, 2, 0.421, False)]),
    ("vitest/nothing_loads", "vitest", 1, [("vitest", 0, 1, 0, 0.301, False)]),
    ("vitest/unhandled_error", "vitest", 1, [("vitest", 4, 0, 0, 0.612, False)]),
    ("mocha/ok", "mocha", 0, [("mocha", 2, 0, 0, 1.0, True)]),
    ("mocha/failed", "mocha", 1, [("mocha", 2, 1, 1, 0.002, False)]),
    ("mocha/color", "npm test", 1, [("mocha", 2, 1, 1, 0.002, False)]),
    ("mocha/hook_fails", "mocha", 1, [("mocha", 0, 1, 0, 0.012, False)]),
    ("node/tap", "node:test", 1, [("node:test", 3, 1, 2, 0.148532, False)]),
    ("node/spec", "npm test", 1, [("node:test", 3, 1, 2, 0.184043, False)]),
    ("node/without_its_first_lines", "node:test", 1, [("node:test", 9, 1, 0, 1.0215, False)]),
    ("playwright/ok", "playwright", 0, [("playwright", 3, 0, 0, 72.0, True)]),
    ("playwright/failed", "playwright", 1, [("playwright", 5, 1, 3, 12.4, False)]),
    ("playwright/outside_of_tests", "playwright", 1, [("playwright", 0, 1, 2, None, False)]),
    ("playwright/tail_all_failed", "playwright", 0, [("playwright", 0, 2, 0, None, False)]),
    ("go/quiet_ok", "go test", 0, [("go test", None, 0, None, 0.012, True)]),
    ("go/quiet_failed", "go test", 1, [("go test", None, 2, None, 0.013, False)]),
    ("go/verbose", "go test", 1, [("go test", 2, 1, 1, 0.31, False)]),
    ("go/tail_of_verbose", "go test", 0, [("go test", None, 0, None, 0.31, True)]),
    ("go/panic", "go test", 1, [("go test", 1, 1, 0, 0.005, False)]),
    ("go/two_runs", "go test", 0, [("go test", 1, 1, 0, 0.005, False), ("go test", 1, 0, 0, 0.001, True)]),
    ("go/gotestsum", "go test", 1, [("go test", 12, 1, 1, 0.214, False)]),
    ("go/killed", "go test", 137, [("go test", 1, 0, 0, 0.005, False)]),
    ("cargo/ok", "cargo test", 0, [("cargo test", 4, 0, 1, 0.0, True)]),
    ("cargo/stops_at_first_binary", "cargo test", 101, [("cargo test", 1, 1, 1, 0.07, False)]),
    ("cargo/no_fail_fast", "cargo test", 101, [("cargo test", 3, 1, 1, 0.11, False)]),
    ("cargo/crash", "cargo test", 101, [("cargo test", 2, 0, 1, 0.0, False)]),
    ("cargo/does_not_compile", "cargo test", None, [("cargo test", None, None, None, None, False)]),
    ("nextest/failed", "cargo nextest", 100, [("cargo nextest", 5, 2, 2, 2.011, False)]),
    ("nextest/stopped_early", "cargo nextest", 100, [("cargo nextest", 2, 1, 0, 0.055, False)]),
    ("rspec/failed", "rspec", 1, [("rspec", 2, 1, 1, 62.35, False)]),
    ("rspec/does_not_load", "rspec", 1, [("rspec", 0, 1, 0, 0.00004, False)]),
    ("minitest/rails", "minitest", 1, [("minitest", 6, 1, 1, 0.412345, False)]),
    ("minitest/test_unit", "minitest", 1, [("minitest", 1, 1, 0, 0.001, False)]),
    ("phpunit/ok", "phpunit", 0, [("phpunit", 9, 0, 0, 0.042, True)]),
    ("phpunit/failed", "phpunit", 2, [("phpunit", 5, 2, 2, 1.25, False)]),
    ("phpunit/pest", "phpunit", 1, [("phpunit", 11, 1, 1, 0.35, False)]),
    ("maven/two_modules", "maven", 1, [("maven", 4, 2, 1, 1.251, False)]),
    ("maven/does_not_compile", "maven", 1, [("maven", None, None, None, None, False)]),
    ("maven/cut_before_the_total", "maven", 1, [("maven", 5, 1, 0, 0.07, False)]),
    ("maven/fork_crashes", "maven", 1, [("maven", 0, 0, 0, None, False)]),
    ("gradle/ok", "gradle", 0, [("gradle", None, None, None, None, True)]),
    ("gradle/failed", "gradle", 1, [("gradle", 9, 1, 2, None, False)]),
    ("gradle/told_per_test", "gradle", 0, [("gradle", 2, 0, 1, None, True)]),
    ("gradle/test_logger", "gradle", 1, [("gradle", 6, 1, 2, 4.2, False)]),
    ("dotnet/two_projects", "dotnet test", 1, [("dotnet test", 10, 1, 1, 1.12, False)]),
    ("dotnet/terminal_logger", "dotnet test", 1, [("dotnet test", 7, 1, 1, 1.1, False)]),
    ("dotnet/verbose", "dotnet test", 0, [("dotnet test", 4, 0, 1, 0.8831, True)]),
    ("dotnet/testing_platform", "dotnet test", 2, [("dotnet test", 4, 2, 0, 1.204, False)]),
    ("dotnet/host_crashes", "dotnet test", 1, [("dotnet test", 2, 0, 0, 1.5, False)]),
    ("ctest/ok", "ctest", 0, [("ctest", 1, 0, 0, 0.0, True)]),
    ("ctest/failed_skipped_disabled", "make", 8, [("ctest", 1, 2, 2, 1.01, False)]),
    ("bun/ok", "bun test", 0, [("bun test", 28, 0, 0, 0.255, True)]),
    ("bun/failed", "npm test", 1, [("bun test", 10, 2, 3, 1.2, False)]),
    ("bun/filtered", "bun test", 0, [("bun test", 1, 0, 0, 0.061, True)]),
    ("bun/error_between_tests", "bun test", 1, [("bun test", 4, 1, 0, 0.1, False)]),
    ("bun/counts_grepped", "bun test", 0, [("bun test", 770, 0, 0, None, True)]),
    ("bun/last_lines_only", "bun test", 0, [("bun test", None, 0, None, 45.38, True)]),
    ("bun/last_line_only", "bun test", 0, [("bun test", None, None, None, None, True)]),
    ("bun/two_packages", "script", 1, [("bun test", 3, 0, 0, 0.012, True), ("bun test", 0, 1, 0, 0.02, False)]),
    ("bun/killed", "bun test", 143, [("bun test", None, None, None, None, False)]),
    ("short/deno", "script", 1, [("deno test", 3, 1, 1, 0.012, False)]),
    ("short/deno_ok", "script", 0, [("deno test", 1, 0, 0, 0.003, True)]),
    ("short/googletest", "script", 1, [("googletest", 2, 1, 1, 0.005, False)]),
    ("short/catch2", "script", 0, [("catch2", 2, 0, 0, None, True)]),
    ("short/catch2_failed", "script", 1, [("catch2", 2, 1, 0, None, False)]),
    ("short/xctest", "script", 1, [("xctest", 2, 1, 1, None, False)]),
    ("short/dart", "script", 1, [("dart test", 4, 1, 1, None, False)]),
    ("short/mix", "script", 2, [("mix test", 13, 1, 1, 0.05, False)]),
    ("short/scalatest", "script", 1, [("scalatest", 5, 1, 3, None, False)]),
    ("short/forge", "script", 1, [("forge test", 6, 1, 0, None, False)]),
    ("short/jasmine", "jasmine", 1, [("jasmine", 3, 1, 1, None, False)]),
    ("short/ava", "ava", 1, [("ava", 2, 1, 1, None, False)]),
    ("short/pester", "script", 1, [("pester", 5, 1, 2, None, False)]),
    ("wrappers/tox", "tox", 1, [("pytest", 3, 0, 0, 0.05, True), ("pytest", 2, 1, 0, 0.06, False)]),
    ("wrappers/tox_cannot_install", "tox", None, [("tox", None, None, None, None, False)]),
    ("wrappers/nox", "nox", 0, [("pytest", 5, 0, 0, 0.11, True)]),
    (
        "wrappers/make_runs_three",
        "make",
        0,
        [("pytest", 2, 0, 0, 0.01, True), ("jest", 4, 0, 0, 0.4, True), ("go test", None, 0, None, 0.003, True)],
    ),
    ("wrappers/make_without_tests", "make", 2, [("make", None, None, None, None, False)]),
    ("wrappers/make_without_tests", "script", 2, []),
    ("wrappers/docker_compose", "npm test", 0, [("jest", 2, 0, 0, 1.0, True)]),
    ("wrappers/carriage_returns", "pytest", 0, [("pytest", 16, 0, 0, 0.2, True)]),
    ("none/prose", "script", 0, []),
    ("none/prose", "make", 0, []),
]  # fmt: skip


def read(name: str) -> str:
    return (OUTPUTS / f"{name}.txt").read_bytes().decode()


def brief(run: tests.TestRun) -> tuple[object, ...]:
    return (run.framework, run.passed, run.failed, run.skipped, run.duration_s, run.success)


@pytest.mark.parametrize(("name", "says", "exit_code", "expected"), TABLE, ids=[f"{row[0]}-{row[1]}" for row in TABLE])
def test_output_gives_its_runs(name: str, says: str, exit_code: int | None, expected: list[tuple[object, ...]]):
    assert [brief(run) for run in parse_test_runs(read(name), framework=says, exit_code=exit_code)] == expected


def test_every_output_is_in_the_table():
    files = {f"{path.parent.name}/{path.stem}" for path in OUTPUTS.glob("*/*.txt")}
    assert files == {row[0] for row in TABLE}


@pytest.mark.parametrize("name", sorted({row[0] for row in TABLE}))
def test_command_that_runs_no_tests_gives_nothing_whatever_it_prints(name: str):
    assert parse_test_runs(read(name), framework=None, exit_code=0) == []


def test_total_is_the_sum_of_the_counts():
    (run,) = parse_test_runs(read("pytest/bars"), framework="pytest", exit_code=1)
    assert (run.total, run.passed, run.failed, run.skipped) == (9, 6, 1, 2)


@pytest.mark.parametrize(
    ("exit_code", "timed_out", "success"),
    [(0, False, True), (2, False, False), (None, False, None), (None, True, False)],
)
def test_run_without_a_summary_is_judged_by_how_it_ended(exit_code: int | None, timed_out: bool, success: bool | None):
    runs = parse_test_runs("collecting ...", framework="pytest", exit_code=exit_code, timed_out=timed_out)
    assert runs == [tests.TestRun("pytest", success=success)]


def test_truncated_middle_leaves_counts_that_are_counted_by_line_unknown():
    text = read("go/verbose").replace("=== RUN   TestNet\n", "[... 812 lines truncated ...]\n")
    (run,) = parse_test_runs(text, framework="go test", exit_code=1)
    assert (run.passed, run.success) == (None, False)


def test_last_summary_of_a_huge_output_is_found():
    text = "noise " * 200_000 + "\n" + "line of a log\n" * 100_000 + read("jest/ok")
    assert parse_test_runs(text, framework="jest", exit_code=0)[0].passed == 1


HOSTILE = [
    "9" * 1_000_000,
    "1 passed, " * 100_000,
    "=" * 1_000_000,
    "Tests:" + " " * 1_000_000 + "1 total",
    "\n" * 1_000_000,
    "Ran 1 test in 0.1s\n" * 50_000,
    "\x1b[" * 500_000,
    "[" * 1_000_000,
    "!" * 1_000_000,
    "a > " * 250_000 + "\n A > b PASSED" * 10_000,
    "--- FAIL: x (\n" * 70_000,
    "running 1 test\n" * 60_000,
    "=== FAILURES ===\n1 passed in 1s\n" * 30_000,
    "[INFO] " + "x" * 1_000_000 + "\nTests run: 1, ",
    "  1 failed\n \u203a " * 70_000,
    "…1 truncated" * 80_000,
    " 1 pass\n 1 filtered out\n 1 skip\n" * 40_000 + " 1 fail",
    " " * 1_000_000 + "1 fail",
    " \n" * 400_000 + " 1 fail\n 1 x",
    "[==========] 1 test from 1 test suite ran.\n[  PASSED  ] 1 test.\n"
    + "[  SKIPPED ] 1 test, listed below:\n" * 20_000,
    "[==========] 1 test from 1 test suite ran.\n[  PASSED  ] 1 test.\n[  SKIPPED ] 1 test, listed below:"
    + "\n[  SKIPPED ] x" * 50_000,
    "ok | 1 passed | 1 failed " + "| " * 400_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:12].encode("unicode_escape").decode())
def test_hostile_megabyte_is_read_in_no_time(text: str):
    began = time.process_time()
    parse_test_runs(text, framework="make", exit_code=1)
    assert time.process_time() - began < 2  # a machine under load included; what is quadratic takes minutes


@given(st.lists(st.sampled_from([line for row in TABLE for line in read(row[0]).splitlines()] + ["", "\x1b[", "…"])))
def test_any_mixture_of_lines_gives_counts_that_add_up(lines: list[str]):
    for run in parse_test_runs("\n".join(lines), framework="make", exit_code=0):
        counts = (run.passed, run.failed, run.skipped)
        assert run.total is None or run.total == sum(count or 0 for count in counts)
        assert run.success is not True or not run.failed
