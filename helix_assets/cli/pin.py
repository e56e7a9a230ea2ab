"""`helix pin`, `helix unpin`: a person says whose raw bytes stay. `keep.pin` does the work."""

from contextlib import closing

import click

from helix_assets.ask.reading import open_existing
from helix_assets.cli.digest import pick_session
from helix_assets.cli.output import emit, say
from helix_assets.keep.pin import set_pinned
from helix_assets.settings import load_settings

_AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.command()
@click.argument("uid")
@_AS_JSON
def pin(uid: str, as_json: bool) -> None:
    """Keep the raw bytes of the session UID from eviction, as long as everything fits under the hard cap."""
    _set(uid, as_json, is_pinned=True)


@click.command()
@click.argument("uid")
@_AS_JSON
def unpin(uid: str, as_json: bool) -> None:
    """Let the raw bytes of the session UID be evicted like any others."""
    _set(uid, as_json, is_pinned=False)


def _set(text: str, as_json: bool, *, is_pinned: bool) -> None:
    with closing(open_existing(load_settings())) as store:
        done = set_pinned(store, pick_session(store, text), is_pinned=is_pinned)
    emit(done, as_json)
    if as_json:
        return
    say(f"{done.session_uid} is {'pinned' if is_pinned else 'no longer pinned'}.")
    if is_pinned and done.evicted_at:
        say(f"Its raw bytes were evicted at {done.evicted_at}; only what is added from now on is kept.")
