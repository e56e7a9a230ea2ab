"""The second command: what it leaves out it names, what it is asked for it does, and by night it tries much more."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from helix_assets_tests.conftest import CHECKOUT

NEEDS_SYSTEMD = "helix_assets_tests/serve/test_service.py::test_systemd_itself_finds_nothing_wrong_with_the_unit"


def pytest_without_programs(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", *arguments, NEEDS_SYSTEMD]
    variables = {**os.environ, "PATH": str(tmp_path)}
    return subprocess.run(command, cwd=CHECKOUT, env=variables, capture_output=True, text=True, check=False)


def test_what_no_lock_installs_is_left_out_and_named(tmp_path: Path) -> None:
    done = pytest_without_programs(tmp_path)
    assert (done.returncode, "left out: there is no systemd-analyze here" in done.stdout) == (0, True), done.stdout


def test_what_is_asked_for_and_not_there_fails(tmp_path: Path) -> None:
    done = pytest_without_programs(tmp_path, "-m", "servers")
    assert (done.returncode, "there is no systemd-analyze" in done.stdout) == (1, True), done.stdout


@pytest.mark.parametrize(("profile", "least", "most"), [("", 10, 50), ("nightly", 300, 10_000)])
def test_by_night_a_property_meets_many_more_examples(profile: str, least: int, most: int) -> None:
    code = "import helix_assets_tests.conftest, hypothesis; print(hypothesis.settings.default.max_examples)"
    variables = {**os.environ, "HYPOTHESIS_PROFILE": profile}
    done = subprocess.run([sys.executable, "-c", code], cwd=CHECKOUT, env=variables, capture_output=True, check=True)
    assert least <= int(done.stdout) <= most


def test_every_step_of_the_command_is_a_word_of_the_makefile() -> None:
    steps = re.findall(r"^        (\w+)\) ?", (CHECKOUT / "check").read_text(), re.MULTILINE)
    words = re.search(r"^\.PHONY: check ([\w ]+) up lock$", (CHECKOUT / "Makefile").read_text(), re.MULTILINE)
    assert words is not None
    assert words[1].split() == steps
