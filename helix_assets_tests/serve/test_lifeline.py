"""Child processes: started, started again, and never left behind."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helix_assets.serve.lifeline import Child
from helix_assets_tests.serve.tree import environment, wait_until

# Says who it is, has a child of its own, and then waits.
_FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
print(f"\\n{os.getpid()} {child.pid}", file=open(sys.argv[1], "a"), flush=True)
time.sleep(300)
"""
_PARENT = """
import sys, time
from helix_assets.serve.lifeline import Child
import os
Child("family", "family", [sys.argv[1]], dict(os.environ)).start()
time.sleep(300)
"""


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    """Where the family writes its process ids, a line each time it starts."""
    return tmp_path / "pids"


@pytest.fixture
def variables(tmp_path: Path) -> dict[str, str]:
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "family.py").write_text(_FAMILY)
    (modules / "failing.py").write_text("raise SystemExit(3)")
    (modules / "talking.py").write_text(
        'print("2026-01-02 03:04:05 +0000 - dagster - DEBUG - job - STEP_START\\nmore of it")\n'
        'print("2026-01-02 03:04:05 +0000 - dagster - ERROR - job - it broke\\nTraceback of it", flush=True)\n'
        "import os, sys, time\n"
        "for place in sys.argv[1:2]:\n"
        "    time.sleep(0.2)\n"
        "    os.rename(place, sys.argv[2])\n"
        "    time.sleep(60)\n"
    )
    return environment(tmp_path, modules)


@pytest.fixture
def family(pids: Path, variables: dict[str, str]) -> Iterator[Child]:
    child = Child("family", "family", [str(pids)], variables)
    child.start()
    assert wait_until(lambda: len(seen(pids)) == 2, 20)
    yield child
    child.end(time.monotonic())


def seen(pids: Path) -> list[int]:
    """The process ids of the latest start."""
    lines = pids.read_text().split("\n") if pids.exists() else [""]
    return [int(pid) for pid in lines[-2].split()] if lines[-1] == "" and len(lines) > 1 else []


def kept_up_until(child: Child, said: list[str], is_so: Callable[[], bool]) -> bool:
    """Do what the supervisor does, until it is so."""

    def look() -> bool:
        child.keep_up(said.append)
        return is_so()

    return wait_until(look, 20)


def is_gone(pid: int) -> bool:
    """Whether the process has ended; one that only waits to be reaped has."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return state.stdout.strip().startswith("Z") or not state.stdout.strip()


def test_ending_a_child_ends_its_family(family: Child, pids: Path) -> None:
    family.interrupt()
    family.end(time.monotonic() + 10)
    assert wait_until(lambda: all(is_gone(pid) for pid in seen(pids)), 10)


def test_a_killed_child_is_started_again_after_a_pause(family: Child, pids: Path) -> None:
    first, said = seen(pids), list[str]()
    os.kill(first[0], 9)
    assert kept_up_until(family, said, lambda: seen(pids) != first)
    assert "ended unexpectedly (code -9)" in said[0]
    assert wait_until(lambda: is_gone(first[1]), 10)


def test_the_pauses_grow(variables: dict[str, str]) -> None:
    child, said = Child("server", "failing", [], variables), list[str]()
    assert kept_up_until(child, said, lambda: len(said) == 2)
    assert [line.partition("again in ")[2] for line in said] == ["1 s.", "2 s."]


def test_a_killed_parent_leaves_nobody_behind(pids: Path, variables: dict[str, str]) -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, str(pids)], env=variables)
    assert wait_until(lambda: len(seen(pids)) == 2, 20)
    parent.kill()
    parent.wait()
    assert wait_until(lambda: all(is_gone(pid) for pid in seen(pids)), 15)


def test_what_a_child_says_as_its_folder_goes_is_not_passed_on(
    tmp_path: Path, variables: dict[str, str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    ground, ended = tmp_path / "ground", tmp_path / "ended"
    ground.touch()
    child = Child("talker", "talking", [str(ground), str(ended)], variables, is_heard=ground.exists)
    child.start()  # it deletes the file as it is asked to, right behind its complaint
    assert wait_until(ended.exists, 20)
    time.sleep(1.5)
    child.end(time.monotonic() + 5)
    assert b"Traceback" not in capfdbinary.readouterr().err


def test_the_steps_of_runs_are_not_repeated_on_the_terminal(
    variables: dict[str, str], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    child, heard = Child("talker", "talking", [], variables), bytearray()
    child.start()

    def has_spoken() -> bool:
        heard.extend(capfdbinary.readouterr().err)
        return b"Traceback of it" in heard

    assert wait_until(has_spoken, 20)
    child.end(time.monotonic() + 5)
    assert b"it broke" in heard
    assert b"STEP_START" not in heard
    assert b"more of it" not in heard
