"""`helix service`: install, uninstall or show the service that runs `helix up` at login."""

import os
import sys

import click

from helix_assets.cli.output import Column, Table, emit
from helix_assets.core.errors import StopRun
from helix_assets.service import Service, install, is_running, plan_service, uninstall
from helix_assets.settings import load_settings

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Print what would be written and run; do nothing.")


@click.group()
def service() -> None:
    """Start helix at login (systemd on Linux, launchd on macOS), or stop doing so."""


@service.command("install")
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the UI.  [default: the setting web.port]")
@click.option("--read-only", is_flag=True, help="Refuse every change from the UI.")
@_DRY_RUN
def install_service(port: int | None, read_only: bool, dry_run: bool) -> None:
    """Start helix now and at every login."""
    arguments = [*(["--port", str(port)] if port else []), *(["--read-only"] if read_only else [])]
    planned = _plan(arguments)
    if dry_run:
        _show(planned, written=True)
        return
    problems = install(planned)
    click.echo(f"Wrote {planned.path}")
    _report(problems, "helix runs now and at every login.")


@service.command("uninstall")
@_DRY_RUN
def uninstall_service(dry_run: bool) -> None:
    """Stop helix and start it no more at login; the memory stays."""
    planned = _plan()
    if dry_run:
        _show(planned, written=False)
        return
    if not planned.path.exists():
        click.echo(f"There is no service: {planned.path} does not exist.")
        return
    problems = uninstall(planned)
    click.echo(f"Removed {planned.path}")
    _report(problems, "helix no longer starts at login.")


@service.command("status")
@click.option("--json", "as_json", is_flag=True, help="Write JSON.")
def show_status(as_json: bool) -> None:
    """Say whether the service is installed and running."""
    planned = _plan()
    installed, running = planned.path.exists(), is_running(planned)
    words = {True: "yes", False: "no", None: "unknown (the system cannot be asked here)"}
    rows = [["file", str(planned.path)], ["installed", words[installed]], ["running", words[running]]]
    data = {"path": planned.path, "installed": installed, "running": running}
    emit(data, as_json, Table([Column("service"), Column("")], rows))


def _plan(arguments: list[str] | None = None) -> Service:
    return plan_service(arguments or [], load_settings().data_dir, os.environ, sys.platform)


def _show(planned: Service, *, written: bool) -> None:
    click.echo(f"# would {'write' if written else 'remove'} {planned.path}")
    if written:
        click.echo(planned.content)
    commands = planned.enable if written else [*planned.disable, *planned.forget]
    for command in commands:
        click.echo(f"# would run: {' '.join(command)}")


def _report(problems: list[str], success: str) -> None:
    if problems:
        raise StopRun("; ".join(problems))
    click.echo(success)
