"""`helix verify` ends with 0 for a sound store and 1 with the list of what is wrong."""

import json
from pathlib import Path

import pytest

from helix_assets.cli.main import run
from helix_assets_tests.cli.conftest import UID


def test_sound_store(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["verify"]) == 0
    assert capsys.readouterr().out == "The store is sound.\n"


def test_violations_are_listed(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = (swept / "data" / "raw").glob("flavor=*/day=*/*.parquet")
    path.unlink()
    assert run(["verify", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["is_sound"] is False
    assert [(v["check"], v["session_uid"]) for v in found["violations"]] == [("row_has_file", UID)]


def test_catalog_that_does_not_open_is_a_violation(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (swept / "data" / "helix.db").write_bytes(b"no database at all")
    assert run(["verify"]) == 1
    assert "store opens" in capsys.readouterr().out


def test_canary_ends_with_exit_code_1_where_secrets_are_asked_for(
    swept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (swept / "data" / "canaries.txt").write_text("please do step 1\n")
    (swept / "data" / "canaries.txt").chmod(0o600)
    assert run(["verify"]) == 0
    assert run(["verify", "--secrets"]) == 1
    told = capsys.readouterr().out
    assert "secret survives" in told
    assert UID in told
    assert "please do step 1" not in told


def test_canary_list_that_can_not_be_read_is_a_violation(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (swept / "data" / "canaries.txt").write_bytes(b"\xff")
    (swept / "data" / "canaries.txt").chmod(0o600)
    assert run(["verify", "--secrets"]) == 1
    assert "canaries.txt cannot be read" in capsys.readouterr().out
