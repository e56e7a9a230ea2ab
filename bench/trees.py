"""What a running tree of processes costs: CPU seconds with those of its ended children, memory, bytes written.

Read from Linux's /proc. A process that ended and was waited for is part of its parent's figures; `bench.root` waits for
those that have lost their parent. Only a child that a process ignores (SIGCHLD ignored) is not counted by the system.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench import root

_PROC = Path("/proc")
_STOP_S = 60
_TICKS = os.sysconf("SC_CLK_TCK")
_SCANS = 20


@dataclass(frozen=True)
class Spent:
    """What a tree has used up to a moment. The difference of two is what it used between them."""

    at: float
    cpu_s: float
    written: int

    def __sub__(self, earlier: Spent) -> Spent:
        return Spent(self.at - earlier.at, self.cpu_s - earlier.cpu_s, self.written - earlier.written)


@dataclass(frozen=True)
class _Process:
    parent: int
    started: int
    ticks: int
    """Of the process and of the children that it waited for."""
    written: int


@dataclass(frozen=True)
class Memory:
    """The memory of all processes of a tree; pages that several share count once (PSS)."""

    mib: float
    processes: int


class Server:
    """A server as the one child of a root; a context manager that leaves no process."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], log: Path) -> None:
        # Without -I the other modules in this folder would come before those of Python.
        whole = [sys.executable, "-I", "-S", root.__file__, *command]
        self.log = log
        with log.open("ab") as file:
            # Not in the caller's folder: a package in it would come before the one that is to be measured.
            self._root = subprocess.Popen(whole, env=dict(environ), cwd=log.parent, stdout=file, stderr=file)

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._root.send_signal(signal.SIGTERM)
        try:
            self._root.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            for pid in _below(self._root.pid, _scan()):
                _kill(pid)
            self._root.wait()

    def spent(self) -> Spent:
        """What the tree has used so far."""
        return spent(self._root.pid)

    def memory(self) -> Memory:
        """What the tree holds now."""
        return memory(self._root.pid)

    def ended(self) -> str | None:
        """The end of what it said, if the server is gone."""
        return self.log.read_text("utf-8", "replace")[-2000:] if not _below(self._root.pid, _scan()) else None


def spent(root_pid: int) -> Spent:
    """What the processes below this one have used, dead or alive."""
    tree = _steady(root_pid)
    ticks = sum(process.ticks for process in tree.values())
    return Spent(time.monotonic(), ticks / _TICKS, sum(process.written for process in tree.values()))


def memory(root_pid: int) -> Memory:
    """What the processes below this one hold."""
    sizes = [size for pid in _below(root_pid, _scan()) if (size := _pss_kib(pid))]
    return Memory(sum(sizes) / 1024, len(sizes))


def _steady(root_pid: int) -> dict[int, _Process]:
    """The tree at a moment in which no process came or went: else one is missed, or counted in its parent, too."""
    before: dict[int, _Process] = {}
    for _ in range(_SCANS):
        found = _scan()
        tree = {pid: found[pid] for pid in (root_pid, *_below(root_pid, found)) if pid in found}
        if _names(tree) == _names(before):
            return before
        before = tree
    return before  # where processes come and go all the time, one of them more or less matters little


def _names(tree: Mapping[int, _Process]) -> set[tuple[int, int]]:
    return {(pid, process.started) for pid, process in tree.items()}


def _below(root_pid: int, found: Mapping[int, _Process]) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, process in found.items():
        children.setdefault(process.parent, []).append(pid)
    below, waiting = list[int](), [root_pid]
    while waiting:
        more = children.get(waiting.pop(), [])
        below += more
        waiting += more
    return below


def _scan() -> dict[int, _Process]:
    pids = (int(entry.name) for entry in os.scandir(_PROC) if entry.name.isdigit())
    return {pid: process for pid in pids if (process := _process(pid))}


def _process(pid: int) -> _Process | None:
    try:
        # The name of the program, in parentheses, may itself contain anything.
        fields = (_PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None
    own_and_waited_for = sum(map(int, fields[11:15]))
    return _Process(int(fields[1]), int(fields[19]), own_and_waited_for, _written(pid))


def _written(pid: int) -> int:
    """Bytes that a process and those that it waited for handed to the system, pipes included."""
    try:
        lines = (_PROC / str(pid) / "io").read_text().splitlines()
    except OSError:  # gone, or somebody else's
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def _pss_kib(pid: int) -> int:
    try:
        lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:  # gone
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return
