"""Rows about sweeps and reads: the product against the bare limits and agentsview, in turns."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench import contenders
from bench.processes import Measured
from bench.report import Row
from bench.stage import Bench, note

TIMES_FASTER, TIMES_AS_LONG = "theirs / ours", "ours / theirs"
READS = 500


def cold(bench: Bench, corpus: str, bar: str, *, rounds: int) -> Iterator[Row]:
    """A first sweep against decoding alone and against agentsview, process against process."""
    home = bench.corpus(corpus)
    ours: list[Measured] = []
    bare: list[float] = []
    theirs: list[Measured] = []
    tier_1 = read = 0
    for number in range(rounds):
        note(f"cold {corpus}: round {number + 1}")
        with bench.fresh("ours") as state:
            run, counters = contenders.sweep(home, state)
            ours.append(run)
            read = counters["bytes_read"]
            tier_1 = contenders.stored_bytes(state / "raw") + contenders.stored_bytes(state / "search")
            if number == rounds - 1:
                yield from reads(bench, home, state, corpus)
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
        yield Row(f"{what}, CPU", "s", cpu, "agentsview", their_cpu, TIMES_AS_LONG, "<= 0.4")
    yield Row(what, "s", wall, "orjson decode, 2 processes", bare, TIMES_FASTER, ">= 0.15")
    yield Row(f"{what}, Tier 1 with its index per byte of source", "", [tier_1 / read], bar="<= 0.5")


def reads(bench: Bench, home: Path, state: Path, corpus: str) -> Iterator[Row]:
    """Single reads of the store that was just made, in a process that has it open."""
    read = contenders.reads(home, state, READS, bench.seed)
    lookups, payloads = (_milliseconds(read[name]) for name in ("lookup_s", "payload_s"))
    sizes = [size / 1024 for size in read["digest_bytes"]]
    yield Row(f"digest JSON, median per session, {corpus}", "KiB", sizes, bar="<= 4")
    yield Row(f"digest look-up by uid in process, p95 of {READS}, {corpus}", "ms", [_p95(lookups)], bar="<= 1")
    yield Row(f"text behind an event, p95 of {READS}, {corpus}", "ms", [_p95(payloads)], bar="<= 5")


def _milliseconds(seconds: Sequence[float]) -> list[float]:
    return [1e3 * one for one in seconds]


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[len(values) * 95 // 100]


def small_files(bench: Bench) -> Iterator[Row]:
    """Thousands of small files: a first sweep, once, and then sweeps that find nothing new."""
    home = bench.corpus("small")
    files = sum(1 for _ in (home / "claude").rglob("*.jsonl"))
    with bench.fresh("ours") as mine, bench.fresh("agentsview") as other:
        note("small files")
        run, bench.counters["cold small"] = contenders.sweep(home, mine)
        first = [contenders.agentsview(bench.agentsview, home, other)] if bench.agentsview else []
        against = "agentsview" if first else ""
        bar = ">= 10" if first else ""
        theirs = [one.wall_s for one in first]
        yield Row(f"cold, {files:,} small files", "s", [run.wall_s], against, theirs, TIMES_FASTER, bar)
        theirs = [one.cpu_s for one in first]
        yield Row(f"cold, {files:,} small files, CPU", "s", [run.cpu_s], against, theirs, TIMES_AS_LONG)
        note("no change")
        seconds = contenders.no_change(home, mine, max(15, bench.rounds))
        what = f"no change, {files:,} files, in process, CPU"
        yield Row(what, "s", seconds["sweep"], "scandir + stat", seconds["stat"], TIMES_AS_LONG, "<= 1.5")
        ours: list[Measured] = []
        others: list[Measured] = []
        for _ in range(bench.rounds):
            run, bench.counters["no change"] = contenders.sweep(home, mine)
            ours.append(run)
            if bench.agentsview:
                others.append(contenders.agentsview(bench.agentsview, home, other))
        yield from as_processes(f"no change, {files:,} files, `helix sweep`", ours, others, "<= 0.4")


def as_processes(what: str, ours: Sequence[Measured], theirs: Sequence[Measured], bar: str) -> Iterator[Row]:
    """Wall clock against agentsview's where it was measured, held to a bar; and CPU, which is steadier."""
    against, bar = ("agentsview", bar) if theirs else ("", "")
    wall, their_wall = [run.wall_s for run in ours], [run.wall_s for run in theirs]
    yield Row(what, "s", wall, against, their_wall, TIMES_AS_LONG, bar)
    cpu, their_cpu = [run.cpu_s for run in ours], [run.cpu_s for run in theirs]
    yield Row(f"{what}, CPU", "s", cpu, against, their_cpu, TIMES_AS_LONG)


def append(bench: Bench) -> Iterator[Row]:
    """1 % of the sessions gain a turn; both take in the same change."""
    home = bench.folder / "corpora" / "growing"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(bench.corpus("claude"), home)
    ours: list[Measured] = []
    theirs: list[Measured] = []
    with bench.fresh("ours") as mine, bench.fresh("agentsview") as other:
        contenders.sweep(home, mine)
        if bench.agentsview:
            contenders.agentsview(bench.agentsview, home, other)
        for number in range(bench.rounds):
            note(f"append: round {number + 1}")
            grow = [sys.executable, "-m", "bench.corpora", "append", str(home), str(number + 2)]
            subprocess.run(grow, check=True)
            run, bench.counters["append"] = contenders.sweep(home, mine)
            ours.append(run)
            if bench.agentsview:
                theirs.append(contenders.agentsview(bench.agentsview, home, other))
    shutil.rmtree(home)
    yield from as_processes("append to 1 % of the sessions, `helix sweep`", ours, theirs, "<= 1.2")


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
        f"one file of {size / 1e6:.0f} MB, peak memory per process", "MB", [r.peak_mb for r in ours], bar="<= 400"
    )
    against, others = ("agentsview", [run.wall_s for run in theirs]) if theirs else ("", [])
    yield Row(f"one file of {size / 1e6:.0f} MB", "s", [r.wall_s for r in ours], against, others, TIMES_FASTER)
