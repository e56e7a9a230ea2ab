"""The service at login: its files and the commands that register it; never the real systemd or launchd."""

import json
import plistlib
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from helix_assets.cli.service import service
from helix_assets.model.errors import StopRun
from helix_assets.serve.service import plan_service

_FAKE = """#!/bin/sh
echo "$(basename "$0") $*" >> "$FAKE_LOG"
[ ! -e "$FAKE_LOG.broken" ] || { echo "no bus" >&2; exit 1; }
"""


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log of what the fake systemctl was asked for. It fails if there is a file of that name with .broken."""
    folder, log = tmp_path / "bin", tmp_path / "told"
    folder.mkdir()
    (folder / "systemctl").write_text(_FAKE)
    (folder / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setenv("FAKE_LOG", str(log))
    monkeypatch.setattr(sys, "platform", "linux")
    return log


def helix_service(*arguments: str) -> Result:
    return CliRunner().invoke(service, arguments)


def unit_path(home: Path) -> Path:
    return home / ".config" / "systemd" / "user" / "helix-assets.service"


def test_install_writes_a_private_unit_and_enables_it(home: Path, told: Path) -> None:
    result = helix_service("install", "--port", "3100", "--read-only")
    assert result.exit_code == 0, result.output
    assert unit_path(home).stat().st_mode & 0o777 == 0o600
    assert told.read_text().splitlines() == [
        "systemctl --user daemon-reload",
        "systemctl --user enable --now helix-assets.service",
    ]


def test_the_unit_names_the_interpreter_and_the_data_folder(home: Path, told: Path) -> None:
    helix_service("install", "--port", "3100", "--read-only")
    lines = unit_path(home).read_text().splitlines()
    command = next(line for line in lines if line.startswith("ExecStart="))
    assert shlex.split(command.removeprefix("ExecStart=")) == [
        *(sys.executable, "-P", "-m", "helix_assets", "up"),
        *("--port", "3100", "--read-only"),
    ]
    assert f'Environment="HELIX_DATA_DIR={home}/data"' in lines
    assert f'Environment="CLAUDE_CONFIG_DIR={home}/.claude"' in lines


def test_settings_go_along_and_the_session_close_names_do_not() -> None:
    environ = {"HOME": "/h", "HELIX_RAW_MAX_AGE_DAYS": "9", "HELIX_SESSION_UID": "x", "SECRET": "y"}
    content = plan_service([], Path("/d"), environ, "linux").content
    assert 'Environment="HELIX_RAW_MAX_AGE_DAYS=9"' in content
    assert "HELIX_SESSION_UID" not in content
    assert "SECRET" not in content


def test_signs_that_systemd_would_expand_are_escaped() -> None:
    content = plan_service([], Path('/data 100%/"x"'), {"HOME": "/h"}, "linux").content
    assert r'Environment="HELIX_DATA_DIR=/data 100%%/\"x\""' in content


def test_a_line_break_cannot_smuggle_a_directive_in() -> None:
    with pytest.raises(StopRun, match="line break"):
        plan_service([], Path("/d\nExecStartPre=/bin/evil"), {"HOME": "/h"}, "linux")


def test_uninstall_stops_it_and_removes_the_unit(home: Path, told: Path) -> None:
    helix_service("install")
    told.unlink()
    result = helix_service("uninstall")
    assert result.exit_code == 0, result.output
    assert not unit_path(home).exists()
    assert told.read_text().splitlines() == [
        "systemctl --user disable --now helix-assets.service",
        "systemctl --user daemon-reload",
    ]


def test_uninstall_without_a_service_says_so(home: Path, told: Path) -> None:
    assert "There is no service" in helix_service("uninstall").output
    assert not told.exists()


def test_a_dry_run_prints_and_touches_nothing(home: Path, told: Path) -> None:
    output = helix_service("install", "--dry-run").output
    assert "ExecStart=" in output
    assert "would run: systemctl --user enable --now helix-assets.service" in output
    assert not unit_path(home).exists()
    assert not told.exists()


def test_a_failing_systemctl_is_reported_in_its_own_words(home: Path, told: Path) -> None:
    Path(f"{told}.broken").touch()
    result = helix_service("install")
    assert isinstance(result.exception, StopRun)
    assert "no bus" in str(result.exception)


def test_a_missing_systemctl_is_reported_with_what_to_run(
    home: Path, told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    result = helix_service("install")
    assert unit_path(home).exists()
    assert "systemctl --user daemon-reload" in str(result.exception)


def test_status_says_what_is_installed_and_running(home: Path, told: Path) -> None:
    before = json.loads(helix_service("status", "--json").output)
    helix_service("install")
    Path(f"{told}.broken").touch()
    after = json.loads(helix_service("status", "--json").output)
    assert before == {"path": str(unit_path(home)), "installed": False, "running": True}
    assert after == {"path": str(unit_path(home)), "installed": True, "running": False}


def test_macos_gets_a_launch_agent() -> None:
    planned = plan_service(["--port", "3100"], Path("/d"), {"HOME": "/Users/me"}, "darwin")
    agent = plistlib.loads(planned.content.encode())
    assert planned.path == Path("/Users/me/Library/LaunchAgents/helix-assets.plist")
    assert agent["ProgramArguments"][-3:] == ["up", "--port", "3100"]
    assert agent["EnvironmentVariables"]["HELIX_DATA_DIR"] == "/d"
    assert (agent["RunAtLoad"], agent["Umask"]) == (True, 0o077)


def test_the_error_for_another_system_says_what_to_do() -> None:
    with pytest.raises(StopRun, match="start-up script"):
        plan_service([], Path("/d"), {"HOME": "/h"}, "win32")


def test_json_says_what_was_written_and_run(home: Path, told: Path) -> None:
    planned = json.loads(helix_service("install", "--dry-run", "--json").output)
    assert (planned["is_done"], told.exists()) == (False, False)
    done = json.loads(helix_service("install", "--json").output)
    assert done == planned | {"is_done": True}
    assert done["content"] == unit_path(home).read_text()
    assert [" ".join(command) for command in done["commands"]] == told.read_text().splitlines()


def test_json_says_what_was_removed_or_that_nothing_was_there(home: Path, told: Path) -> None:
    nothing = json.loads(helix_service("uninstall", "--json").output)
    assert (nothing["is_done"], nothing["commands"]) == (False, [])
    helix_service("install")
    assert json.loads(helix_service("uninstall", "--json").output)["is_done"]
    assert not unit_path(home).exists()


def test_json_reports_a_failing_systemctl(home: Path, told: Path) -> None:
    Path(f"{told}.broken").touch()
    result = helix_service("install", "--json")
    assert "no bus" in json.loads(result.output)["problems"][0]
    assert isinstance(result.exception, StopRun)


@pytest.mark.servers("systemd-analyze")
def test_systemd_itself_finds_nothing_wrong_with_the_unit(home: Path, told: Path) -> None:
    helix_service("install", "--port", "3100")
    command = ["systemd-analyze", "verify", str(unit_path(home))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in (done.stdout + done.stderr).splitlines() if unit_path(home).name in line]
    assert (done.returncode, said) == (0, [])
