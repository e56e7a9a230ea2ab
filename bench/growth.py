"""What growth costs: one line appended in a small and in a large store, and a long session that gains turn after turn.

python -m bench.growth line HOME ROUNDS       a line is appended and swept, time and again, in a process that has the
                                              store open; beside each sweep a bare look at the same files
python -m bench.growth cold HOME ROUNDS       a turn is appended to one session and swept; nothing is remembered of it
python -m bench.growth warm HOME ROUNDS       a turn every 30 s by a clock of its own, in a process that stays warm

with the settings of the store in the environment. Prints lists as JSON: CPU seconds, bytes written, memory.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bench.bare import stat_all
from bench.corpora import append_line
from helix_assets.demo import append
from helix_assets.settings import load_settings
from helix_assets.store.store import Store, open_store
from helix_assets.sweep.sweep import sweep
from helix_assets.sweep.sweep_report import SweepReport
from helix_assets.sweep.warm import Warm

TICK_S = 30
SETTLE_S = 0.15
"""The follower waits longer than this after a change."""
Figures = dict[str, list[float]]


def one_line(store: Store, home: Path, rounds: int) -> Figures:
    """A sweep after one appended line: its CPU seconds, and those beyond a bare look at all files."""
    figures = defaultdict[str, list[float]](list)
    folders = [home / "claude" / "projects"]
    for number in range(rounds + 1):
        append_line(home, number)
        seconds, written, report = _spent(lambda: sweep(store))
        bare, _, _ = _spent(lambda: stat_all(folders))
        if (report.lines_read, report.files_opened) != (1, 1):
            raise SystemExit(f"{report.lines_read} lines of {report.files_opened} files read, where one had grown")
        if number:  # the first round loads what a sweep with news needs
            figures["cpu_s"].append(seconds)
            figures["beyond_look_s"].append(seconds - bare)
            figures["bytes_written"].append(written)
    return figures


def cold_session(store: Store, home: Path, rounds: int) -> Figures:
    """Turn after turn of a session: bytes gained, read and written by each sweep, CPU seconds, memory, part files."""
    return _turns(store, home, rounds, lambda number: sweep(store))


def warm_session(store: Store, home: Path, rounds: int) -> Figures:
    """The same in a process that stays, on a clock by which a turn comes every 30 seconds."""
    begin, warm = datetime.now(UTC), Warm()

    def take_in(number: int) -> SweepReport:
        now = begin + timedelta(seconds=TICK_S * number)
        return sweep(store, clock=lambda: now, warm=warm)

    take_in(0)
    append(home, share=1e-9, seed=999)
    take_in(0)  # the first turn reads what is stored
    return _turns(store, home, rounds, take_in)


def _turns(store: Store, home: Path, rounds: int, take_in: Callable[[int], SweepReport]) -> Figures:
    figures = defaultdict[str, list[float]](list)
    for number in range(rounds):
        before = _size(home)
        append(home, share=1e-9, seed=1000 + number)
        time.sleep(SETTLE_S)
        seconds, written, report = _spent(lambda number=number: take_in(number))
        figures["bytes_gained"].append(_size(home) - before)
        figures["bytes_read"].append(report.bytes_read)
        figures["bytes_stored"].append(report.bytes_written)
        figures["bytes_written"].append(written)
        figures["cpu_s"].append(seconds)
        figures["memory_mb"].append(_memory_mb())
        figures["parts"].append(sum(1 for _ in store.raw.names()))
    return figures


def _size(home: Path) -> int:
    return sum(path.stat().st_size for path in home.rglob("*.jsonl"))


def _spent(work: Callable[[], Any]) -> tuple[float, int, Any]:
    """CPU seconds of this process and its children, bytes that it handed to the kernel, and what came of it."""
    cpu, written = _cpu(), _written()
    found = work()
    return _cpu() - cpu, _written() - written, found


def _cpu() -> float:
    mine, theirs = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return mine.ru_utime + mine.ru_stime + theirs.ru_utime + theirs.ru_stime


def _written() -> int:
    """0 if the system does not report it."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def _memory_mb() -> float:
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def main(name: str, home: Path, rounds: int) -> None:
    """Sweep what there is, then measure."""
    with closing(open_store(load_settings())) as store:
        sweep(store)
        measure = {"line": one_line, "cold": cold_session, "warm": warm_session}[name]
        print(json.dumps(measure(store, home, rounds)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
