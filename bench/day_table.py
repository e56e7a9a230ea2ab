"""The table of a day: which figure stands in which row, for whom there is a bar, and how it is printed."""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from bench.servers import BEFORE, DAGSTER, NOW

COLUMNS = (BEFORE, NOW)


class Figures:
    """All values of one contender, by what was measured."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = defaultdict(list)

    def add(self, name: str, value: float) -> None:
        """One value more."""
        self.values[name].append(value)


@dataclass(frozen=True)
class Line:
    """A row: one figure of each contender that has it. `bar` is the most that ours may be."""

    what: str
    figures: Mapping[str, float]
    bar: float | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_met(self) -> bool | None:
        """Whether the bar is reached; None without one."""
        return None if self.bar is None or NOW not in self.figures else self.figures[NOW] <= self.bar

    def as_json(self) -> dict[str, Any]:
        """The row with how many values each figure is made of."""
        return {**vars(self), "is_met": self.is_met}


def lines(figures: Mapping[str, Figures], options: argparse.Namespace) -> list[Line]:
    """Every row for which there are figures."""
    whole = options.turns * options.every
    found = [
        _line(figures, "idle cpu", f"idle, CPU s in {options.seconds:g} s"),
        _against_bare(figures),
        _line(figures, "idle pss", "idle, memory (PSS), MiB", bar=320),
        _line(figures, "idle processes", "idle, processes"),
        _line(figures, "idle written", f"idle, MB written in {options.seconds:g} s", scale=1e-6),
        _line(
            figures,
            "turns cpu",
            f"a turn every {options.every:g} s for {whole:g} s, CPU s",
            bar=10 if (whole, options.every) == (300, 30) else None,
        ),
        _line(figures, "turn cpu", "- of it a turn, CPU s beyond idle"),
        _line(figures, "afterwards cpu", "- what follows the last turn later, CPU s beyond idle"),
        _line(figures, "runs", "- Dagster runs started"),
        _line(figures, "turns written", "- bytes written per byte gained"),
        _line(figures, "turns pss", "- most memory (PSS), MiB"),
    ]
    for size in options.fresh:
        name, session = f"readable {size:g}", f"session of {size:g} MB"
        found.append(_line(figures, name, f"line written to digest readable, {session}, p50, s"))
        slowest = 5.0 if size <= 8 else 12.0
        found.append(
            _line(figures, name, f"line written to digest readable, {session}, p95, s", share=0.95, bar=slowest)
        )
    found.append(_line(figures, "reported", "line written to Dagster's record, p95, s", share=0.95, bar=40))
    for size in options.fresh:
        bar = 0.25 if size <= 8 else None
        found.append(_line(figures, f"one cpu {size:g}", f"one turn, {size:g} MB, Dagster included, CPU s", bar=bar))
        found.append(_line(figures, f"one written {size:g}", f"one turn, {size:g} MB, bytes written per byte gained"))
    return [line for line in found if line.figures]


def _line(  # noqa: PLR0913 - independent options, named at the call
    figures: Mapping[str, Figures],
    name: str,
    what: str,
    *,
    scale: float = 1,
    share: float = 0.5,
    bar: float | None = None,
) -> Line:
    values = {who: found.values[name] for who, found in figures.items() if found.values.get(name)}
    numbers = {who: percentile(some, share) * scale for who, some in values.items()}
    return Line(what, numbers, bar, {who: len(some) for who, some in values.items()})


def percentile(values: Sequence[float], share: float) -> float:
    """The median, or the least value that so large a share does not exceed: of few values the largest."""
    return median(values) if share == 0.5 else sorted(values)[math.ceil(share * len(values)) - 1]


def _against_bare(figures: Mapping[str, Figures]) -> Line:
    bare = figures[DAGSTER].values.get("idle cpu") if DAGSTER in figures else None
    ours = {who: found.values["idle cpu"] for who, found in figures.items() if who in COLUMNS and found.values}
    ratios = {who: median(some) / median(bare) for who, some in ours.items() if bare and some and median(bare)}
    return Line("idle, CPU against bare `dagster dev`", ratios, 0.6)


def as_table(rows: Sequence[Line], names: Sequence[str]) -> str:
    """A Markdown table."""
    ours = [name for name in COLUMNS if name in names]
    columns = [*ours, "bar", *(name for name in names if name not in ours)]
    head = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    return "\n".join(
        head + [f"| {row.what} | " + " | ".join(_cell(row, name) for name in columns) + " |" for row in rows]
    )


def _cell(row: Line, name: str) -> str:
    if name == "bar":
        return "" if row.bar is None else f"<= {row.bar:g} {'met' if row.is_met else 'MISSED'}"
    value = row.figures.get(name)
    return "-" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"
