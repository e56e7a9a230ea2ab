"""`helix backup`: makes a proven second copy of the memory, or lists the copies. `keep.backup` does the work."""

from contextlib import closing

import click

from helix_assets.ask.reading import open_existing
from helix_assets.cli.output import Column, Table, emit, human_count, human_size, say
from helix_assets.keep.backup import Copy, copies, make_copy
from helix_assets.keep.writing import writing
from helix_assets.settings import load_settings
from helix_assets.sweep.sweep import utc_now


@click.command()
@click.option("--list", "is_list", is_flag=True, help="Show the existing copies; make none.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def backup(is_list: bool, as_json: bool) -> None:
    """Copy catalog, key, facts and hub notes to the backup folder and prove the copy. Raw bytes are not copied."""
    settings = load_settings()
    if not is_list:
        with closing(open_existing(settings)) as store, writing(store, "back up"):
            made = make_copy(store, utc_now())
        if not as_json:
            say(f"Copied and proven: {settings.backup_dir / made.generation} ({human_size(made.bytes)}).")
    found = copies(settings)
    emit({"folder": settings.backup_dir, "copies": found}, as_json, _listing(found) if found else None)
    if not found and not as_json:
        say(f"There is no copy in {settings.backup_dir}.")


def _listing(found: list[Copy]) -> Table:
    columns = [Column("copy"), Column("made"), *(Column(name, "right") for name in ("sessions", "digests", "size"))]
    rows = [
        [c.generation, c.made_at, human_count(c.sessions), human_count(c.digests), human_size(c.bytes)] for c in found
    ]
    return Table(columns, rows)
