"""DataFrames for people: every view and every table of a report, with times in UTC and NA for what is not known."""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from helix_assets import Memory
from helix_assets.ask.dataframes import to_frame
from helix_assets.ask.memory import _TIMES
from helix_assets.ask.reports.all_reports import REPORTS
from helix_assets.ask.views import VIEWS
from helix_assets.model.errors import NotFoundError, QueryError
from helix_assets_tests.home import Memory as Home
from helix_assets_tests.home import call, conversation, prompt, result

HOOK = ("claude:s1", "2026-06-05T10:00:07.000000Z", "Stop", "")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sessions of 5 June 2026; a call of the second has no result."""
    home = Home(tmp_path_factory.mktemp("home"), {"HELIX_AGENTS": "claude"})
    home.write("s1", *conversation(2))
    home.write(
        "s2",
        prompt("p2", "12:00:00", "run it"),
        call("c2", "12:00:10", "Bash", "toolu_done", command="ls"),
        result("r2", "12:00:12", "toolu_done", "fine"),
        call("c3", "12:30:00", "Bash", "toolu_open", command="sleep 9"),
    )
    home.sweep()
    home.close()
    path = home.store.settings.catalog_path
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("insert into hook_events (session_uid, at, event, call_id) values (?, ?, ?, ?)", HOOK)
    return path


@pytest.fixture
def memory(path: Path) -> Iterator[Memory]:
    with Memory(path) as memory:
        yield memory


def wrong_types(frame: pd.DataFrame) -> list[str]:
    """Columns of numbers that cannot be NA, of times without a zone, or of anything but days as objects."""
    return [
        f"{name}: {kind}"
        for name, kind in frame.dtypes.items()
        if str(kind) not in {"str", "Int32", "Int64", "Float64", "boolean", "datetime64[us, UTC]"}
        and not (kind == object and all(value is None or type(value) is date for value in frame[name]))  # noqa: E721
    ]


@pytest.mark.parametrize("name", [*VIEWS, "hook_events"])
def test_every_view_is_a_frame_of_its_columns(memory: Memory, name: str) -> None:
    frame = memory.frame(name)
    assert wrong_types(frame) == []
    if name != "hook_events":
        assert list(frame.columns) == [row[0] for row in memory.sql(f"describe {name}").rows]
        assert len(frame) == memory.sql(f"select count(*) from {name}").rows[0][0]


@pytest.mark.parametrize("name", REPORTS)
def test_every_table_of_a_report_is_a_frame(memory: Memory, name: str) -> None:
    report = memory.report(name, until="2026-06-05")
    assert report.frame().equals(report.frame(report.tables[0].name))
    for table in report.tables:
        frame = report.frame(table.name)
        assert tuple(frame.columns) == table.columns
        assert len(frame) == len(table.rows)
        assert wrong_types(frame) == []


def test_times_are_utc_and_unknown_numbers_are_na(memory: Memory) -> None:
    calls = memory.frame("tool_calls").set_index("status").loc[["ok", "open"]]
    mine = calls[calls["session_uid"] == "claude:s2"]
    assert mine.loc["ok", "ts"] == datetime(2026, 6, 5, 12, 0, 10, tzinfo=UTC)
    assert mine.loc["ok", "duration_ms"] == 2000
    assert mine.loc["open", "duration_ms"] is pd.NA
    assert memory.frame("hook_events")["ts"].tolist() == [datetime(2026, 6, 5, 10, 0, 7, tzinfo=UTC)]


# The last call of the second session began at 12:30 UTC, that before it at 12:00:10.
@pytest.mark.parametrize(
    ("since", "calls"),
    [
        (None, 4),
        ("2026-06-05", 4),
        (date(2026, 6, 5), 4),
        (date(2026, 6, 6), 0),
        ("2026-06-05T12:00:11", 1),
        ("2026-06-05 12:00:10", 2),
        ("2026-06-05T12:30:00Z", 1),
        ("2026-06-05T14:30:00+02:00", 1),
        ("2026-06-05T14:30:00.001+02:00", 0),
        (datetime(2026, 6, 5, 12, 30), 1),  # noqa: DTZ001 - a time without a zone is UTC
        (datetime(2026, 6, 5, 14, 30, tzinfo=timezone(timedelta(hours=2))), 1),
        (pd.Timestamp("2026-06-05 12:30", tz="UTC"), 1),
    ],
)
def test_since_is_a_day_or_a_time(memory: Memory, since: date | str | None, calls: int) -> None:
    assert len(memory.frame("tool_calls", since)) == calls


@pytest.mark.parametrize("name", [*VIEWS, "hook_events"])
def test_nothing_happened_after_all_of_it(memory: Memory, name: str) -> None:
    assert len(memory.frame(name, since="2200-01-01")) == 0
    assert len(memory.frame(name, since="2000-01-01")) == len(memory.frame(name))


@pytest.mark.parametrize("since", ["soon", "2026-13-01", "", 5, "0001-01-01T00:00+14:00"])
def test_another_since_is_refused_with_an_example(memory: Memory, since: Any) -> None:
    with pytest.raises(QueryError, match="write it like 2026-01-31"):
        memory.frame("tool_calls", since=since)


def test_an_unknown_name_is_refused_by_naming_all(memory: Memory) -> None:
    with pytest.raises(NotFoundError) as refused:
        memory.frame("tool_cals")
    assert all(name in str(refused.value) for name in (*VIEWS, "hook_events"))
    assert {*VIEWS, "hook_events"} == _TIMES.keys()
    with pytest.raises(QueryError, match="usage_report"):
        memory.report("usage")
    with pytest.raises(QueryError, match="by_day"):
        memory.report("usage_report").frame("by_week")


def test_a_report_is_about_the_days_given(memory: Memory) -> None:
    noon = datetime(2026, 6, 5, 23, 30, tzinfo=timezone(-timedelta(hours=2)))  # the 6th in UTC
    messages = [
        int(memory.report("usage_report", since=since).frame()["messages"].sum())
        for since in (None, "2026-06-05", date(2026, 6, 5), "2026-06-06", noon)
    ]
    assert messages == [messages[0], messages[0], messages[0], 0, 0]
    assert messages[0] > 0
    for bad in ("20260605", "soon", 5):
        with pytest.raises(QueryError, match="2026-01-31"):
            memory.report("usage_report", since=bad)  # type: ignore[arg-type]


def test_large_numbers_stay_exact_next_to_unknown_ones() -> None:
    big = 2**63 - 1
    frame = to_frame(pa.table({"key": pa.array([big, None]), "sum": pa.array([7, None], pa.decimal128(38, 0))}))
    assert frame["key"].tolist() == [big, pd.NA]
    assert frame["sum"].tolist() == [7, pd.NA]


def test_pandas_is_imported_for_frames_alone(path: Path) -> None:
    program = """
import sys
from helix_assets import Memory
with Memory() as memory:
    memory.digests(), memory.search("step"), memory.sql("select 1"), memory.report("usage_report")
    before = "pandas" in sys.modules
    frame = memory.frame("tool_calls")
print(before, "pandas" in sys.modules, frame["ts"].dtype, frame["duration_ms"].dtype)
"""
    environ = {"HELIX_STORE_DB": str(path), "HELIX_DATA_DIR": str(path.parent), "HOME": str(path.parent)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True,
                          cwd=Path(__file__).parents[2])  # fmt: skip
    assert done.stdout.strip() == "False True datetime64[us, UTC] Int64"
