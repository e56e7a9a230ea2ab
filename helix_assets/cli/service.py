"""`helix service`: install, uninstall or show the service that runs `helix up` at login."""

import os
import sys
from collections.abc import Sequence

import click

from helix_assets.cli.output import Column, Table, emit, say
from helix_assets.model.errors import StopRun
from helix_assets.serve.service import Service, install, is_running, plan_service, uninstall
from helix_assets.settings import load_settings

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Print what would be written and run; do nothing.")
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group()
def service() -> None:
    """Start helix at login (systemd on Linux, launchd on macOS), or stop doing so."""


@service.command("install")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the UI.  [default: the setting web.port]")
@click.option("--read-only", is_flag=True, help="Refuse every change from the UI.")
@_DRY_RUN
@_AS_JSON
def install_service(port: int | None, read_only: bool, dry_run: bool, as_json: bool) -> None:
    """Start helix now and at every login."""
    arguments = [*(["--port", str(port)] if port else []), *(["--read-only"] if read_only else [])]
    planned = _plan(arguments)
    if dry_run and not as_json:
        _show(planned, written=True)
        return
    problems = [] if dry_run else install(planned)
    if as_json:
        _emit(planned, planned.enable, problems, is_done=not dry_run)
    else:
        say(f"Wrote {planned.path}")
    _report(problems, "" if as_json else "helix runs now and at every login.")


@service.command("uninstall")
@_DRY_RUN
@_AS_JSON
def uninstall_service(dry_run: bool, as_json: bool) -> None:
    """Stop helix, and no longer start it at login. The memory stays."""
    planned = _plan()
    if dry_run and not as_json:
        _show(planned, written=False)
        return
    is_there = planned.path.exists()
    problems = uninstall(planned) if is_there and not dry_run else []
    if as_json:
        commands = [*planned.disable, *planned.forget] if is_there else []
        _emit(planned, commands, problems, is_done=is_there and not dry_run)
    elif is_there:
        say(f"Removed {planned.path}")
    else:
        say(f"There is no service: {planned.path} does not exist.")
    _report(problems, "" if as_json or not is_there else "helix no longer starts at login.")


@service.command("status")
@_AS_JSON
def show_status(as_json: bool) -> None:
    """Show whether the service is installed and running."""
    planned = _plan()
    installed, running = planned.path.exists(), is_running(planned)
    words = {True: "yes", False: "no", None: "unknown (the system cannot be asked here)"}
    rows = [["file", str(planned.path)], ["installed", words[installed]], ["running", words[running]]]
    data = {"path": planned.path, "installed": installed, "running": running}
    emit(data, as_json, Table([Column("service"), Column("")], rows))


def _plan(arguments: list[str] | None = None) -> Service:
    return plan_service(arguments or [], load_settings().data_dir, os.environ, sys.platform)


def _emit(planned: Service, commands: Sequence[Sequence[str]], problems: Sequence[str], *, is_done: bool) -> None:
    answer = {"path": planned.path, "is_done": is_done, "content": planned.content, "commands": commands}
    emit(answer | {"problems": problems}, as_json=True)


def _show(planned: Service, *, written: bool) -> None:
    say(f"# would {'write' if written else 'remove'} {planned.path}")
    if written:
        say(planned.content)
    commands = planned.enable if written else [*planned.disable, *planned.forget]
    for command in commands:
        say(f"# would run: {' '.join(command)}")


def _report(problems: list[str], success: str) -> None:
    if problems:
        raise StopRun("; ".join(problems))
    if success:
        say(success)
