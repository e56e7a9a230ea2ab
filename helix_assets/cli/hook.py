"""`helix hook`: what an agent's hook runs, for hooks written by hand, and a wrapper around a headless agent.

Hooks that `helix hooks install` adds run `helix_assets/hook.py` itself, which starts in a third of the time.
"""

import subprocess
from collections.abc import Sequence
from contextlib import suppress

import click

from helix_assets.cli.output import say
from helix_assets.hooks import hook as noting
from helix_assets.hooks.inbox import inbox_of
from helix_assets.hooks.install import RECIPES
from helix_assets.settings import load_settings

_EXIT_NOT_FOUND = 127
_SIGNALLED = 128


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("agent")
@click.argument("rest", nargs=-1, type=click.UNPROCESSED, metavar="[EVENT | -- COMMAND...]")
def hook(agent: str, rest: Sequence[str]) -> int:
    """Note that a session of AGENT has changed. The event comes as JSON on stdin, or as the last argument.

    Prints nothing and ends with 0 whatever happens. With a COMMAND, such as `helix hook AGENT -- make fix`, it
    runs that first and ends with its exit code.
    """
    command = rest[1:] if rest[:1] == ("--",) else rest
    if agent in RECIPES and command and not command[0].lstrip().startswith("{"):
        return _wrap(agent, command)
    with suppress(Exception):
        noting.main([agent, str(inbox_of(load_settings().data_dir.absolute())), *rest])
    return 0


def _wrap(agent: str, command: Sequence[str]) -> int:
    """Run the command with our own streams. When it has ended, a note asks for a sweep of what it did."""
    try:
        code = subprocess.run(command, check=False).returncode
    except OSError as exc:
        say(f"helix: {command[0]} cannot be run: {exc.strerror}", err=True)
        return _EXIT_NOT_FOUND
    with suppress(Exception):
        noting.write_note(str(inbox_of(load_settings().data_dir.absolute())), noting.note_of(agent, b"{}"))
    return code if code >= 0 else _SIGNALLED - code
