"""`helix hooks` shows what it changes, changes nothing in a dry run, and hides the keys next to the change."""

import json
from pathlib import Path

import pytest

from helix_assets.cli.main import run

KEY = "ghp_" + "k8Zq2VfX1mB7tYw4RjN6cLs9PaHe3DuG5oQi"


@pytest.fixture
def settings(home: Path) -> Path:
    (home / ".claude").mkdir()
    path = home / ".claude" / "settings.json"
    path.write_text(json.dumps({"token": KEY}, indent=2) + "\n")
    return path


def test_a_dry_run_shows_and_changes_nothing(settings: Path, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = settings.read_text()
    assert run(["hooks", "install", "--agent", "claude", "--dry-run"]) == 0
    out = capfd.readouterr().out
    assert '+    "SessionEnd": [' in out
    assert KEY not in out
    assert settings.read_text() == before
    assert not (home / "data").exists()


def test_installed_shown_and_removed(settings: Path, home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["hooks", "install", "--agent", "claude"]) == 0
    assert "The old file: " in capfd.readouterr().out
    assert (home / "data" / "inbox").is_dir()
    assert run(["hooks", "status", "--json"]) == 0
    agents = json.loads(capfd.readouterr().out)["agents"]
    assert {one["agent"]: bool(one["events"]) for one in agents} == {"claude": True, "codex": False, "grok": False}
    assert run(["hooks", "install", "--agent", "claude"]) == 0
    assert "already" in capfd.readouterr().out
    assert run(["hooks", "uninstall", "--agent", "claude"]) == 0
    assert json.loads(settings.read_text()) == {"token": KEY}


def test_what_cannot_be_read_ends_with_a_message(settings: Path, capfd: pytest.CaptureFixture[str]) -> None:
    settings.write_text("{")
    assert run(["hooks", "install", "--agent", "claude"]) == 1
    assert "nothing was changed" in capfd.readouterr().err
    assert settings.read_text() == "{"


def test_json_says_the_change_and_the_backup(settings: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = settings.read_text()
    assert run(["hooks", "install", "--agent", "claude", "--json"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert (answer["file"], answer["is_changed"]) == (str(settings), True)
    assert '+    "SessionEnd": [' in answer["diff"]
    assert KEY not in answer["diff"]
    assert Path(answer["backup"]).read_text() == before


def test_json_reports_a_dry_run_that_nothing_changed(settings: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["hooks", "uninstall", "--agent", "claude", "--dry-run", "--json"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert (answer["is_changed"], answer["diff"], answer["backup"]) == (False, "", None)


def test_settings_that_cannot_be_read_hide_no_other_agent(
    settings: Path, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (home / ".grok").mkdir()
    assert run(["hooks", "install", "--agent", "grok"]) == 0
    settings.write_text("{")
    capfd.readouterr()
    assert run(["hooks", "status"]) == 1
    out, err = capfd.readouterr()
    hook_at = {line.split("  ")[0]: line for line in out.splitlines()[1:]}
    assert "unknown" in hook_at["claude"]
    assert "SessionEnd" in hook_at["grok"]
    assert str(settings) in err
    assert run(["hooks", "status", "--json"]) == 1
    agents = {one["agent"]: one for one in json.loads(capfd.readouterr().out)["agents"]}
    assert str(settings) in agents["claude"]["problem"]
    assert agents["grok"]["problem"] is None
