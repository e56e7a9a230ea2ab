"""`helix digest` shows what stays of a session."""

import json
from pathlib import Path

import pytest

from helix_assets.cli.main import run
from helix_assets.settings import load_settings
from helix_assets.store.store import open_store
from helix_assets_tests.cli.conftest import UID
from helix_assets_tests.cli.test_main import run_python


def test_digest_is_shown_in_words(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["digest", UID]) == 0
    said = capsys.readouterr().out
    assert "please do step 0" in said
    assert "user prompts" in said


def test_digest_as_it_is_stored(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["digest", UID[:12], "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["session_uid"], found["user_prompts"], found["tool_calls"]) == (UID, 3, 3)


@pytest.mark.parametrize("command", [["digest", UID], ["sessions"], ["env", UID], ["export", "--sessions"]])
def test_reading_digests_loads_no_pydantic(swept: Path, command: list[str]) -> None:
    ended = run_python("-c", f"import sys; from helix_assets.cli.main import run; run({command}); print(*sys.modules)")
    assert UID in ended.stdout
    assert "helix_assets.model.digest" in ended.stdout.split()
    assert "pydantic" not in ended.stdout.split()


def test_missing_digest_says_why(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = open_store(load_settings())
    with store.catalog.writing() as connection:
        connection.execute("DELETE FROM digests")
        connection.execute("UPDATE sessions SET failure = 'it broke', derived_generation = NULL")
    store.close()
    assert run(["digest", UID]) == 1
    assert f"{UID} has no digest yet: it broke" in capsys.readouterr().err


def test_damaged_digest_is_not_shown(swept: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = open_store(load_settings())
    with store.catalog.writing() as connection:
        connection.execute("UPDATE digests SET digest = '{\"user_prompts\":1}'")
    store.close()
    assert run(["digest", UID]) == 65
    assert f"the digest of {UID} is damaged" in capsys.readouterr().err
