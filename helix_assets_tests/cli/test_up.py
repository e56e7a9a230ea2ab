"""`helix up` before it serves; the serving itself is tested with the supervisor."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from helix_assets.agents import AGENTS
from helix_assets.cli import up as command
from helix_assets.cli.main import run
from helix_assets.cli.up import enter_demo
from helix_assets.serve.lifeline import Say
from helix_assets.serve.up import ServeOptions
from helix_assets.store.lock import writer_lock
from helix_assets_tests.serve.test_lifeline import is_gone
from helix_assets_tests.serve.tree import free_port, wait_until


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
    settings = enter_demo(home / "data", print)
    sample = home / "data" / "demo-home"
    assert settings.roots == {agent: (sample / agent,) for agent in AGENTS}
    assert [os.environ[name] for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GROK_HOME")] == [
        str(sample / agent) for agent in ("claude", "codex", "grok")
    ]


def test_the_demo_keeps_its_state_apart(home: Path) -> None:
    settings = enter_demo(home / "data", print)
    assert settings.data_dir == home / "data" / "demo"
    assert os.environ["HELIX_DATA_DIR"] == str(settings.data_dir)


def test_the_demo_has_a_command_of_its_own_that_reads_no_other_logs(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = enter_demo(home / "it's data", print)
    command_of_demo = settings.data_dir / "helix"
    own = {"PATH": os.environ["PATH"], "HOME": str(home), "HELIX_CLAUDE_ROOTS": '["/somebody/else"]'}
    said = subprocess.run([command_of_demo, "config", "--json"], env=own, capture_output=True, text=True, check=True)
    told = json.loads(said.stdout)
    assert told["data_dir"] == str(settings.data_dir)
    assert told["roots"] == {agent: [str(root) for root in roots] for agent, roots in settings.roots.items()}
    assert command_of_demo.stat().st_mode & 0o777 == 0o700


def test_the_sample_home_ends_yesterday(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_DEMO_SESSIONS", 40)  # enough for one on the last day
    enter_demo(home / "data", print)
    days = {datetime.fromtimestamp(path.stat().st_mtime, UTC).date() for path in home.rglob("*.jsonl")}
    assert max(days) == datetime.now(UTC).date() - timedelta(days=1)


def test_the_sample_home_is_made_once(home: Path) -> None:
    enter_demo(home / "data", print)
    before = (home / "data" / "demo-home" / "truth.json").stat().st_mtime_ns
    enter_demo(home / "data", print)
    assert (home / "data" / "demo-home" / "truth.json").stat().st_mtime_ns == before


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> None:
    """Serving ends as soon as it has begun."""

    def serve(data_dir: Path, options: ServeOptions, say: Say, *steps: Callable[[], None]) -> None:
        for step in steps:
            step()

    monkeypatch.setattr("helix_assets.cli.up.serve", serve)


@pytest.mark.usefixtures("served")
def test_json_is_one_line_once_the_ui_answers(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["up", "--demo", "--port", "3111", "--read-only", "--json"]) == 0
    (line,) = capfd.readouterr().out.splitlines()
    answer = json.loads(line)
    assert answer["sweep"]["sessions_touched"] >= 3
    assert answer | {"sweep": 0} == {
        "url": "http://127.0.0.1:3111",
        "is_read_only": True,
        "process": os.getpid(),
        "data_dir": str(home / "data" / "demo"),
        "sweep": 0,
    }


def test_a_first_sweep_that_another_process_holds_up_is_null(
    home: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(["sweep"]) == 0
    capfd.readouterr()
    monkeypatch.setattr("helix_assets.cli.sweep._end_with_parent", lambda: None)
    monkeypatch.setattr(
        "helix_assets.keep.writing.writer_lock", lambda folder, what, wait_s: writer_lock(folder, what, 0.1)
    )
    reading, writing = os.pipe()
    with writer_lock(home / "data", "another"):
        assert run(["sweep", "--for-up", str(writing), "--json"]) == 0
    assert json.loads(os.read(reading, 100)) is None
    out, err = capfd.readouterr()
    assert out == ""
    assert "the sensor sweeps later" in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_a_first_sweep_ends_with_its_parent(home: Path, number: signal.Signals, code: int) -> None:
    assert run(["sweep"]) == 0
    command = [sys.executable, "-m", "helix_assets", "up", "--port", str(free_port())]
    with writer_lock(home / "data", "another"):  # it waits for that
        parent = subprocess.Popen(command, stderr=subprocess.PIPE)
        assert wait_until(lambda: bool(_first_sweeps(parent.pid)))
        (child,) = _first_sweeps(parent.pid)
        time.sleep(1)
        parent.send_signal(number)
        _, err = parent.communicate(timeout=20)
    assert parent.returncode == code
    assert err.decode().count("interrupted") == (number is signal.SIGINT)
    assert wait_until(lambda: is_gone(child), 5) or sys.platform != "linux"


def _first_sweeps(parent: int) -> list[int]:
    """The processes of first sweeps that this process has started."""
    command = ["ps", "-ww", "-eo", "pid=,ppid=,args="]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split(maxsplit=2) for line in listing.splitlines()]
    return [int(row[0]) for row in rows if int(row[1]) == parent and "sweep --for-up" in row[2]]
