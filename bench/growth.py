"""What growth costs: one line appended in a small and in a large store, and a long session that gains turn after turn.

python -m bench.growth line HOME ROUNDS       a line is appended and swept, time and again, in a process that has the
                                              store open; beside each sweep a bare look at the same files
python -m bench.growth session HOME ROUNDS    a turn is appended to one session and swept, likewise
python -m bench.growth hour HOME ROUNDS       a turn every 30 s by a clock of its own, and what the sensor does then

with the settings of the store in the environment. Prints lists as JSON: CPU seconds, bytes written, memory.
"""

from __future__ import annotations

import json
import os
import resource
import sys
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
from helix_assets.sweep.look import scan
from helix_assets.sweep.sweep import sweep
from helix_assets.sweep.sweep_report import SweepReport

TICK_S = 30
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


def long_session(store: Store, home: Path, rounds: int) -> Figures:
    """Turn after turn of a session: bytes gained, read and written by each sweep, CPU seconds, memory, part files."""
    return _turns(store, home, rounds, lambda number: sweep(store))


def hour(store: Store, home: Path, rounds: int) -> Figures:
    """The same by a clock on which a turn comes with each tick of the sensor; after the last one no session rests."""
    now = datetime.now(UTC)

    def tick(number: int) -> SweepReport:
        nonlocal now
        now += timedelta(seconds=TICK_S)
        is_patient = number + 1 < rounds
        if not scan(store, now, patient=is_patient).changes:
            return SweepReport()
        return sweep(store, clock=lambda: now, reach="patient" if is_patient else "all")

    return _turns(store, home, rounds, tick)


def _turns(store: Store, home: Path, rounds: int, take_in: Callable[[int], SweepReport]) -> Figures:
    figures = defaultdict[str, list[float]](list)
    for number in range(rounds):
        before = _size(home)
        append(home, share=1e-9, seed=1000 + number)
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
        measure = {"line": one_line, "session": long_session, "hour": hour}[name]
        print(json.dumps(measure(store, home, rounds)))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
