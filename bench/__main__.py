"""Measures the product: `python -m bench` makes its corpora, runs interleaved rounds, writes one JSON and one table.

    python -m bench [--rounds 3] [--only cold,line] [--scale 0.1] [--out FOLDER] [--agentsview PROGRAM]
    python -m bench day [--only idle,turns,fresh] ...    what a day costs while it is served: see `bench.day`

Everything happens in a temporary folder with an empty home. Rows are described in docs/PERFORMANCE.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import contenders, day, report, slopes, sweeps
from bench.stage import Bench, note

PARTS = {
    "cold": lambda bench: [
        row for name in ("claude", "mixed") for row in sweeps.cold(bench, name, ">= 5", rounds=bench.rounds)
    ],
    "huge": lambda bench: sweeps.cold(bench, "huge", ">= 5", rounds=1),
    "small": sweeps.small_files,
    "append": sweeps.append,
    "large": sweeps.large,
    "line": slopes.one_line,
    "session": slopes.long_session,
}


def main() -> None:
    if sys.argv[1:2] == ["day"]:
        day.main(sys.argv[2:])
        return
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
    parser.add_argument("--work", type=Path, help="where to make the temporary folder; some 9 GB are needed")
    parser.add_argument("--agentsview", help="the program, if it is not on the PATH")
    return parser.parse_args()


if __name__ == "__main__":
    main()
