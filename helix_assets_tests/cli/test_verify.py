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
