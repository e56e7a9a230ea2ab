"""Plots of numbers for asset metadata: each picture lies inside its text, so that no browser has to load it."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIB = 1024**2


def bars_by_day(title: str, series: Mapping[str, Mapping[str, float]], cache_dir: Path) -> str:
    """Stacked bars, one color per name of the series, over ISO days; Markdown."""
    figure, axes = _canvas(title, cache_dir)
    days = sorted({day for values in series.values() for day in values})
    bottom = [0.0] * len(days)
    for name, values in series.items():
        heights = [values.get(day, 0.0) for day in days]
        axes.bar([_place(day) for day in days], heights, bottom=bottom, label=name)
        bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
    if series:
        axes.legend(frameon=False, fontsize="small")
    return _markdown(figure, title)


def rates_by_week(title: str, series: Mapping[str, Mapping[str, float]], cache_dir: Path) -> bytes:
    """Lines of rates from 0 to 1 over ISO days, one color per name of the series; a PNG."""
    figure, axes = _canvas(title, cache_dir)
    for name, values in sorted(series.items()):
        points = sorted(values.items())
        axes.plot([_place(week) for week, _ in points], [rate for _, rate in points], marker=".", label=name)
    axes.set_ylim(0, 1.05)
    if len(weeks := {week for values in series.values() for week in values}) == 1:
        (place,) = map(_place, weeks)
        axes.set_xlim(place - 3.5, place + 3.5)
    if series:
        axes.legend(frameon=False, fontsize="small")
    return _png(figure)


Points = Sequence[tuple[str, int]]
"""Bytes at ISO times."""


def usage_over_time(title: str, points: Points, caps: Mapping[str, Points], cache_dir: Path) -> str:
    """Bytes in MiB over time, with the caps as they were then, where they are near enough to matter; Markdown."""
    figure, axes = _canvas(title, cache_dir)
    places = [_place(at) for at, _ in points]
    axes.plot(places, [used / MIB for _, used in points], marker=".")
    if len(points) == 1:
        axes.set_xlim(places[0] - 0.5, places[0] + 0.5)
    highest = max((used for _, used in points), default=0)
    for name, steps in caps.items():
        if steps and min(cap for _, cap in steps) < 4 * highest:
            _cap_line(axes, name, steps)
            axes.legend(frameon=False, fontsize="small")
    axes.set_ylim(bottom=0)
    axes.set_ylabel("MiB")
    return _markdown(figure, title)


def _cap_line(axes: Axes, name: str, steps: Points) -> None:
    """A cap from one side to the other, with a step wherever it was changed."""
    sizes = [cap / MIB for _, cap in steps]
    look: dict[str, Any] = {"linestyle": "--", "linewidth": 1, "color": "tab:red"}
    axes.step([_place(at) for at, _ in steps], sizes, where="post", label=f"{name}: {sizes[-1]:,.0f} MiB", **look)
    if len(set(sizes)) == 1:
        axes.axhline(sizes[0], **look)


def _canvas(title: str, cache_dir: Path) -> tuple[Figure, Axes]:
    os.environ.setdefault("MPLCONFIGDIR", str(cache_dir))  # its list of fonts stays out of the home folder
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 2.4), dpi=90, layout="constrained")
    axes = figure.add_subplot()
    axes.set_title(title, fontsize="medium", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize="small")
    locator = AutoDateLocator(maxticks=8)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    return figure, axes


def _place(moment: str) -> float:
    """Where an ISO day or time stands on the axis: days since 1970."""
    since = datetime.fromisoformat(moment).replace(tzinfo=None) - datetime(1970, 1, 1)  # noqa: DTZ001 - both are UTC
    return since / timedelta(days=1)


def as_markdown(title: str, png: bytes) -> str:
    """A picture inside a text."""
    return f"![{title}](data:image/png;base64,{b64encode(png).decode()})"


def _markdown(figure: Figure, title: str) -> str:
    return as_markdown(title, _png(figure))


def _png(figure: Figure) -> bytes:
    picture = BytesIO()
    figure.savefig(picture, format="png")
    return picture.getvalue()
