"""`helix sweep` says what changed, where the logs are bad, and costs little when nothing changed."""

import json
from pathlib import Path

import pytest

from helix_assets.cli import sweep as command
from helix_assets.cli.main import run
from helix_assets.settings import load_settings
from helix_assets.store import lock
from helix_assets.store.lock import writer_lock
from helix_assets.sweep.sweep_report import SweepReport
from helix_assets_tests.cli.conftest import UID, write_session
from helix_assets_tests.cli.test_main import run_python
from helix_assets_tests.home import conversation


def test_first_sweep_says_what_it_took_in(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(home, UID, *conversation(3))
    assert run(["sweep", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert (answer["files_changed"], answer["lines_read"], answer["sessions"]) == (1, 12, [UID])
    assert answer["partitions"] == [["claude", "2026-06-05"]]


def test_sweep_without_news_says_so(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sweep"]) == 0
    assert capsys.readouterr().out.startswith("Nothing new in 1 files")


def test_sweep_without_news_loads_no_heavy_library(swept: Path) -> None:
    script = (
        "import sys; from helix_assets.cli.main import run; code = run(['sweep']); print(*sys.modules); sys.exit(code)"
    )
    ended = run_python("-c", script)
    imported = {name.partition(".")[0] for name in ended.stdout.split()}
    assert ended.returncode == 0, ended.stderr
    assert not imported & {"pyarrow", "pandas", "dagster", "duckdb", "pydantic", "numpy", "rich"}


def test_bad_line_is_shown_with_file_and_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_session(home, UID, *conversation(1), b"{broken\n")
    assert run(["sweep"]) == 0
    said = capsys.readouterr().out
    assert f"{path}  line 5: not JSON" in said


def test_many_problems_are_cut_short_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    command._print_report(SweepReport(files_skipped=1, problems=[(f"/log/{n}", "bad") for n in range(50)]))
    said = capsys.readouterr().out
    assert "/log/19 " in said
    assert "... and 30 more" in said


def test_busy_store_ends_with_the_code_for_later(
    swept: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lock, "WAIT_S", 0.1)
    monkeypatch.setattr(
        "helix_assets.keep.writing.writer_lock", lambda folder, what, wait_s: writer_lock(folder, what, 0.1)
    )
    with writer_lock(swept / "data", "another"):
        assert run(["sweep"]) == 75
    assert "in use by process" in capsys.readouterr().err


def test_first_sweep_of_helix_up_ends_with_a_table_by_agent(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_session(home, UID, *conversation(2))
    command.first_sweep(load_settings(), as_json=False)
    agent, *figures = capsys.readouterr().out.splitlines()[-1].split()
    assert (agent, figures[:3]) == ("claude", ["1", "0", "11"])


def test_first_sweep_without_logs_says_what_to_do(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.first_sweep(load_settings(), as_json=False)
    assert "helix up --demo" in capsys.readouterr().out
    assert run(["sweep"]) == 0
    assert "helix up --demo" in capsys.readouterr().out


def test_progress_bar_moves_by_kib_of_logs() -> None:
    moves: list[tuple[int, int | None]] = []
    bar = command._Bar(lambda done, total=None: moves.append((done, total)))
    bar.start(10 << 10)
    bar.advance(4 << 10, UID)
    bar.advance(6 << 10, UID)
    assert moves == [(0, 10), (4, None), (10, None)]
