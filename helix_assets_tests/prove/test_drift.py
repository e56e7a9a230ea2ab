"""What parsers do not know is counted by agent, version and week."""

from __future__ import annotations

from pathlib import Path

from helix_assets.prove.drift import Drift, Tally, drift_of, figures_of
from helix_assets_tests.home import Memory, conversation, line


def test_unknown_types_are_counted_by_agent_and_version(tmp_path: Path):
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(1))
    memory.write(
        "s2", *(line("hologram", f"h{n}", "10:00:00", version="2.1.240") for n in range(3)), b"{broken\n",
        line("[a](http://x)", "m", "10:00:01", version="2.1.240"),
    )  # fmt: skip
    memory.sweep()
    drift = drift_of(memory.store)["claude"]
    memory.close()
    assert (drift.total.unparsed, drift.total.unknown) == (1, 4)
    assert drift.types == {"hologram": 3, "(no plain name)": 1}
    assert {version: tally.unknown for version, tally in drift.by_version.items()} == {
        "(not told)": 0,
        "2.1.240": 4,
    }
    assert list(drift.by_week) == ["2026-W23"]


def test_trend_is_the_share_week_by_week():
    drift = Drift(by_week={"2026-W02": Tally(1000, 1, 4), "2026-W01": Tally(200, 0, 0)})
    assert figures_of("claude", drift)["claude_trend"] == "2026-W01: 0.0 in 1000, 2026-W02: 5.0 in 1000"
