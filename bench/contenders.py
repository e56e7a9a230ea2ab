"""What is run against what: the product, the bare limits (decode only, stat only) and agentsview.

Each is a program of its own, started on a home of logs and a folder for its state. agentsview is measured where it is
installed and never needed.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from bench.processes import Measured, bare_environ, measure

AGENTSVIEW_VERSION = "0.46.1"


def sweep(home: Path, state: Path) -> tuple[Measured, dict[str, Any]]:
    """`helix sweep` as a person runs it. Returns its own counters too."""
    run = measure([sys.executable, "-m", "helix_assets", "sweep", "--json"], our_environ(home, state))
    return run, json.loads(run.output)


def our_environ(home: Path, state: Path) -> dict[str, str]:
    """The product's settings for a home of logs."""
    return {
        **bare_environ(state.parent / "home"),
        "HELIX_DATA_DIR": str(state),
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "CODEX_HOME": str(home / "codex"),
        "GROK_HOME": str(home / "grok"),
    }


def decode(home: Path, state: Path) -> Measured:
    """Decode every line of every file in two processes and drop it; `output` has its own seconds."""
    return measure([sys.executable, "-m", "bench.bare", "decode", str(home)], bare_environ(state.parent / "home"))


def no_change(home: Path, state: Path, rounds: int) -> dict[str, list[float]]:
    """CPU seconds of a sweep without news, of its scan and of a bare scandir+stat, in turns within one process."""
    command = [sys.executable, "-m", "bench.bare", "no-change", str(home), str(rounds)]
    seconds: dict[str, list[float]] = json.loads(measure(command, our_environ(home, state)).output)
    return seconds


def reads(home: Path, state: Path, rounds: int, seed: int) -> dict[str, list[float]]:
    """Sizes of digests, seconds of look-ups and of reads of the text behind an event."""
    command = [sys.executable, "-m", "bench.reads", str(rounds), str(seed)]
    figures: dict[str, list[float]] = json.loads(measure(command, our_environ(home, state)).output)
    return figures


def growth(name: str, home: Path, state: Path, rounds: int) -> dict[str, list[float]]:
    """What each of many small growths cost within one process: see `bench.growth`."""
    command = [sys.executable, "-m", "bench.growth", name, str(home), str(rounds)]
    figures: dict[str, list[float]] = json.loads(measure(command, our_environ(home, state)).output)
    return figures


def append_line(home: Path, state: Path, seed: int) -> None:
    """One more line in one log."""
    measure([sys.executable, "-m", "bench.corpora", "line", str(home), str(seed)], our_environ(home, state))


def agentsview(program: str, home: Path, state: Path) -> Measured:
    """`agentsview sync` into a state folder of its own, without daemon, telemetry and update check."""
    return measure([program, "sync"], agentsview_environ(home, state) | {"AGENTSVIEW_NO_DAEMON": "1"})


def agentsview_environ(home: Path, state: Path) -> dict[str, str]:
    """agentsview's settings for a home of logs."""
    return {
        **bare_environ(state.parent / "home"),
        "AGENTSVIEW_DATA_DIR": str(state),
        "CLAUDE_PROJECTS_DIR": str(home / "claude" / "projects"),
        "CODEX_SESSIONS_DIR": str(home / "codex" / "sessions"),
        "GROK_DIR": str(home / "grok" / "sessions"),
        "AGENTSVIEW_TELEMETRY_ENABLED": "0",
        "AGENTSVIEW_DISABLE_UPDATE_CHECK": "1",
    }


def find_agentsview(named: str | None) -> tuple[str | None, str]:
    """The program and its version, or None and the reason why it is left out."""
    program = named or shutil.which("agentsview")
    if program is None or shutil.which(program) is None:
        return (
            None,
            f"agentsview is not installed: its rows are left out (`pip install agentsview=={AGENTSVIEW_VERSION}`)",
        )
    said = measure([program, "--version"], {"PATH": "/usr/bin:/bin"}).output.strip()
    return program, said.splitlines()[0] if said else "agentsview"


def stored_bytes(state: Path) -> int:
    """Bytes on disk under a folder, as the files' lengths."""
    return sum(path.stat().st_size for path in state.rglob("*") if path.is_file())
