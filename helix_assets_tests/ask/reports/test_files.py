"""A report's files: whole, safe to open, and gone with what they tell of."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from helix_assets.ask.reports import files
from helix_assets.ask.reports.all_reports import REPORTS, make_report
from helix_assets.ask.reports.files import as_csv
from helix_assets.ask.reports.frame import Report, Span
from helix_assets.ask.reports.markdown import as_markdown
from helix_assets.keep.evict import apply
from helix_assets.keep.forget import forget
from helix_assets.keep.report_files import write_report
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.prove.verify_secrets import CANARIES, surviving_secrets
from helix_assets.settings import load_settings
from helix_assets.store.store import Store, open_store
from helix_assets_tests.home import NOW, Memory

TINY = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=2, max_age_days=1, distilled_cap_bytes=10**9)
UID = "claude:s3"
DAYS = {"weekly_retro": Span(until=date(2026, 6, 10))}


def write(store: Store, name: str) -> Path:
    return write_report(store, name, lambda: make_report(store, name, DAYS.get(name, Span())))[1]


def texts(data_dir: Path) -> str:
    """All that reports and notes say, Parquet too."""
    paths = sorted(path for folder in ("reports", "hub") for path in (data_dir / folder).rglob("*"))
    found = [path for path in paths if path.is_file()]
    return "\n".join(
        str(pq.read_table(path).to_pylist()) if path.suffix == ".parquet" else path.read_text() for path in found
    )


@pytest.fixture
def written(memory: Memory) -> Memory:
    for name in REPORTS:
        write(memory.store, name)
    return memory


def test_every_table_and_picture_has_its_file(memory: Memory) -> None:
    folder = write(memory.store, "usage_report")
    tables = {"by_day", "by_agent", "by_repo", "by_model"}
    pictures = {"output_by_day.svg", "cost_by_day.svg"}
    wanted = {f"{table}.{kind}" for table in tables for kind in ("csv", "parquet")}
    assert {path.name for path in folder.iterdir()} == wanted | pictures | {"usage_report.md"}


def test_files_are_for_their_owner_alone(written: Memory) -> None:
    root = written.store.data_dir / "reports"
    assert {path.stat().st_mode & 0o777 for path in root.rglob("*") if path.is_file()} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in root.rglob("*") if path.is_dir()} == {0o700}


def test_parquet_and_csv_hold_the_same(memory: Memory) -> None:
    folder = write(memory.store, "file_heatmap")
    rows = pq.read_table(folder / "files.parquet").to_pylist()
    lines = (folder / "files.csv").read_text().splitlines()
    assert lines[0].split(",") == list(rows[0])
    assert [line.split(",")[1] for line in lines[1:]] == [row["file_path"] for row in rows]


def test_the_same_memory_gives_the_same_bytes(memory: Memory) -> None:
    first = {path.name: path.read_bytes() for path in write(memory.store, "tool_report").iterdir()}
    assert {path.name: path.read_bytes() for path in write(memory.store, "tool_report").iterdir()} == first


def test_a_retro_has_a_folder_and_a_note_per_week(memory: Memory) -> None:
    folder = write(memory.store, "weekly_retro")
    assert folder.relative_to(memory.store.data_dir) == Path("reports/weekly_retro/2026-W24")
    assert (memory.store.data_dir / "hub" / "2026-06-08-weekly-retro.md").read_text().startswith('---\nkind: "weekly')


def test_what_a_session_is_forgotten_for_is_in_no_report(written: Memory) -> None:
    assert "mill" in texts(written.store.data_dir)
    forget(written.store, {UID}, now=NOW)
    assert texts(written.store.data_dir) == ""
    for name in REPORTS:
        write(written.store, name)
    assert "mill" not in texts(written.store.data_dir)


def test_a_report_made_while_a_session_is_forgotten_is_made_again(memory: Memory) -> None:
    asked: list[Report] = []

    def make() -> Report:
        made = make_report(memory.store, "usage_report")
        if not asked:
            forget(memory.store, {UID}, now=NOW)
        asked.append(made)
        return made

    write_report(memory.store, "usage_report", make)
    assert len(asked) == 2
    assert "mill" not in texts(memory.store.data_dir)


def test_reports_are_dropped_when_the_rules_change(written: Memory) -> None:
    data_dir = written.store.data_dir
    written.close()
    environ = dict(written.environ) | {
        "HOME": str(written.folder / "home"),
        "HELIX_DATA_DIR": str(data_dir),
        "CLAUDE_CONFIG_DIR": str(written.folder / "home" / "claude"),
        "HELIX_SWEEP_WORKERS": "1",
        "HELIX_REDACTION_RULES": "[{name = 'house-word', pattern = 'wheel'}]",
    }
    written.store = open_store(load_settings(environ))
    written.sweep()
    assert texts(data_dir) == ""
    write(written.store, "file_heatmap")
    assert "cart.py" in texts(data_dir)
    assert "wheel" not in texts(data_dir)


def test_reports_say_the_same_after_the_raw_bytes_went(written: Memory) -> None:
    before = texts(written.store.data_dir)
    apply(written.store, clock=lambda: NOW, policy=TINY, analyze=written.sweep)
    assert not written.raw_usage()
    for name in REPORTS:
        write(written.store, name)
    assert texts(written.store.data_dir) == before


def test_a_secret_in_a_report_is_found(written: Memory) -> None:
    (written.store.data_dir / CANARIES).write_text("wheel.go\n")
    places = {found.place for found in surviving_secrets(written.store)}
    assert any("reports/file_heatmap/files.csv" in place for place in places)


def test_what_a_kill_left_is_no_report(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    write(memory.store, "tool_report")
    before = texts(memory.store.data_dir)
    monkeypatch.setattr("helix_assets.keep.report_files.os.rename", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        write(memory.store, "usage_report")
    monkeypatch.undo()
    assert not (memory.store.data_dir / "reports" / "usage_report").exists()
    write(memory.store, "tool_report")
    assert texts(memory.store.data_dir) == before


def test_a_cell_is_no_formula_and_drives_no_terminal() -> None:
    assert files.safe_cells(["=cmd()", "+1", "@x", -1, "a\x1b[2J", None]) == ["'=cmd()", "'+1", "'@x", "-1", "a[2J", ""]


def test_markdown_shows_a_hostile_name_as_it_is(memory: Memory) -> None:
    path = "/home/u/shop/![x](http:evil)|<b>`.py"
    report = make_report(memory.store, "file_heatmap")
    table = report.table("files")
    hostile = table.data.set_column(1, "file_path", [[path] * table.data.num_rows])
    text = as_markdown(Report("Files", Span(), {}, [type(table)(table.name, table.title, hostile)])).partition("## ")[2]
    assert "](http" not in text
    assert "<b>" not in text
    assert len({line.replace("\\|", "").count("|") for line in text.splitlines() if line.startswith("| ")}) == 1


def test_csv_quotes_what_holds_a_comma(memory: Memory) -> None:
    report = make_report(memory.store, "weekly_retro", Span(until=date(2026, 6, 10)))
    assert '"' not in as_csv(report.table("changes"))
    assert "; please do" in as_csv(report.table("by_repo"))
