"""`helix rederive`: derives sessions again from their stored records. `sweep.rederive` does the work."""

from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from typing import Any

import click

from helix_assets.ask.listing import Wanted
from helix_assets.ask.reading import open_existing
from helix_assets.cli.digest import pick_session
from helix_assets.cli.limits import AGENT, refuse_unknown_agent
from helix_assets.cli.output import Advance, Column, Table, emit, human_count, progress, say
from helix_assets.settings import load_settings
from helix_assets.sweep.rederive import rederive as derive_again
from helix_assets.sweep.sweep_report import Progress

EXIT_NOT_DONE = 1


@click.command()
@click.option("--session", metavar="UID", help="Only this session: its uid, or how its uid or native id begins.")
@click.option("--day", type=click.DateTime(["%Y-%m-%d"]), help="Only sessions of this partition day (UTC).")
@AGENT
@click.option("--force", is_flag=True, help="Also what is up to date; every record is parsed again.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def rederive(session: str | None, day: datetime | None, agent: str | None, force: bool, as_json: bool) -> int:
    """Derive sessions again from their stored records: what older rules made, or all with --force.

    No log is read. Evicted sessions keep their digest. Exit code 1 means that some session could not be derived; 75
    that another process is writing.
    """
    settings = load_settings()
    with closing(open_existing(settings)) as store, progress("Deriving sessions") as move:
        refuse_unknown_agent(agent, store, set(settings.roots))
        uid = pick_session(store, session) if session is not None else None
        wanted = Wanted(agent=agent, day=day.date().isoformat() if day else None, uid=uid)
        done = derive_again(store, wanted, force=force, progress=_Counter(move))
        shown = store.shown(done)
    emit(shown, as_json, [] if as_json else _tables(shown, force=force))
    return EXIT_NOT_DONE if done.failed else 0


class _Counter(Progress):
    """Counts the sessions that are done."""

    def __init__(self, move: Advance) -> None:
        self._move, self._done = move, 0

    def advance(self, done_bytes: int, session_uid: str) -> None:
        self._done += 1
        self._move(self._done)


def _tables(done: Mapping[str, Any], *, force: bool) -> list[Table]:
    counts = [
        ("derived again", len(done["derived"])),
        ("up to date" + " (--force derives them, too)" * (not force), done["up_to_date"]),
        ("evicted, they keep their digest", done["evicted"]),
        ("failed", len(done["failed"])),
    ]
    rows = [[name, human_count(count)] for name, count in counts if count]
    if not rows:
        say("No such session. `helix status` shows what the memory contains.")
        return []
    tables = [Table([Column("sessions"), Column("", "right")], rows)]
    if done["failed"]:
        failed = [[one["session_uid"], one["failure"]] for one in done["failed"]]
        tables.append(Table([Column("session"), Column("why it failed")], failed))
    return tables
