"""The cost of a day: `python -m bench day` runs the servers on one home, in turns, and prints one table.

    python -m bench day [--only idle,turns,fresh] [--preset medium] [--seconds 180] [--turns 10] [--against CHECKOUT]

Each contender is alone when it is measured, for processes that share pages would share their memory in the figures.
The table is the first of docs/PERFORMANCE.md, which describes its rows. Linux alone: figures are read from /proc.
"""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median

from bench import servers, turns
from bench.day_table import Figures, as_table, lines
from bench.fresh import Lookup, readable_after, reported_after
from bench.report import machine
from bench.servers import Contender
from bench.stage import note
from bench.trees import Memory, Server, Spent

PARTS = ("idle", "turns", "fresh")
TINY = "tiny"
_GENERATOR = servers.CHECKOUT.parent / "shared" / "tools" / "gen_corpus.py"
_LONGEST_GAP_S = 5.0
_RATE_S = 20.0
_SAMPLES = 6


@dataclass
class Day:
    """One run: the home, its sessions under way, and what was found, by contender."""

    options: argparse.Namespace
    home: Path
    open: list[turns.Session] = field(default_factory=list)
    long: dict[float, turns.Session] = field(default_factory=dict)
    figures: dict[str, Figures] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._random = Random(self.options.seed)
        self._turns = 0

    def measure(self, contender: Contender) -> None:
        """Start one contender, measure the parts that concern it, and stop it."""
        figures = self.figures.setdefault(contender.name, Figures())
        with contender.running() as server:
            figures.add("start", server.spent().cpu_s)
            contender.rest(server, self.options.settle)
            rate = self._idle(contender, server, figures) if "idle" in self.options.only else None
            if "turns" in self.options.only and contender.name != servers.DAGSTER:
                self._turn_after_turn(contender, server, figures, rate or _rate(server))
            if "fresh" in self.options.only and contender.is_ours:
                self._freshness(contender, server, figures, rate or _rate(server))

    def _idle(self, contender: Contender, server: Server, figures: Figures) -> Spent:
        note(f"{contender.name}: idle")
        used, memories = _watch(server, self.options.seconds)
        figures.add("idle cpu", used.cpu_s)
        figures.add("idle written", used.written)
        figures.add("idle pss", median(one.mib for one in memories))
        figures.add("idle processes", median(one.processes for one in memories))
        return used

    def _turn_after_turn(self, contender: Contender, server: Server, figures: Figures, rate: Spent) -> None:
        """A turn at each beat of the clock, in one of the sessions that are open."""
        note(f"{contender.name}: turns")
        gained, peaks, runs = 0, list[float](), len(contender.runs())
        begin, count = server.spent(), self.options.turns
        for number in range(count):
            turn = self._next_turn(self.open[turns.ROTA[number % len(turns.ROTA)]])
            gained += turn.write().bytes
            left = begin.at + (number + 1) * self.options.every - time.monotonic()
            peaks.append(max(one.mib for one in _watch(server, max(0.0, left))[1]))
        used = server.spent() - begin
        figures.add("turns cpu", used.cpu_s)
        figures.add("turn cpu", _beyond(used, rate) / count)
        figures.add("runs", len(contender.runs()) - runs)
        figures.add("turns written", used.written / gained)
        figures.add("turns pss", max(peaks))
        end = server.spent()
        contender.rest(server, self.options.settle)
        figures.add("afterwards cpu", max(0.0, _beyond(server.spent() - end, rate)))

    def _freshness(self, contender: Contender, server: Server, figures: Figures, rate: Spent) -> None:
        """Turns at random moments, each waited for, in sessions of several sizes in turns."""
        with Lookup(contender.python, contender.environ, contender.state.parent) as lookup:
            for number in range(self.options.fresh_turns):
                for size, session in self.long.items():
                    note(f"{contender.name}: {size:g} MB, turn {number + 1}")
                    turn = self._next_turn(session)
                    time.sleep(self._random.uniform(0, _LONGEST_GAP_S))
                    self._one(contender, server, figures, _Waiting(lookup, session.uid, turn, size, rate))

    def _one(self, contender: Contender, server: Server, figures: Figures, waiting: _Waiting) -> None:
        before, begin, patience = waiting.lookup.digest(waiting.uid), server.spent(), self.options.patience
        if not before:
            raise RuntimeError(f"{contender.name} has no digest of {waiting.uid}, which was there when it started")
        written = waiting.turn.write()
        readable = readable_after(waiting.lookup, waiting.uid, before, written.at, patience)
        figures.add(f"readable {waiting.size:g}", patience if readable is None else readable)
        if readable is None:
            return
        reported = reported_after(contender.state, before, written.at, patience)
        figures.add("reported", patience if reported is None else reported)
        while (None,) in contender.runs():
            time.sleep(0.5)
        used = server.spent() - begin
        figures.add(f"one cpu {waiting.size:g}", _beyond(used, waiting.rate))
        figures.add(f"one written {waiting.size:g}", used.written / written.bytes)

    def _next_turn(self, session: turns.Session) -> turns.Turn:
        self._turns += 1
        return turns.Turn(session, self.options.seed + self._turns)


@dataclass(frozen=True)
class _Waiting:
    """A turn that is about to be written, and by which it is found."""

    lookup: Lookup
    uid: str
    turn: turns.Turn
    size: float
    rate: Spent


def _watch(server: Server, seconds: float) -> tuple[Spent, list[Memory]]:
    """What a tree uses in so many seconds, and what it holds meanwhile."""
    begin, memories = server.spent(), [server.memory()]
    for number in range(_SAMPLES):
        time.sleep(max(0.0, begin.at + (number + 1) * seconds / _SAMPLES - time.monotonic()))
        memories.append(server.memory())
    return server.spent() - begin, memories


def _rate(server: Server) -> Spent:
    return _watch(server, _RATE_S)[0]


def _beyond(used: Spent, rate: Spent) -> float:
    """CPU seconds beyond those that would have been used anyway."""
    return used.cpu_s - used.at * rate.cpu_s / rate.at


def make_home(folder: Path, preset: str, seed: int) -> Path:
    """The home that all contenders look at."""
    home = folder / "logs"
    note(f"making the {preset} corpus")
    if preset == TINY:
        from helix_assets.demo import make_home

        make_home(home, seed=seed, sessions=10)
    else:
        command = [sys.executable, str(_GENERATOR), "make", str(home), "--preset", preset, "--seed", str(seed)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return home


def contenders(options: argparse.Namespace, folder: Path, home: Path) -> Iterator[Contender]:
    """Those asked for, in the order in which they are measured."""
    if options.against:
        yield servers.ours(servers.BEFORE, folder, home, options.against.resolve())
    yield servers.ours(servers.NOW, folder, home, servers.CHECKOUT)
    if "dagster" in options.peers:
        yield servers.bare_dagster(folder)
    if "agentsview" in options.peers:
        program, about = servers.installed_agentsview(options.agentsview)
        note(about)
        if program:
            yield servers.agentsview(folder, home, program)


def run(options: argparse.Namespace) -> dict[str, Figures]:
    """All rounds; the figures of each contender."""
    with tempfile.TemporaryDirectory(prefix="helix-day-", dir=options.work) as name:
        folder = Path(name)
        day = Day(options, make_home(folder, options.preset, options.seed))
        day.open = turns.plant(day.home, turns.OPEN, options.seed)
        sizes = [("claude", int(size * 1e6)) for size in options.fresh] if "fresh" in options.only else []
        day.long = dict(zip(options.fresh, turns.plant(day.home, sizes, options.seed + 100), strict=False))
        chosen = list(contenders(options, folder, day.home))
        for _ in range(options.rounds):
            for contender in chosen:
                day.measure(contender)
        return day.figures


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    options = _options(arguments)
    # Ended from outside, it stops its servers and removes its folder as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    figures = run(options)
    rows = lines(figures, options)
    about = {"machine": machine(), "options": vars(options), "figures": {n: f.values for n, f in figures.items()}}
    if options.json:
        print(json.dumps(about | {"rows": [row.as_json() for row in rows]}, indent=1, default=str))
    print(as_table(rows, list(figures)), file=sys.stderr if options.json else sys.stdout)


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench day", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument(
        "--preset", default="medium", help=f"corpus of ../shared/tools; {TINY}: the demo's, for a trial"
    )
    parser.add_argument("--seconds", type=float, default=180, help="how long each one is idle")
    parser.add_argument("--settle", type=float, default=75, help="seconds of rest before that")
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--every", type=float, default=30, help="seconds from turn to turn")
    parser.add_argument("--fresh", type=_numbers, default=[1.0, 8.0, 64.0], help="MB of the sessions: 1,8,64")
    parser.add_argument("--fresh-turns", type=int, default=10, help="turns in each of them")
    parser.add_argument("--patience", type=float, default=900, help="seconds that a turn may take to be found")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--against", type=Path, help="another checkout of ours, such as an earlier commit")
    parser.add_argument("--peers", type=lambda text: text.split(","), default=["dagster", "agentsview"])
    parser.add_argument("--agentsview", help="the program; else that on the PATH, else it is installed")
    parser.add_argument("--work", type=Path, help="where to make the temporary folder; some 2 GB are needed")
    parser.add_argument("--json", action="store_true", help="print JSON, and the table on stderr")
    options = parser.parse_args(arguments)
    if wrong := set(options.only) - set(PARTS):
        parser.error(f"no such part: {', '.join(wrong)}; choose from {', '.join(PARTS)}")
    if not sys.platform.startswith("linux"):
        parser.error("the cost of a tree of processes is read from /proc: this part runs on Linux alone")
    if options.preset != TINY and not _GENERATOR.exists():
        parser.error(f"{_GENERATOR} is missing, which makes the corpora; `--preset {TINY}` needs it not")
    return options


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",") if part]
