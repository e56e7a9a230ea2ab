"""Pictures: on a ground of their own, and drawn whatever the numbers are."""

from __future__ import annotations

import base64
import io
import re
from pathlib import Path

import pytest

from helix_assets.ask.plots import BytesOverTime, Chart, DayBars, DayTrend, Heat, Rates, Shares, markdown, write_svg

DAYS = {"claude": {"2026-01-01": 3.0, "2026-01-03": 1.0}, "codex": {"2026-01-02": 2.0}}
CHARTS: list[Chart] = [
    DayBars("bars", DAYS, "sessions"),
    DayTrend("trend", {"passed": {"2026-01-01": 3.0}, "failed": {"2026-01-01": 1.0}}, {"2026-01-01": 75.0}),
    BytesOverTime("bytes", [("2026-01-01T10:00:00Z", 5 << 20)], {"soft cap": [("2026-01-01", 6 << 20)], "hard": []}),
    Shares("shares", {"Bash": {"ok": 4.0, "error": 1.0}}),
    Rates("rates", {"claude": {"2026-01-05": 0.5}}),
    Rates("no rates", {}),
    Heat("heat", ["1. go"], ["2026-01-05", "2026-01-12"], [[1.0, 2.0]], "changes"),
    DayBars("no bars", {}),
    *(DayBars(f"{years} years", {"a": {"2020-01-01": 1.0, f"{2020 + years}-09-30": 2.0}}) for years in (1, 3, 4, 9)),
    DayTrend("no trend", {"passed": {}}, {}),
    BytesOverTime("no bytes", [], {}),
    Shares("no shares", {}),
    Heat("no heat", [], [], []),
]  # fmt: skip


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.title)
def test_a_picture_has_a_light_ground_in_every_corner(chart: Chart, tmp_path: Path) -> None:
    from matplotlib.image import imread

    found = re.fullmatch(r"!\[[^]]*\]\(data:image/png;base64,(.*)\)", markdown(chart, tmp_path))
    assert found
    pixels = imread(io.BytesIO(base64.b64decode(found[1])))
    corners = [pixels[y, x] for y in (0, -1) for x in (0, -1)]
    assert all(corner[3] == 1 and min(corner[:3]) > 0.9 for corner in corners)


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.title)
def test_the_same_numbers_give_the_same_file(chart: Chart, tmp_path: Path) -> None:
    for name in ("one.svg", "other.svg"):
        write_svg(chart, tmp_path / name, tmp_path)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()
