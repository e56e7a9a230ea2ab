"""A home of very many logs in which nothing changed: what a look at it costs.

    python -m helix_assets_tests.faults.many_files [--files 100000] [--seconds 10] [--mebibytes 300]

The logs are swept once; then `helix sweep` runs in a process of its own, three times, and its time and memory are
taken.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import click

from helix_assets.settings import load_settings
from helix_assets.store.store import open_store
from helix_assets.sweep.sweep import sweep
from helix_assets_tests.home import answer, prompt

_PER_FOLDER = 500
_MEASURE = """
import resource, subprocess, sys, time
begin = time.monotonic()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, code)
"""


class Look(NamedTuple):
    """What one look cost."""

    seconds: float
    mebibytes: float
    code: int


def make_files(home: Path, files: int) -> None:
    """Logs of one turn each, some hundreds to a folder."""
    for number in range(files):
        folder = home / "claude" / "projects" / f"-home-u-project-{number // _PER_FOLDER}"
        if number % _PER_FOLDER == 0:
            folder.mkdir(parents=True)
        said = answer(f"a{number}", "10:00:01", "done", message=f"msg_{number}")
        (folder / f"session-{number}.jsonl").write_bytes(prompt(f"p{number}", "10:00:00", "please") + said)


def look(environ: Mapping[str, str]) -> Look:
    """One sweep that finds nothing, as a command, started by a small process: a child counts its parent's memory."""
    command = [sys.executable, "-c", _MEASURE, sys.executable, "-m", "helix_assets", "sweep"]
    told = subprocess.run(command, env=dict(environ), capture_output=True, text=True, check=True).stdout.split()
    return Look(float(told[-3]), int(told[-2]) / 1024, int(told[-1]))


def measure(folder: Path, files: int) -> list[Look]:
    """Make, sweep, look thrice."""
    home = folder / "home"
    make_files(home, files)
    own = {"HOME": home, "HELIX_DATA_DIR": folder / "data", "CLAUDE_CONFIG_DIR": home / "claude",
           "CODEX_HOME": home / "codex", "GROK_HOME": home / "grok"}  # fmt: skip
    environ = {**os.environ, **{name: str(value) for name, value in own.items()}}
    store = open_store(load_settings(environ))
    report = sweep(store)
    store.close()
    if report.sessions_touched != files:
        raise RuntimeError(f"{report.sessions_touched} sessions of {files} files")
    return [look(environ) for _ in range(3)]


@click.command()
@click.option("--files", default=100_000)
@click.option("--seconds", default=10.0, help="How long a look may take.")
@click.option("--mebibytes", default=300.0, help="How much memory it may take.")
def main(files: int, seconds: float, mebibytes: float) -> None:
    """Look at very many files of which none changed; exit code 1 when that costs too much."""
    with tempfile.TemporaryDirectory() as scratch:
        looks = measure(Path(scratch), files)
    took, held = statistics.median(one.seconds for one in looks), max(one.mebibytes for one in looks)
    click.echo(f"{files} files: {took:.2f} s (median of 3), at most {held:.0f} MiB")
    raise SystemExit(took > seconds or held > mebibytes or any(one.code for one in looks))


if __name__ == "__main__":
    main()
