"""Rows about growth: whether a sweep costs what is new, however much there is already."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from statistics import median

from bench import contenders
from bench.corpora import LONG_MB
from bench.report import Row
from bench.stage import Bench, note
from bench.sweeps import TIMES_AS_LONG

STORES = (100, 1_000, 10_000)
LINES, TURNS, LAST = 15, 120, 20


def one_line(bench: Bench) -> Iterator[Row]:
    """A sweep after one appended line, on stores of all sizes, as a process and within one."""
    processes: dict[int, list[float]] = {}
    beyond: dict[int, list[float]] = {}
    for size in STORES:
        note(f"one line in a store of {size}")
        home = bench.corpus(f"store-{size}")
        with bench.fresh("ours") as state:
            contenders.sweep(home, state)
            inside = contenders.growth("line", home, state, LINES)
            processes[size] = []
            for number in range(max(5, bench.rounds)):
                contenders.append_line(home, state, number)
                run, bench.counters[f"one line, store of {size}"] = contenders.sweep(home, state)
                processes[size].append(run.cpu_s)
        beyond[size] = inside["beyond_look_s"]
        yield Row(f"one line in a store of {size:,}, bytes written", "KB", [b / 1e3 for b in inside["bytes_written"]])
    first = STORES[0]
    for size in STORES[1:]:
        what, against = f"one line in a store of {size:,}, CPU", f"store of {first}"
        yield Row(f"{what}, `helix sweep`", "s", processes[size], against, processes[first], TIMES_AS_LONG, "<= 1.2")
        yield Row(f"{what}, in process, beyond a bare look", "s", beyond[size], against, beyond[first], TIMES_AS_LONG)


def long_session(bench: Bench) -> Iterator[Row]:
    """A session of 50 MB that gains a turn 120 times, warm and cold, and a turn in sessions of each size."""
    figures = _growth(bench, "warm", "long", TURNS)
    gained = sum(figures["bytes_gained"])
    what = f"50 MB session, a turn of {gained / TURNS / 1e3:.0f} KB every 30 s for an hour, warm process"
    yield from _per_byte(what, figures, "<= 4")
    yield Row(f"{what}, CPU of all sweeps", "s", [sum(figures["cpu_s"])])
    bench.counters["long session, warm"] = {name: median(values) for name, values in figures.items()}
    figures = _growth(bench, "cold", "long", TURNS)
    what = f"50 MB session, swept after each of {TURNS} turns"
    yield from _per_byte(what, figures, "")
    for name, label, unit, bar in (
        ("bytes_written", "bytes written by a sweep", "B", ""),
        ("cpu_s", "CPU of a sweep", "s", ""),
        ("memory_mb", "memory", "MB", "<= 1.2"),
    ):
        first, last = figures[name][:LAST], figures[name][-LAST:]
        yield Row(f"{what}, {label}, last {LAST}", unit, last, f"first {LAST}", first, TIMES_AS_LONG, bar)
    yield Row(f"{what}, part files at most", "", [max(figures["parts"])], bar="<= 64")
    bench.counters["long session"] = {name: median(values) for name, values in figures.items()}
    for megabytes in LONG_MB:
        for name, bar in (("warm", "<= 0.25"), ("cold", "")):
            figures = _growth(bench, name, f"long-{megabytes}", LINES)
            yield Row(f"a turn in a session of {megabytes} MB, CPU, {name}", "s", figures["cpu_s"], bar=bar)


def _growth(bench: Bench, name: str, corpus: str, turns: int) -> dict[str, list[float]]:
    """What a growing session costs."""
    note(f"the session of {corpus} gains {turns} turns: {name}")
    home = bench.folder / "corpora" / "gaining"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(bench.corpus(corpus), home)
    with bench.fresh("ours") as state:
        contenders.sweep(home, state)
        figures = contenders.growth(name, home, state, turns)
    shutil.rmtree(home)
    return figures


def _per_byte(what: str, figures: dict[str, list[float]], bar: str) -> Iterator[Row]:
    gained = sum(figures["bytes_gained"])
    for name, label in (
        ("bytes_read", "log bytes read"),
        ("bytes_stored", "Tier 1 bytes written"),
        ("bytes_written", "all bytes written"),
    ):
        yield Row(f"{what}, {label} per byte gained", "", [sum(figures[name]) / gained], bar=bar)
