"""`helix config` shows value, origin and places."""

import json
from pathlib import Path

import pytest

from helix_assets.cli.main import run
from helix_assets.settings.model import known_settings


def answer(capsys: pytest.CaptureFixture[str]) -> dict[str, dict[str, dict[str, object]]]:
    assert run(["config", "--json"]) == 0
    loaded: dict[str, dict[str, dict[str, object]]] = json.loads(capsys.readouterr().out)
    return loaded


def test_every_setting_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(answer(capsys)["settings"]) == [item.name for item in known_settings().values()]


def test_origin_of_a_setting_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config = tmp_path / "helix.toml"
    config.write_text("[web]\nport = 4000\n")
    monkeypatch.setenv("HELIX_CONFIG", str(config))
    monkeypatch.setenv("HELIX_CADENCE", "weekly")
    settings = answer(capsys)["settings"]
    assert settings["web.port"] == {"value": 4000, "origin": f"{config}:2", "variable": "HELIX_WEB_PORT"}
    assert settings["retention.cadence"]["origin"] == "HELIX_CADENCE"
    assert settings["prices"]["origin"] == "default"


def test_person_reads_sizes_with_units(capsys: pytest.CaptureFixture[str]) -> None:
    run(["config"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1:3] for line in lines if line.startswith("retention.raw_soft")] == [["4.0", "GiB"]]


def test_a_long_value_is_cut_for_a_person_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [f"/home/u/a-folder-with-a-name/{number}" for number in range(9)]
    monkeypatch.setenv("HELIX_EXCLUDE_PATHS", json.dumps(folders))
    assert answer(capsys)["settings"]["exclude.paths"]["value"] == folders
    run(["config"])
    assert "… (--json has it all)" in capsys.readouterr().out


def test_bad_setting_ends_with_its_message(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIX_CADENC", "daily")
    assert run(["config"]) == 78
    assert capsys.readouterr().err == "helix: HELIX_CADENC: unknown variable - did you mean 'HELIX_CADENCE'?\n"
