"""Starting helix at login: the systemd user unit and the launchd agent, their paths, and the commands to register them.

Nothing here happens on its own: `helix service install` asks for it. Root rights are never needed.
"""

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from helix_assets.model.errors import StopRun
from helix_assets.settings.folders import agent_variables, checkout, home
from helix_assets.settings.model import known_settings

LABEL = "helix-assets"


@dataclass(frozen=True)
class Service:
    """A file that makes the system start helix at login, and the commands that register it."""

    path: Path
    content: str
    enable: Sequence[Sequence[str]]
    disable: Sequence[Sequence[str]]
    forget: Sequence[Sequence[str]]
    ask: Sequence[str]


def plan_service(arguments: Sequence[str], data_dir: Path, environ: Mapping[str, str], platform: str) -> Service:
    """Plan what installing would write and run, for `helix up` with these arguments. Changes nothing."""
    command = [sys.executable, "-P", "-m", "helix_assets", "up", *arguments]
    variables = _variables(data_dir, environ)
    if platform == "darwin":
        return _launchd(command, variables, environ)
    if platform.startswith("linux"):
        return _systemd(command, variables, environ)
    raise StopRun(f"helix cannot install a service on {platform}; run `helix up` from your own start-up script")


def install(service: Service) -> list[str]:
    """Write the file and register it with the system. Returns what went wrong with that, in words; empty if nothing."""
    service.path.parent.mkdir(parents=True, exist_ok=True)
    service.path.write_text(service.content, encoding="utf-8")
    service.path.chmod(0o600)
    return _run_all(service.enable)


def uninstall(service: Service) -> list[str]:
    """Stop the service, remove its file and unregister it. Returns what went wrong, in words."""
    problems = _run_all(service.disable)
    service.path.unlink(missing_ok=True)
    return problems + _run_all(service.forget)


def is_running(service: Service) -> bool | None:
    """Whether the system says that the service runs; None if the system cannot be asked."""
    if shutil.which(service.ask[0]) is None:
        return None
    return subprocess.run(service.ask, capture_output=True, check=False).returncode == 0


def _variables(data_dir: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that the service needs: at login the shell's variables are not set."""
    names = [*agent_variables().values(), "HELIX_CONFIG", *(setting.env for setting in known_settings().values())]
    kept = {name: environ[name] for name in names if environ.get(name)}
    if source_tree := checkout():
        kept["PYTHONPATH"] = str(source_tree)
    return {**kept, "HELIX_DATA_DIR": str(data_dir.absolute())}


def _systemd(command: Sequence[str], variables: Mapping[str, str], environ: Mapping[str, str]) -> Service:
    config = Path(environ.get("XDG_CONFIG_HOME", ""))
    folder = (config if config.is_absolute() else home(environ) / ".config") / "systemd" / "user"
    unit = f"{LABEL}.service"
    content = "\n".join(
        [
            "[Unit]",
            "Description=helix_assets: the memory of coding sessions, with its Dagster UI",
            "",
            "[Service]",
            "ExecStart=" + " ".join(_systemd_quoted(word).replace("$", "$$") for word in command),
            *(f"Environment={_systemd_quoted(f'{name}={value}')}" for name, value in variables.items()),
            "UMask=0077",
            "Restart=on-failure",
            "RestartSec=30",
            "KillMode=mixed",
            "TimeoutStopSec=60",
            "",
            "[Install]",
            "WantedBy=default.target",
            "",
        ]
    )
    ctl = ["systemctl", "--user"]
    return Service(
        path=folder / unit,
        content=content,
        enable=[[*ctl, "daemon-reload"], [*ctl, "enable", "--now", unit]],
        disable=[[*ctl, "disable", "--now", unit]],
        forget=[[*ctl, "daemon-reload"]],
        ask=[*ctl, "is-active", "--quiet", unit],
    )


def _systemd_quoted(word: str) -> str:
    if "\n" in word:
        raise StopRun(f"a line break cannot be put into a systemd unit: {word!r}")
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


def _launchd(command: Sequence[str], variables: Mapping[str, str], environ: Mapping[str, str]) -> Service:
    path = home(environ) / "Library" / "LaunchAgents" / f"{LABEL}.plist"
    log = str(home(environ) / "Library" / "Logs" / f"{LABEL}.log")
    content = plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": list(command),
            "EnvironmentVariables": dict(variables),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "Umask": 0o077,
            "StandardOutPath": log,
            "StandardErrorPath": log,
        }
    )
    domain = f"gui/{os.getuid()}"
    return Service(
        path=path,
        content=content.decode(),
        enable=[["launchctl", "bootstrap", domain, str(path)]],
        disable=[["launchctl", "bootout", f"{domain}/{LABEL}"]],
        forget=[],
        ask=["launchctl", "print", f"{domain}/{LABEL}"],
    )


def _run_all(commands: Sequence[Sequence[str]]) -> list[str]:
    """Run the commands up to the first that fails."""
    for command in commands:
        text = " ".join(command)
        if shutil.which(command[0]) is None:
            return [f"{command[0]} is not on this machine; where it is, run: {text}"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            return [f"`{text}` failed ({result.returncode}): {result.stderr.strip() or result.stdout.strip()}"]
    return []
