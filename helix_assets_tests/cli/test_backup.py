"""`helix backup` and `helix restore` say what they did; a sound store is not replaced unasked."""

import json
import sqlite3
from pathlib import Path
from zipfile import ZipFile

import pytest

from helix_assets.cli.main import run


def test_backup_makes_a_copy_and_lists_all(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backup", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["folder"] == str(swept / "data" / "backup")
    assert [copy["digests"] for copy in found["copies"]] == [1, 1]


@pytest.mark.parametrize(
    "error", [sqlite3.OperationalError("database or disk is full"), OSError(28, "No space left on device")], ids=str
)
def test_a_copy_that_there_is_no_room_for_ends_in_a_message(
    swept: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    class NoRoom(ZipFile):
        def write(self, *_: object) -> None:  # type: ignore[override]
            raise error

    monkeypatch.setattr("helix_assets.keep.backup.ZipFile", NoRoom)
    assert run(["backup"]) in (65, 74)
    told = capsys.readouterr().err
    assert str(swept / "data" / "backup") in told
    assert len(list((swept / "data" / "backup").iterdir())) == 1


def test_listing_makes_none(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backup", "--list"]) == 0
    assert "000001-" in capsys.readouterr().out
    assert len(list((swept / "data" / "backup").iterdir())) == 1


def test_sound_store_is_not_replaced_unasked(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["restore"]) == 65
    assert "--yes" in capsys.readouterr().err
    assert not (swept / "data" / "set-aside").exists()


def test_restore_says_what_is_lost_and_what_comes_back(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = (swept / "data" / "raw").glob("flavor=*/day=*/*.parquet")
    path.unlink()
    assert run(["restore"]) == 0
    output = capsys.readouterr().out
    assert "1 sessions have no raw bytes any more" in output
    assert "The next sweep reads 1 of them again" in output
    assert run(["verify"]) == 0


def test_unknown_copy_is_reported(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["restore", "--from", "77"]) == 1
    assert "`helix backup --list`" in capsys.readouterr().err


def test_status_shows_the_age_of_the_last_copy(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["status"]) == 0
    assert "last copy" in capsys.readouterr().out
    assert run(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["backup"]["digests"] == 1
