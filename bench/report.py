"""Rows of results: ratios of medians with their spread, as JSON and as a Markdown table."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Row:
    """One comparison: ours against theirs, round by round; `bar` bounds the ratio of the medians.

    A bar like ">= 4" or "<= 2" is a promise; without one the row only informs.
    """

    what: str
    unit: str
    ours: Sequence[float]
    against: str = ""
    theirs: Sequence[float] = ()
    ratio: str = ""
    bar: str = ""

    @property
    def value(self) -> float:
        """The ratio where there is one, else our median."""
        if not self.theirs:
            return median(self.ours)
        mine, other = median(self.ours), median(self.theirs)
        return other / mine if self.ratio == "theirs / ours" else mine / other

    @property
    def is_met(self) -> bool | None:
        """Whether the bar is reached; None without one."""
        if not self.bar:
            return None
        sign, number = self.bar.split()
        return self.value >= float(number) if sign == ">=" else self.value <= float(number)


def machine() -> dict[str, Any]:
    """What the figures were measured on; absolute ones do not carry over to another machine."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "python": platform.python_version(),
        "load": [round(value, 1) for value in os.getloadavg()],
        "packages": {name: _version(name) for name in ("orjson", "pyarrow", "google-re2", "hyperscan")},
    }


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def as_table(rows: Sequence[Row]) -> str:
    """A Markdown table, medians with (least to most)."""
    lines = ["| what | ours | against | theirs | ratio | bar | met |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        ratio = f"{row.value:.2f} ({row.ratio})" if row.theirs else ""
        met = {True: "yes", False: "NO", None: ""}[row.is_met]
        theirs = _spread(row.theirs, row.unit) if row.theirs else ""
        cells = [row.what, _spread(row.ours, row.unit), row.against, theirs, ratio, row.bar, met]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float], unit: str) -> str:
    middle = f"{median(values):.3g} {unit}".strip()
    return middle if len(values) == 1 else f"{middle} ({min(values):.3g} to {max(values):.3g})"


def write(folder: Path, rows: Sequence[Row], about: dict[str, Any]) -> None:
    """Write results.json and results.md."""
    folder.mkdir(parents=True, exist_ok=True)
    table = [{**asdict(row), "value": row.value, "is_met": row.is_met} for row in rows]
    (folder / "results.json").write_text(json.dumps({**about, "rows": table}, indent=1) + "\n")
    facts = "; ".join(f"{name}: {value}" for name, value in about["machine"].items())
    head = f"{about['rounds']} interleaved rounds, seed {about['seed']}, scale {about['scale']}; {facts}\n\n"
    (folder / "results.md").write_text(head + as_table(rows))
