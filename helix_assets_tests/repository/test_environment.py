"""The script that makes the environment: with uv where it is, with pip where it is not or fails, and never in silence.

Python, pip and uv are stand-ins that write down what they are asked for.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from helix_assets_tests.conftest import CHECKOUT

LOCK = "requirements.lock"
# Answers whether it is new enough, makes an environment of itself, and is pip.
_PYTHON = """#!/bin/sh
case "$1 $2" in
    -c*) exit {too_old} ;;
    "-m venv") mkdir -p "$4/bin" && cp "$0" "$4/bin/python" && cp "$0" "$4/bin/pip" ;;
    "-m pip") echo "pip $*" >> {log}; exit {pip_fails} ;;
esac
"""
_UV = """#!/bin/sh
echo "uv $*" >> {log}
[ {fails} = 0 ] || { echo "no such index" >&2; exit {fails}; }
"""


@dataclass(frozen=True)
class Tools:
    """A checkout with a lock, and a folder of programs that comes first on PATH."""

    folder: Path

    @property
    def checkout(self) -> Path:
        return self.folder / "checkout"

    @property
    def asked(self) -> list[str]:
        """The name of each installer that was run."""
        log = self.folder / "log"
        return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []

    def add(self, name: str, program: str, **values: object) -> None:
        for key, value in {"log": self.folder / "log", **values}.items():
            program = program.replace(f"{{{key}}}", str(value))
        path = self.folder / "bin" / name
        path.write_text(program)
        path.chmod(0o755)

    def make(self) -> subprocess.CompletedProcess[str]:
        # A path of links to what the script needs: the tests' machine may have a uv of its own.
        variables = {"PATH": str(self.folder / "bin"), "PYTHON": "python3"}
        command = [self.checkout / "scripts" / "make_environment", LOCK]
        return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


@pytest.fixture
def tools(tmp_path: Path) -> Tools:
    tools = Tools(tmp_path)
    (tools.checkout / "scripts").mkdir(parents=True)
    for name in (LOCK, "pyproject.toml", "scripts/make_environment"):
        shutil.copy(CHECKOUT / name, tools.checkout / name)
    (tmp_path / "bin").mkdir()
    for name in ("sh", "cat", "cmp", "cp", "dirname", "mkdir", "rm"):
        os.symlink(shutil.which(name) or "", tmp_path / "bin" / name)
    tools.add("python3", _PYTHON, too_old=0, pip_fails=0)
    return tools


def test_pip_installs_where_there_is_no_uv(tools: Tools) -> None:
    done = tools.make()
    assert (done.returncode, tools.asked) == (0, ["pip", "pip"])
    assert "with pip" in done.stderr


def test_uv_installs_where_it_is(tools: Tools) -> None:
    tools.add("uv", _UV, fails=0)
    done = tools.make()
    assert (done.returncode, tools.asked) == (0, ["uv", "uv"])
    assert "with uv" in done.stderr
    assert "pip" not in done.stderr


def test_pip_installs_where_uv_fails_and_both_are_told(tools: Tools) -> None:
    tools.add("uv", _UV, fails=2)
    done = tools.make()
    assert (done.returncode, tools.asked) == (0, ["uv", "pip", "pip"])
    assert all(words in done.stderr for words in ("with uv", "no such index", "uv failed", "with pip"))


def test_every_package_is_proven_by_its_hash(tools: Tools) -> None:
    tools.add("uv", _UV, fails=2)
    tools.make()
    first = [line for line in (tools.folder / "log").read_text().splitlines() if LOCK in line]
    assert len(first) == 2
    assert all("--require-hashes" in line for line in first)


def test_what_is_installed_is_not_installed_again_and_what_failed_is(tools: Tools) -> None:
    tools.add("python3", _PYTHON, too_old=0, pip_fails=1)
    assert tools.make().returncode == 1
    shutil.rmtree(tools.checkout / ".venv")
    tools.add("python3", _PYTHON, too_old=0, pip_fails=0)
    assert tools.make().returncode == 0
    before = tools.asked
    again = tools.make()
    assert (again.returncode, again.stderr, tools.asked) == (0, "", before)


def test_a_python_that_is_too_old_or_too_new_is_not_used(tools: Tools) -> None:
    tools.add("python3", _PYTHON, too_old=1, pip_fails=0)
    done = tools.make()
    assert (done.returncode, tools.asked) == (1, [])
    assert "Python 3.11 to 3.14" in done.stderr
