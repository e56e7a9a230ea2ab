"""`helix demo` writes a home and says how to read it."""

import json
from pathlib import Path

import pytest

from helix_assets.cli.main import run


def test_sample_home_is_made_and_described(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", str(tmp_path / "out"), "--sessions", "3", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    truth = json.loads((tmp_path / "out" / "truth.json").read_text())
    assert answer["sessions"] == len(truth["sessions"])
    assert Path(answer["CODEX_HOME"]).is_dir()


def test_size_may_be_given_in_megabytes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", str(tmp_path / "out"), "--mb", "0.5", "--json"]) == 0
    assert 400_000 < json.loads(capsys.readouterr().out)["bytes"] < 700_000


def test_two_sizes_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", str(tmp_path / "out"), "--mb", "1", "--sessions", "2"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_smallest_size_still_makes_a_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", str(tmp_path / "out"), "--mb", "0.00001", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["sessions"] >= 1


def test_the_last_day_can_be_named_and_the_rest_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for folder, until in (("a", ["--until", "2026-06-30"]), ("b", ["--until", "2026-06-30"]), ("c", [])):
        assert run(["demo", str(tmp_path / folder), "--sessions", "3", *until, "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert [answer["until"] for answer in told] == ["2026-06-30", "2026-06-30", "2026-01-31"]
    truths = [(tmp_path / folder / "truth.json").read_bytes() for folder in "abc"]
    assert truths[0] == truths[1] != truths[2]


def test_a_last_day_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["demo", str(tmp_path / "out"), "--until", "yesterday"]) == 2
    assert "--until" in capsys.readouterr().err
