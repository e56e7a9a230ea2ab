"""Runs a program and measures it from outside: wall clock, CPU, and the peak memory of its largest process.

The measuring process must stay small: what it holds when it starts a program counts as that program's.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Measured:
    """One run of a program; CPU and peak memory include the processes that it started and waited for."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    output: str


class ProgramFailed(Exception):
    """A measured program failed. The message says which one and what it printed."""


def measure(command: Sequence[str], environ: Mapping[str, str]) -> Measured:
    """Run a program to its end with only this environment."""
    with tempfile.TemporaryFile() as out:
        begin = time.perf_counter()
        process = subprocess.Popen(command, env=dict(environ), stdout=out, stderr=subprocess.STDOUT)
        # Not process.wait(): only wait4 reports the resources of the whole process tree.
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read().decode("utf-8", "replace")
    if process.returncode:
        raise ProgramFailed(f"{' '.join(command)} ended with {process.returncode}: {text[-2000:]}")
    unit = 1 << 20 if sys.platform == "darwin" else 1 << 10
    return Measured(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / unit, text)


def bare_environ(home: Path) -> dict[str, str]:
    """An empty home without the caller's settings."""
    home.mkdir(parents=True, exist_ok=True)
    checkout = str(Path(__file__).resolve().parents[1])
    return {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(home), "PYTHONPATH": checkout, "LC_ALL": "C.UTF-8"}
