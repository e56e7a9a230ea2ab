"""`helix up`: a first sweep, then the Dagster UI with its sensors, until Ctrl-C. It serves by `serve.up`."""

import json
import os
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from helix_assets.cli.output import say
from helix_assets.model.errors import BusyError
from helix_assets.settings import Settings, load_settings
from helix_assets.settings.folders import checkout
from helix_assets.store.folder import own_folder

# One with sessions on the last day: on a Tuesday the weekly retro is about no other.
_DEMO_SEED = 2
_DEMO_SESSIONS = 120
_EXTRA_ROOTS = ("HELIX_CLAUDE_ROOTS", "HELIX_CODEX_ROOTS", "HELIX_GROK_ROOTS", "HELIX_OTHER_ROOTS")


@click.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Port of the UI.  [default: the setting web.port, 3000]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--allow-remote", is_flag=True, help="Let --host be an address that other machines reach; asks for a token."
)
@click.option("--read-only", is_flag=True, help="Refuse every change from the UI.")
@click.option("--demo", is_flag=True, help="Show a sample home, apart from your own memory.")
@click.option(
    "--json", "as_json", is_flag=True, help="Once the UI answers, print one line of JSON; words go to stderr."
)
def up(port: int | None, demo: bool, as_json: bool, **doors: Any) -> None:
    """Sweep once, then serve the Dagster UI with its sensors and schedules running. Ctrl-C stops it."""
    from helix_assets.serve.up import ServeOptions, serve

    def tell(words: str) -> None:
        say(words, err=as_json)

    settings = load_settings()
    if demo:
        settings = enter_demo(settings.data_dir.absolute(), tell)
        tell(f"The demo's memory is apart from yours. To ask it: {settings.data_dir / 'helix'} status")
    # The children know the state by this variable, whatever their folder.
    os.environ["HELIX_DATA_DIR"] = str(settings.data_dir.absolute())
    options = ServeOptions(port or settings.web.port, **doors)
    answer: dict[str, Any] = {
        "url": options.url,
        "is_read_only": options.read_only,
        "process": os.getpid(),
        "data_dir": os.environ["HELIX_DATA_DIR"],
    }

    def prepare() -> None:
        answer["sweep"] = _sweep(settings, tell, as_json=as_json)

    def ready() -> None:
        if as_json:
            say(json.dumps(answer))

    serve(settings.data_dir, options, tell, prepare, ready)


def enter_demo(data_dir: Path, say: Callable[[str], None]) -> Settings:
    """Make the sample home if there is none, and point this process and its children to it.

    Its last day is yesterday, so that the weekly retro tells of it, and nothing in it is yet to come. The state of the
    demo is kept apart, and no helix.toml has a say, for both may name the person's own logs.
    """
    from helix_assets.demo import make_home

    home, state = data_dir / "demo-home", data_dir / "demo"
    own_folder(data_dir)
    own_folder(state)
    if not home.exists():
        say(f"Making a sample home of {_DEMO_SESSIONS} sessions in {home} ...")
        yesterday = datetime.now(UTC).date() - timedelta(days=1)
        make_home(home, seed=_DEMO_SEED, sessions=_DEMO_SESSIONS, today=yesterday)
    config = state / "helix.toml"
    config.touch(mode=0o600)
    variables = {
        "CLAUDE_CONFIG_DIR": str(home / "claude"),
        "CODEX_HOME": str(home / "codex"),
        "GROK_HOME": str(home / "grok"),
        "HELIX_DATA_DIR": str(state),
        "HELIX_CONFIG": str(config),
    }
    os.environ |= variables
    for name in _EXTRA_ROOTS:
        os.environ.pop(name, None)
    _write_command(state / "helix", variables)
    return load_settings()


def _write_command(path: Path, variables: dict[str, str]) -> None:
    """A command that is `helix` on the sample home alone: with just the data folder set, a sweep would read yours."""
    source_tree = checkout()
    paths = {"PYTHONPATH": str(source_tree)} if source_tree else {}
    lines = [
        "#!/bin/sh",
        "# helix on the sample home and its memory alone; made anew by each `helix up --demo`.",
        *(f"export {name}={shlex.quote(value)}" for name, value in (variables | paths).items()),
        f"unset {' '.join(_EXTRA_ROOTS)}",
        f'exec {shlex.quote(sys.executable)} -P -m helix_assets "$@"',
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o700)


def _sweep(settings: Settings, say: Callable[[str], None], *, as_json: bool) -> dict[str, float] | None:
    """What the first sweep counted, None if another process was writing."""
    from helix_assets.cli.sweep import first_sweep

    try:
        return first_sweep(settings, as_json=as_json)
    except BusyError as exc:
        say(f"{exc}. Serving what is there; the sensor sweeps later.")
        return None
