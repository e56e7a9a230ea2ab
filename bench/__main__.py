"""Measures the product: `python -m bench` makes its corpora, runs interleaved rounds, writes one JSON and one table.

    python -m bench [--rounds 3] [--only cold,append] [--scale 0.1] [--out FOLDER] [--agentsview PROGRAM]

Everything happens in a temporary folder with an empty home. Rows are described in docs/PERFORMANCE.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import contenders, report
from bench.processes import Measured
from bench.report import Row

TIMES_FASTER, TIMES_AS_LONG = "theirs / ours", "ours / theirs"


@dataclass
class Bench:
    """One run: where it works, how often it repeats, whom it can compare with."""

    folder: Path
    rounds: int
    seed: int
    scale: float
    agentsview: str | None
    counters: dict[str, dict[str, Any]]

    def corpus(self, name: str) -> Path:
        """The home of that name, made in a process of its own when first asked for."""
        home = self.folder / "corpora" / name
        if not home.exists():
            note(f"making the {name} corpus")
            arguments = ["make", name, str(home), str(self.seed), str(self.scale)]
            subprocess.run([sys.executable, "-m", "bench.corpora", *arguments], check=True)
        return home

    @contextmanager
    def fresh(self, name: str) -> Iterator[Path]:
        """A state folder that does not exist yet, and no more afterwards."""
        state = self.folder / "state" / name
        shutil.rmtree(state, ignore_errors=True)
        state.parent.mkdir(parents=True, exist_ok=True)
        yield state
        shutil.rmtree(state, ignore_errors=True)


def note(text: str) -> None:
    """Say on stderr what goes on."""
    print(text, file=sys.stderr, flush=True)


def cold(bench: Bench, corpus: str, bar: str) -> Iterator[Row]:
    """A first sweep against decoding alone and against agentsview, process against process."""
    home = bench.corpus(corpus)
    ours: list[Measured] = []
    bare: list[float] = []
    theirs: list[Measured] = []
    stored = read = 0
    for number in range(bench.rounds):
        note(f"cold {corpus}: round {number + 1}")
        with bench.fresh("ours") as state:
            run, counters = contenders.sweep(home, state)
            ours.append(run)
            read, stored = counters["bytes_read"], contenders.stored_bytes(state)
        bench.counters[f"cold {corpus}"] = counters
        with bench.fresh("bare") as state:
            bare.append(json.loads(contenders.decode(home, state).output)["seconds"])
        if bench.agentsview:
            with bench.fresh("agentsview") as state:
                theirs.append(contenders.agentsview(bench.agentsview, home, state))
    what = f"cold, {corpus} ({read / 1e6:.0f} MB)"
    wall = [run.wall_s for run in ours]
    if theirs:
        others = [run.wall_s for run in theirs]
        yield Row(what, "s", wall, "agentsview", others, TIMES_FASTER, bar)
        cpu, their_cpu = [run.cpu_s for run in ours], [run.cpu_s for run in theirs]
        yield Row(f"{what}, CPU", "s", cpu, "agentsview", their_cpu, TIMES_AS_LONG)
    yield Row(what, "s", wall, "orjson decode, 2 processes", bare, TIMES_FASTER)
    yield Row(f"{what}, bytes stored per byte of source", "", [stored / read])


def no_change(bench: Bench) -> Iterator[Row]:
    """A sweep that finds nothing new, in process, against a bare look at the same files."""
    home = bench.corpus("small")
    with bench.fresh("ours") as state:
        contenders.sweep(home, state)
        note("no change")
        seconds = contenders.no_change(home, state, max(9, bench.rounds))
        files = sum(1 for _ in (home / "claude").rglob("*.jsonl"))
        what = f"no change, {files:,} files, in process"
        yield Row(what, "s", seconds["sweep"], "scandir + stat", seconds["stat"], TIMES_AS_LONG, "<= 2")
        runs = []
        for _ in range(bench.rounds):
            run, bench.counters["no change"] = contenders.sweep(home, state)
            runs.append(run.wall_s)
        yield Row(f"no change, {files:,} files, `helix sweep`", "s", runs)


def append(bench: Bench) -> Iterator[Row]:
    """1 % of the sessions gain a turn; both take in the same change."""
    home = bench.folder / "corpora" / "growing"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(bench.corpus("claude"), home)
    ours: list[float] = []
    theirs: list[float] = []
    with bench.fresh("ours") as mine, bench.fresh("agentsview") as other:
        contenders.sweep(home, mine)
        if bench.agentsview:
            contenders.agentsview(bench.agentsview, home, other)
        for number in range(bench.rounds):
            note(f"append: round {number + 1}")
            grow = [sys.executable, "-m", "bench.corpora", "append", str(home), str(number + 2)]
            subprocess.run(grow, check=True)
            run, bench.counters["append"] = contenders.sweep(home, mine)
            ours.append(run.wall_s)
            if bench.agentsview:
                theirs.append(contenders.agentsview(bench.agentsview, home, other).wall_s)
    shutil.rmtree(home)
    against = "agentsview" if theirs else ""
    yield Row("append to 1 % of the sessions, `helix sweep`", "s", ours, against, theirs, TIMES_AS_LONG)


def large(bench: Bench) -> Iterator[Row]:
    """One file of 500 MB: time, and the memory of the largest process."""
    home = bench.corpus("large")
    ours: list[Measured] = []
    theirs: list[Measured] = []
    for number in range(bench.rounds):
        note(f"large: round {number + 1}")
        with bench.fresh("ours") as state:
            run, bench.counters["large"] = contenders.sweep(home, state)
            ours.append(run)
        if bench.agentsview:
            with bench.fresh("agentsview") as state:
                theirs.append(contenders.agentsview(bench.agentsview, home, state))
    size = bench.counters["large"]["bytes_read"]
    yield Row(
        f"one file of {size / 1e6:.0f} MB, peak memory per process", "MB", [r.peak_mb for r in ours], bar="<= 600"
    )
    against, others = ("agentsview", [run.wall_s for run in theirs]) if theirs else ("", [])
    yield Row(f"one file of {size / 1e6:.0f} MB", "s", [r.wall_s for r in ours], against, others, TIMES_FASTER)


PARTS = {
    "cold": lambda bench: [*cold(bench, "claude", ">= 4"), *cold(bench, "mixed", "")],
    "no-change": no_change,
    "append": append,
    "large": large,
}


def main() -> None:
    options = _options()
    program, version = contenders.find_agentsview(options.agentsview)
    note(version)
    with tempfile.TemporaryDirectory(prefix="helix-bench-", dir=options.work) as folder:
        bench = Bench(Path(folder), options.rounds, options.seed, options.scale, program, {})
        rows = [row for name in options.only for row in PARTS[name](bench)]
    about = {"machine": report.machine(), "against": version, "rounds": options.rounds, "seed": options.seed}
    about |= {"scale": options.scale, "counters": {name: _numbers(c) for name, c in bench.counters.items()}}
    report.write(options.out, rows, about)
    print(report.as_table(rows))
    missed = [row.what for row in rows if row.is_met is False]
    note(f"written to {options.out}" + (f"; missed: {', '.join(missed)}" if missed else ""))


def _numbers(counters: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in counters.items() if isinstance(value, int | float)}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="size of the corpora; 1 is what the figures are for")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help=", ".join(PARTS))
    parser.add_argument("--out", type=Path, default=Path("bench-results"))
    parser.add_argument("--work", type=Path, help="where to make the temporary folder; some 4 GB are needed")
    parser.add_argument("--agentsview", help="the program, if it is not on the PATH")
    return parser.parse_args()


if __name__ == "__main__":
    main()
