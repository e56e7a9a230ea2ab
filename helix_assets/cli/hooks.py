"""`helix hooks`: adds our hook to an agent's settings, removes it, or shows if it is there. See `hooks.install`."""

import os
from pathlib import Path
from typing import Any

import click

from helix_assets.cli.output import Column, Table, emit, say
from helix_assets.hooks.inbox import inbox_of, waiting
from helix_assets.hooks.install import (
    RECIPES,
    Edit,
    apply,
    installed_events,
    plan_install,
    plan_uninstall,
    settings_file,
)
from helix_assets.model.errors import StopRun
from helix_assets.redaction.encoded import shown_by
from helix_assets.settings import load_settings
from helix_assets.store.folder import own_folder
from helix_assets.store.store import rules_in_force
from helix_assets.sweep.sweep import utc_now

EXIT_NOT_READ = 1
_AGENT = click.option("--agent", type=click.Choice(list(RECIPES)), required=True, help="Whose settings.")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Show the change; make none.")
_TIMED = ", ".join(agent for agent, recipe in RECIPES.items() if recipe.style == "events")
_TIMINGS = f"Also note when prompts are typed and tools start ({_TIMED})."
_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group()
def hooks() -> None:
    """Let agents report when a session closes, so that its digest is ready seconds later, or stop that."""


@hooks.command()
@_AGENT
@click.option("--timings", is_flag=True, help=_TIMINGS)
@_DRY_RUN
@_AS_JSON
def install(agent: str, timings: bool, dry_run: bool, as_json: bool) -> None:
    """Add our hook to the agent's own settings. Everything else in them stays as it is."""
    data_dir = load_settings().data_dir
    edit = plan_install(agent, data_dir, os.environ, timings=timings)
    if not dry_run:
        own_folder(data_dir)
        own_folder(inbox_of(data_dir))
    _carry_out(edit, f"{edit.path} has the hook already.", dry_run=dry_run, as_json=as_json)


@hooks.command()
@_AGENT
@_DRY_RUN
@_AS_JSON
def uninstall(agent: str, dry_run: bool, as_json: bool) -> None:
    """Remove our hook from the agent's settings."""
    edit = plan_uninstall(agent, os.environ)
    _carry_out(edit, f"{edit.path} has no hook of ours.", dry_run=dry_run, as_json=as_json)


@hooks.command()
@click.option("--agent", type=click.Choice(list(RECIPES)), help="Only this agent.")
@_AS_JSON
def status(agent: str | None, as_json: bool) -> int:
    """Show for which agents the hook is installed, and how many notes wait for a sweep.

    Exit code 1 means that an agent's settings cannot be read.
    """
    settings = load_settings()
    found = shown_by(rules_in_force(settings), [_installed(one) for one in ([agent] if agent else RECIPES)])
    notes = len(waiting(settings.data_dir))
    rows = [
        [one["agent"], "unknown" if one["problem"] else ", ".join(one["events"]) or "not installed", str(one["file"])]
        for one in found
    ]
    table = Table([Column("agent"), Column("hook at"), Column("file")], rows)
    emit({"agents": found, "notes_waiting": notes}, as_json, table)
    if not as_json:
        say(f"{notes} notes wait in the inbox.")
    problems = [one["problem"] for one in found if one["problem"]]
    for problem in problems:
        say(f"helix: {problem}", err=True)
    return EXIT_NOT_READ if problems else 0


def _installed(agent: str) -> dict[str, Any]:
    """Where an agent's hook is, or why that cannot be read."""
    answer: dict[str, Any] = {"agent": agent, "file": settings_file(agent, os.environ), "events": [], "problem": None}
    try:
        return answer | {"events": installed_events(agent, os.environ)}
    except StopRun as exc:
        return answer | {"problem": str(exc)}


def _carry_out(edit: Edit, nothing: str, *, dry_run: bool, as_json: bool) -> None:
    # Settings of agents may contain keys, so the lines around the change are redacted.
    diff = rules_in_force(load_settings()).text(edit.diff()).text
    is_done = edit.changes and not dry_run
    if not as_json:
        say(diff if edit.changes else f"{nothing}\n", nl=False)
    backup = apply(edit, utc_now()) if is_done else None
    if as_json:
        answer = {"agent": edit.agent, "file": edit.path, "is_changed": is_done, "diff": diff, "backup": backup}
        emit(answer, as_json)
    elif is_done:
        _say_done(edit, backup)


def _say_done(edit: Edit, backup: Path | None) -> None:
    say(f"Wrote {edit.path}" if edit.after is not None else f"Removed {edit.path}")
    if backup:
        say(f"The old file: {backup}")
