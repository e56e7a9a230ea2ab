"""A record whose redaction fails is withheld, counted and reported. It is never stored as it was."""

import json
from pathlib import Path

import pytest

from helix_assets.cli.main import run
from helix_assets.prove.verify_secrets import surviving_secrets
from helix_assets.redaction.finder import Finder, Span
from helix_assets.settings import load_settings
from helix_assets.store.store import open_store
from helix_assets_tests.cli.conftest import UID, write_session
from helix_assets_tests.home import answer, prompt
from helix_assets_tests.redaction.made_up import made_up

WORD = "wombatwaltz"
KEY = made_up("ghp_{an36}", 3)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules that break on one word."""
    whole = Finder.spans

    def spans(self: Finder, view: bytes) -> list[Span]:
        if WORD.encode() in view:
            raise RecursionError
        return whole(self, view)

    monkeypatch.setattr(Finder, "spans", spans)


def swept_with(home: Path, capsys: pytest.CaptureFixture[str]) -> str:
    bad = prompt("p2", "10:01:00", f"{WORD} {KEY}")
    write_session(home, UID, prompt("p1", "10:00:00", "hello"), bad, answer("a1", "10:02:00", "hi", message="m1"))
    assert run(["sweep"]) == 0
    return capsys.readouterr().out


@pytest.mark.usefixtures("failing")
def test_sweep_and_status_show_what_was_withheld(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = swept_with(home, capsys)
    (line,) = (line for line in told.splitlines() if "records withheld" in line)
    assert line.split()[-1] == "1"
    assert run(["status"]) == 0
    assert "records withheld because they could not be redacted" in capsys.readouterr().out
    assert run(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["trouble"]["records_withheld"] == 1


@pytest.mark.usefixtures("failing")
def test_withheld_record_is_not_stored_and_the_others_are(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    swept_with(home, capsys)
    (home / "data" / "canaries.txt").write_text(f"{WORD}\n{KEY}\n")
    store = open_store(load_settings())
    assert surviving_secrets(store) == []
    store.close()
    assert run(["show", UID, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert [event["summary"] for event in shown["events"]] == ["hello", "hi"]


def test_record_that_new_rules_can_not_redact_is_withheld_and_counted(
    home: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    swept_with(home, capsys)
    request.getfixturevalue("failing")
    (home / "no-helix.toml").write_text("[[redaction.rules]]\nname = 'word'\npattern = 'wombatwaltz'\n")
    assert run(["sweep", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["records_withheld"] == 1
    assert run(["export"]) == 0
    assert WORD not in capsys.readouterr().out
