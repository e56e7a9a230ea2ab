"""Charts, each with its own light background, so that it looks the same on a light and on a dark page.

Belongs here: the kinds of charts and how each is drawn: as an SVG file, or as Markdown that contains the image, so that
a browser has nothing to load. Not here: the numbers. The caller chooses the labels, because it knows what may be shown.
Importing this does not import matplotlib.
"""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIB = 1024**2
Points = Sequence[tuple[str, int]]
"""Bytes at ISO times."""
Series = Mapping[str, Mapping[str, float]]
"""Numbers by name, then by ISO day."""
_GROUND, _INK = "#fbfbf8", "#24292f"
# Color-blind people can distinguish these, too.
_COLORS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8a7f00", "#7a7a7a")
_MEANT = {"ok": "#009e73", "passed": "#009e73", "success": "#009e73", "stayed": "#009e73", "error": "#d55e00",
          "failed": "#d55e00", "fail": "#d55e00", "denied": "#cc79a7", "cancelled": "#e69f00", "modified": "#e69f00",
          "abandoned": "#e69f00", "open": "#7a7a7a", "unknown": "#7a7a7a", "undecided": "#7a7a7a",
          "new": "#d55e00", "rising": "#e69f00", "steady": "#56b4e9", "falling": "#009e73",
          "quiet": "#7a7a7a"}  # fmt: skip
_STYLE: dict[Any, Any] = {
    "figure.facecolor": _GROUND, "axes.facecolor": _GROUND, "savefig.facecolor": _GROUND, "text.color": _INK,
    "axes.labelcolor": _INK, "axes.edgecolor": _INK, "xtick.color": _INK, "ytick.color": _INK, "font.size": 9,
    "svg.hashsalt": "helix",
}  # fmt: skip


class Chart(Protocol):
    """A chart before it is drawn."""

    @property
    def title(self) -> str: ...
    @property
    def height(self) -> float: ...
    @property
    def is_empty(self) -> bool: ...
    def draw(self, axes: Axes) -> None:
        """Draw the numbers onto the axes; called only if there are any."""
        ...


@dataclass(frozen=True)
class DayBars:
    """Stacked bars over time, one color per name of the series; each bar is `days` wide."""

    title: str
    series: Series
    unit: str = ""
    height: float = 2.6
    days: int = 1

    @property
    def is_empty(self) -> bool:
        return not any(self.series.values())

    def draw(self, axes: Axes) -> None:
        _dates(axes)
        days = sorted({day for values in self.series.values() for day in values})
        places = [_place(day) for day in days]
        bottom = [0.0] * len(days)
        for name, color in _colored(name for name, values in self.series.items() if any(values.values())):
            heights = [self.series[name].get(day, 0.0) for day in days]
            axes.bar(places, heights, 0.8 * self.days, bottom=bottom, label=name, color=color)
            bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
        axes.set_ylabel(self.unit)
        axes.yaxis.set_major_formatter("{x:,.10g}")


@dataclass(frozen=True)
class BytesOverTime:
    """Bytes in MiB over time, with the caps of each time if they are near enough to matter."""

    title: str
    points: Points
    caps: Mapping[str, Points]
    height: float = 2.6

    @property
    def is_empty(self) -> bool:
        return not self.points

    def draw(self, axes: Axes) -> None:
        _dates(axes)
        places = [_place(at) for at, _ in self.points]
        axes.plot(places, [used / MIB for _, used in self.points], marker=".", color=_COLORS[0], label="used")
        if len(self.points) == 1:
            axes.set_xlim(places[0] - 0.5, places[0] + 0.5)
        highest = max((used for _, used in self.points), default=0)
        for (name, steps), dashes in zip(self.caps.items(), ("--", ":"), strict=False):
            if steps and min(cap for _, cap in steps) < 4 * highest:
                _cap_line(axes, name, steps, dashes)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("MiB")


@dataclass(frozen=True)
class Shares:
    """A bar per name, made of parts that add up to its number."""

    title: str
    rows: Mapping[str, Mapping[str, float]]
    unit: str = ""

    @property
    def height(self) -> float:
        return 1.3 + 0.24 * len(self.rows)

    @property
    def is_empty(self) -> bool:
        return not self.rows

    def draw(self, axes: Axes) -> None:
        names = list(self.rows)
        left = [0.0] * len(names)
        for part, color in _colored(dict.fromkeys(part for parts in self.rows.values() for part in parts)):
            widths = [self.rows[name].get(part, 0.0) for name in names]
            axes.barh(names, widths, left=left, label=part, color=color)
            left = [low + width for low, width in zip(left, widths, strict=True)]
        axes.invert_yaxis()
        axes.set_xlabel(self.unit)


@dataclass(frozen=True)
class Heat:
    """A value for each row and column; the higher, the darker."""

    title: str
    rows: Sequence[str]
    columns: Sequence[str]
    values: Sequence[Sequence[float]]
    unit: str = ""

    @property
    def height(self) -> float:
        return 1.4 + 0.2 * len(self.rows)

    @property
    def is_empty(self) -> bool:
        return not self.rows

    def draw(self, axes: Axes) -> None:
        image = axes.imshow(self.values, aspect="auto", cmap="YlOrBr", vmin=0, interpolation="nearest")
        axes.set_yticks(range(len(self.rows)), list(self.rows))
        step = max(1, -(-len(self.columns) // 10))
        axes.set_xticks(range(0, len(self.columns), step), list(self.columns)[::step])
        bar = axes.figure.colorbar(image, ax=axes, pad=0.01)
        bar.set_label(self.unit)


@dataclass(frozen=True)
class DayTrend:
    """Stacked bars over time as `DayBars`, and a share in percent as a line with its own scale."""

    title: str
    series: Series
    share: Mapping[str, float]
    unit: str = ""
    share_unit: str = ""
    height: float = 2.6
    days: int = 1

    @property
    def is_empty(self) -> bool:
        return not any(self.series.values())

    def draw(self, axes: Axes) -> None:
        DayBars(self.title, self.series, self.unit, days=self.days).draw(axes)
        other = axes.twinx()
        other.spines[["top", "left"]].set_visible(False)
        days = sorted(self.share)
        other.plot([_place(day) for day in days], [self.share[day] for day in days], marker=".", color=_INK)
        other.set_ylim(0, 105)
        other.set_ylabel(self.share_unit)


@dataclass(frozen=True)
class Rates:
    """Lines of rates from 0 to 1 over days, one color per name of the series."""

    title: str
    series: Series
    unit: str = ""
    height: float = 2.6

    @property
    def is_empty(self) -> bool:
        return not any(self.series.values())

    def draw(self, axes: Axes) -> None:
        _dates(axes)
        for name, color in _colored(sorted(self.series)):
            points = sorted(self.series[name].items())
            places = [_place(day) for day, _ in points]
            axes.plot(places, [rate for _, rate in points], marker=".", label=name, color=color)
        days = {day for values in self.series.values() for day in values}
        if len(days) == 1:
            (place,) = map(_place, days)
            axes.set_xlim(place - 3.5, place + 3.5)
        axes.set_ylim(0, 1.05)
        axes.set_ylabel(self.unit)


def write_svg(chart: Chart, path: Path, data_dir: Path) -> None:
    """Draw a chart into a file; the same numbers give the same bytes."""
    path.write_bytes(_drawn(chart, data_dir, "svg"))


def png(chart: Chart, data_dir: Path) -> bytes:
    """The chart as a PNG."""
    return _drawn(chart, data_dir, "png")


def markdown(chart: Chart, data_dir: Path) -> str:
    """The chart as a line of Markdown that contains the whole image."""
    return f"![{chart.title}](data:image/png;base64,{b64encode(png(chart, data_dir)).decode()})"


def _drawn(chart: Chart, data_dir: Path, kind: str) -> bytes:
    # Its list of fonts stays out of the home folder.
    os.environ.setdefault("MPLCONFIGDIR", str(data_dir / "dagster" / "matplotlib"))
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        figure: Figure = Figure(figsize=(7.4, chart.height), dpi=100, layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(chart.title, fontsize="medium", loc="left")
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize="small")
        if chart.is_empty:
            axes.set_axis_off()
            axes.text(0.5, 0.5, "nothing in these days", ha="center", va="center", transform=axes.transAxes)
        else:
            chart.draw(axes)
        _legend(figure, axes)
        picture = BytesIO()
        figure.savefig(picture, format=kind, metadata={"Date": None} if kind == "svg" else None)
        return picture.getvalue()


def _colored(names: Iterable[str]) -> list[tuple[str, str]]:
    """A color per name; names of results, such as success, have the same color in every chart."""
    names = list(names)
    free = [color for color in _COLORS if color not in {_MEANT.get(name) for name in names}]
    return [(name, _MEANT.get(name) or free[place % len(free)]) for place, name in enumerate(names)]


def _legend(figure: Figure, axes: Axes) -> None:
    handles, names = axes.get_legend_handles_labels()
    if len(names) > 1:
        figure.legend(handles, names, frameon=False, fontsize="small", loc="outside right center")


def _dates(axes: Axes) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    # With fewer ticks there is no interval of months that fits four and a half years.
    locator = AutoDateLocator(maxticks=12)  # type: ignore[no-untyped-call]
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _cap_line(axes: Axes, name: str, steps: Points, dashes: str) -> None:
    """A cap as a line over the whole chart, with a step at each change."""
    sizes = [cap / MIB for _, cap in steps]
    look: dict[str, Any] = {"linestyle": dashes, "linewidth": 1.2, "color": _COLORS[5]}
    axes.step([_place(at) for at, _ in steps], sizes, where="post", label=f"{name}: {sizes[-1]:,.0f} MiB", **look)
    if len(set(sizes)) == 1:
        axes.axhline(sizes[0], **look)


def _place(at: str) -> float:
    """The position of an ISO day or time on the axis: days since 1970."""
    since = datetime.fromisoformat(at).replace(tzinfo=None) - datetime(1970, 1, 1)  # noqa: DTZ001 - both are UTC
    return since / timedelta(days=1)
