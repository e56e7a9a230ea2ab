"""`helix up` before it serves; the serving itself is tested with the supervisor."""

import os
import socket
from pathlib import Path

import pytest

from helix_assets.cli import up as command
from helix_assets.cli.main import run
from helix_assets.cli.up import enter_demo


@pytest.fixture(autouse=True)
def few_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_DEMO_SESSIONS", 3)


def test_an_open_address_is_refused_with_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["up", "--host", "0.0.0.0"]) == 1
    assert "--allow-remote" in capsys.readouterr().err


def test_the_port_comes_from_the_settings(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        monkeypatch.setenv("HELIX_WEB_PORT", str(port))
        assert run(["up"]) == 1
    assert f"127.0.0.1:{port}" in capsys.readouterr().err


def test_the_demo_reads_the_sample_home_alone(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIX_CLAUDE_ROOTS", '["/somebody/else"]')
    config = home / "helix.toml"
    config.write_text('[sources]\ncodex_roots = ["/somebody/else"]\n')
    monkeypatch.setenv("HELIX_CONFIG", str(config))
    settings = enter_demo(home / "data")
    sample = home / "data" / "demo-home"
    assert settings.roots == {agent: (sample / agent,) for agent in ("claude", "codex", "grok")}
    assert [os.environ[name] for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GROK_HOME")] == [
        str(sample / agent) for agent in ("claude", "codex", "grok")
    ]


def test_the_demo_keeps_its_state_apart(home: Path) -> None:
    settings = enter_demo(home / "data")
    assert settings.data_dir == home / "data" / "demo"
    assert os.environ["HELIX_DATA_DIR"] == str(settings.data_dir)


def test_the_sample_home_is_made_once(home: Path) -> None:
    enter_demo(home / "data")
    before = (home / "data" / "demo-home" / "truth.json").stat().st_mtime_ns
    enter_demo(home / "data")
    assert (home / "data" / "demo-home" / "truth.json").stat().st_mtime_ns == before
