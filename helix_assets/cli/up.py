"""`helix up`: a first sweep, then the Dagster UI with its sensors, until Ctrl-C. `serve.up` does the serving."""

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from helix_assets.cli.output import say
from helix_assets.serve.up import ServeOptions, own_environment, serve
from helix_assets.settings import Settings, load_settings
from helix_assets.settings.folders import agent_variables, checkout
from helix_assets.settings.model import known_settings
from helix_assets.store.folder import own_folder

# This seed has sessions on the last day: on a Tuesday the weekly retro covers only that day.
_DEMO_SEED = 2
_DEMO_SESSIONS = 120
_EXTRA_ROOTS = tuple(setting.env for setting in known_settings().values() if setting.key[-1].endswith("_roots"))


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

    def inform(text: str) -> None:
        say(text, err=as_json)

    settings = load_settings()
    if demo:
        settings = enter_demo(settings.data_dir.absolute(), inform)
        inform(f"The demo's memory is apart from yours. To query it: {settings.data_dir / 'helix'} status")
    # The children find the data folder by this variable, whatever their working directory.
    os.environ["HELIX_DATA_DIR"] = str(settings.data_dir.absolute())
    options = ServeOptions(port or settings.web.port, **doors)
    answer: dict[str, Any] = {
        "url": options.url,
        "is_read_only": options.read_only,
        "process": os.getpid(),
        "data_dir": os.environ["HELIX_DATA_DIR"],
    }

    def prepare() -> None:
        answer["sweep"] = _sweep_apart(as_json=as_json)

    def ready() -> None:
        if as_json:
            say(json.dumps(answer))

    serve(settings.data_dir, options, inform, prepare, ready)


def enter_demo(data_dir: Path, say: Callable[[str], None]) -> Settings:
    """Make the sample home if there is none, and point this process and its children to it.

    Its last day is yesterday, so that the weekly retro covers it and nothing in it is in the future. The demo has its
    own data folder and an empty helix.toml, because the person's own may name the person's logs.
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
        **{variable: str(home / agent) for agent, variable in agent_variables().items()},
        "HELIX_DATA_DIR": str(state),
        "HELIX_CONFIG": str(config),
    }
    os.environ |= variables
    for name in _EXTRA_ROOTS:
        os.environ.pop(name, None)
    _write_command(state / "helix", variables)
    return load_settings()


def _write_command(path: Path, variables: dict[str, str]) -> None:
    """Write a `helix` command for the sample home. With only the data folder set, a sweep would read the real logs."""
    source_tree = checkout()
    paths = {"PYTHONPATH": str(source_tree)} if source_tree else {}
    lines = [
        "#!/bin/sh",
        "# helix on the sample home and its memory only; rewritten by each `helix up --demo`.",
        *(f"export {name}={shlex.quote(value)}" for name, value in (variables | paths).items()),
        f"unset {' '.join(_EXTRA_ROOTS)}",
        f'exec {shlex.quote(sys.executable)} -P -m helix_assets "$@"',
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    path.chmod(0o700)


def _sweep_apart(*, as_json: bool) -> Any:
    """What the first sweep counted. It runs in a process of its own, whose memory is gone afterwards.

    That process shows its progress and its errors itself. It is not in this process's group, so that Ctrl-C reaches
    only this one, which passes it on once.
    """
    reading, writing = os.pipe()
    words = [sys.executable, "-P", "-m", "helix_assets", "sweep", "--for-up", str(writing)]
    words += ["--json"] if as_json else []
    with open(reading, "rb") as answer:
        child = subprocess.Popen(words, env=own_environment(), pass_fds=[writing], start_new_session=True)
        os.close(writing)
        try:
            code = child.wait()
        except KeyboardInterrupt:
            child.send_signal(signal.SIGINT)
            code = child.wait()
        if code:
            raise SystemExit(code if code > 0 else 128 - code)
        return json.loads(answer.read())
