"""`helix export` writes private files that appear only when complete, and prints their hash."""

import hashlib
import json
import stat
from pathlib import Path

import pytest

from helix_assets.cli.main import run
from helix_assets_tests.cli.conftest import UID


def test_file_is_private_and_its_hash_is_reported(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = swept / "all.jsonl"
    assert run(["export", "--out", str(out), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_standard_output_gets_the_lines_alone(swept: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["export"]) == 0
    said = capfdbinary.readouterr()
    assert json.loads(said.out.splitlines()[0])["session_uid"] == UID
    assert said.err.decode() == f"sha256 {hashlib.sha256(said.out).hexdigest()}\n"


def test_figures_are_one_object_by_uid(swept: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["export", "--sessions"]) == 0
    figures = json.loads(capfdbinary.readouterr().out)
    assert list(figures) == [UID]
    assert {
        "uid", "files", "tokens", "tokens_main", "tokens_subagent", "tool_calls", "tools", "tool_errors", "tool_denied",
        "user_prompts", "interrupts", "assistant_messages", "compactions", "unparsed_lines", "records", "started_at",
        "ended_at", "models", "cwd", "git_branch", "parent_uid", "outcome",
    } <= figures[UID].keys()  # fmt: skip
    known = [figures[UID][name] for name in ("uid", "tools", "user_prompts", "records")]
    assert known == [UID, {"Bash": 3}, 3, 12]


def test_file_that_cannot_be_written_is_reported(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "--out", str(swept / "nowhere" / "all.jsonl")]) == 1
    assert "name another file with --out" in capsys.readouterr().err


def test_failed_export_leaves_no_file(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = (swept / "data" / "raw").glob("flavor=*/day=*/*.parquet")
    path.write_bytes(path.read_bytes()[:-1])
    before = sorted(swept.iterdir())
    assert run(["export", "--out", str(swept / "all.jsonl")]) == 65
    assert sorted(swept.iterdir()) == before


def test_json_without_a_file_is_refused(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["export", "--json"]) == 2
    assert "--out" in capsys.readouterr().err
