"""`helix env`: prints variables of a closed session for other programs. `ask.closing_env` fills them."""

import os
from contextlib import closing

import click

from helix_assets.ask.closing_env import SHELLS, closing_values, newest_session
from helix_assets.ask.reading import open_existing
from helix_assets.cli.digest import pick_session
from helix_assets.cli.output import hand_over
from helix_assets.settings import load_settings
from helix_assets.store.store import Store


@click.command()
@click.argument("uid", required=False)
@click.option("--latest", is_flag=True, help="The session that ended last.")
@click.option("--cwd", type=click.Path(), metavar="DIR", help="The last session that worked in DIR or below it.")
@click.option("--shell", type=click.Choice(list(SHELLS)), default="bash", show_default=True, help="Whose syntax.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document: the same as --shell json.")
def env(uid: str | None, latest: bool, cwd: str | None, shell: str, as_json: bool) -> None:
    """Print HELIX_SESSION_UID and its companions for a session, to be evaluated: eval "$(helix env --latest)"."""
    if sum((uid is not None, latest, cwd is not None)) != 1:
        raise click.UsageError("name one session: a UID, --latest, or --cwd DIR")
    with closing(open_existing(load_settings())) as store:
        values = closing_values(store, _meant(store, uid, cwd))
    hand_over(SHELLS["json" if as_json else shell](values).encode())


def _meant(store: Store, uid: str | None, cwd: str | None) -> str:
    if uid is not None:
        return pick_session(store, uid)
    return newest_session(store, os.path.realpath(cwd) if cwd is not None else None)
