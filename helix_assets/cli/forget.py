"""`helix forget`: asks, then erases sessions and says what went. `keep.forget` does the work."""

import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

import click

from helix_assets.ask.listing import NamedSession, named_session, sessions_of_repo
from helix_assets.ask.reading import open_existing
from helix_assets.cli.digest import pick_session
from helix_assets.cli.output import Column, Table, emit, human_count, human_size, print_table, say
from helix_assets.keep.forget import Forgotten
from helix_assets.keep.forget import forget as erase
from helix_assets.model.errors import NotFoundError
from helix_assets.settings import load_settings
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import utc_now

EXIT_NOT_DONE = 1


@click.command()
@click.argument("uid", required=False)
@click.option("--repo", help="Every session of this repository.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document; needs --yes.")
def forget(uid: str | None, repo: str | None, is_sure: bool, as_json: bool) -> int:
    """Erase the session UID, or those of a repository: raw bytes, facts, digest and every mention of them.

    They stay forgotten: no sweep takes them in again. Backups are replaced, and what restores moved aside is deleted.
    The agent's own logs are not touched. Exit code 1 means that nothing was forgotten, or that traces are left which
    the next run of helix removes; 75 that another process is writing.
    """
    if (uid is None) == (repo is None):
        raise click.UsageError("give one session, or --repo and a repository")
    if not is_sure and (as_json or not sys.stdin.isatty()):
        raise click.UsageError("this cannot be undone, and there is no terminal to confirm it: add --yes")
    with closing(open_existing(load_settings())) as store:
        found = _chosen(store, uid, repo)
        if not is_sure and not _is_confirmed(store, found):
            say("Nothing was forgotten.")
            return EXIT_NOT_DONE
        done = erase(store, [row.session_uid for row in found], now=utc_now())
        done = replace(done, session_uids=store.shown(done.session_uids), remade=store.shown(done.remade))
    emit(done, as_json, _result(done))
    return 0 if done.is_finished else EXIT_NOT_DONE


def _chosen(store: Store, uid: str | None, repo: str | None) -> Sequence[NamedSession]:
    if uid is not None:
        return [named_session(store, pick_session(store, uid))]
    found = sessions_of_repo(store, repo or "")
    if not found:
        raise NotFoundError(f"no session of the repository {repo!r}; `helix sessions` lists them")
    return found


def _is_confirmed(store: Store, found: Sequence[NamedSession]) -> bool:
    """Ask. A title is part of a text, so it is not shown while the memory is withheld."""
    titles = [(row.title or "")[:60] if store.is_memory_redacted() else "(withheld)" for row in found]
    columns = [Column("session"), Column("day"), Column("repo"), Column("stored", "right"), Column("title")]
    rows = [[r.session_uid, r.day, r.repo or "", human_size(r.raw_bytes)] for r in found]
    print_table(Table(columns, [[*store.shown(row), title] for row, title in zip(rows, titles, strict=True)]))
    return click.confirm(f"Forget {human_count(len(found))} sessions for good, with their digests?")


def _result(done: Forgotten) -> Table:
    rows = [
        ["sessions", human_count(len(done.session_uids))],
        ["raw bytes", human_size(done.raw_bytes)],
        ["digests", human_count(done.digests)],
    ]
    if done.remade:
        rows.append(["contain parts of it too, and keep them from the next sweep on", ", ".join(done.remade)])
    if not done.is_finished:
        rows.append(["not finished", "traces are left in files; the next run of helix removes them"])
    return Table([Column("forgotten"), Column("")], rows)
