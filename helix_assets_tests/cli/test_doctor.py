"""`helix doctor` ends with 1 when something needs doing, and says what."""

import json
import os
from pathlib import Path

import pytest

from helix_assets.cli.main import run
from helix_assets_tests.cli.test_main import run_python

SMALL = {"HELIX_RAW_SOFT_CAP_BYTES": "1MiB", "HELIX_RAW_HARD_CAP_BYTES": "2MiB", "HELIX_DISTILLED_CAP_BYTES": "2MiB"}


@pytest.fixture(autouse=True)
def small_caps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caps that any disk has room for."""
    for name, value in SMALL.items():
        monkeypatch.setenv(name, value)


def test_all_is_well(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    assert capsys.readouterr().out.endswith("All is well; `helix verify` proves every byte.\n")


def test_what_needs_doing_is_reported(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (swept / "data" / "key").chmod(0o644)
    assert run(["doctor", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["is_fine"] is False
    assert [f["check"] for f in found["findings"] if f["state"] == "wrong"] == ["rights"]


def test_a_home_without_anything_makes_no_store(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 1
    assert not (home / "data").exists()
    assert "run `helix sweep`" in capsys.readouterr().out


def test_nothing_heavy_is_imported(swept: Path) -> None:
    script = "import sys; from helix_assets.cli.main import run; run(['doctor']); print(*sys.modules)"
    imported = {name.partition(".")[0] for name in run_python("-c", script).stdout.split()}
    assert "helix_assets" in imported
    assert not imported & {"dagster", "duckdb", "pandas", "pyarrow"}


def test_paths_are_shown_without_their_secrets(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = "Xk29dkeLw02qZZ7"
    project = swept / ".claude" / "projects" / f"DB_PASSWORD={secret}"
    project.mkdir()
    os.mkfifo(project / "s1.jsonl")
    (swept / ".grok" / "sessions").mkdir(parents=True)
    (swept / ".grok" / "sessions" / f"%2Fhome%2FDB_PASSWORD%3D{secret}").symlink_to(project)
    (swept / "data" / f"DB_PASSWORD={secret}").touch(mode=0o666)
    assert run(["doctor"]) == 1
    told = capsys.readouterr().out
    assert told.count("DB_PASSWORD=[redacted:password:") >= 2
    assert run(["doctor", "--json"]) == 1
    assert secret not in told + capsys.readouterr().out
