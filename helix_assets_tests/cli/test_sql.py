"""`helix sql` prints an answer as a table, JSON or CSV, and what it lacks on stderr."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from helix_assets.cli import sql
from helix_assets.cli.main import run
from helix_assets_tests.cli.conftest import UID


@pytest.fixture(autouse=True)
def no_fence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit on memory is the process's, and this process has other tests to run."""
    monkeypatch.setattr(sql, "_fence_memory", lambda: None)


@pytest.mark.usefixtures("swept")
def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sql", "select session_uid, records from sessions"]) == 0
    assert capsys.readouterr().out.split() == ["session_uid", "records", UID, "12"]


@pytest.mark.usefixtures("swept")
def test_json_keeps_numbers_lists_and_nulls(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sql", "select 1 as a, [1, null] as b, {'x': date '2026-01-02'} as c, null as d", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [{"a": 1, "b": [1, None], "c": {"x": "2026-01-02"}, "d": None}]


@pytest.mark.usefixtures("swept")
def test_csv_cell_is_no_formula_and_drives_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sql", "select '=cmd()' as a, -1 as b, 'x' || chr(27) || '[2J' as c", "--csv"]) == 0
    assert capsys.readouterr().out == "a,b,c\n'=cmd(),-1,x[2J\n"


@pytest.mark.usefixtures("swept")
def test_cut_answer_says_so_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sql", "from range(9)", "--rows", "2", "--csv"]) == 0
    told = capsys.readouterr()
    assert told.out == "range\n0\n1\n"
    assert "first 2 rows" in told.err


def test_malformed_query_exits_with_a_usage_code(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sql", "selec 1"]) == 64
    assert "selec" in capsys.readouterr().err


def test_function_that_duckdb_does_not_count_meets_the_fence(swept: Path) -> None:
    query = "select length(repeat('x', 4000000000) || repeat('y', 200000000))"
    command = [sys.executable, "-m", "helix_assets", "sql", query]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 64
    assert "memory" in done.stderr
    assert "nanobind" not in done.stderr
