"""`helix sessions`: lists sessions, newest first. `ask.listing` finds them."""

import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime

import click

from helix_assets.ask.listing import ListedSession, SessionList, Wanted, list_sessions
from helix_assets.ask.reading import has_store, open_existing
from helix_assets.cli.limits import AGENT, SINCE, UNTIL, refuse_backwards, refuse_unknown_agent
from helix_assets.cli.output import Column, Table, emit, human_count, human_size, say
from helix_assets.model.time import microseconds
from helix_assets.settings import load_settings

_OUTCOMES = ("success", "fail", "abandoned", "unknown")
_DAY = click.DateTime(["%Y-%m-%d"])


@click.command()
@AGENT
@click.option("--repo", help="Only sessions of this repository.")
@click.option("--day", type=_DAY, help="Only sessions of this partition day (UTC).")
@SINCE
@UNTIL
@click.option("--outcome", type=click.Choice(_OUTCOMES), help="Only sessions that ended like this.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def sessions(  # noqa: PLR0913, PLR0917 - one for each option
    agent: str | None,
    repo: str | None,
    day: datetime | None,
    since: datetime | None,
    until: datetime | None,
    outcome: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """List sessions, newest first."""
    settings = load_settings()
    refuse_backwards(since, until)
    since_us, until_us = (microseconds(time) if time else None for time in (since, until))
    wanted = Wanted(agent, repo, day.date().isoformat() if day else None, since_us, until_us, outcome)
    if not has_store(settings):
        refuse_unknown_agent(agent, None, set(settings.roots))
        found = SessionList()
    else:
        with closing(open_existing(settings)) as store:
            refuse_unknown_agent(agent, store, set(settings.roots))
            found = list_sessions(store, wanted, limit)
    emit(found.sessions, as_json, _listing(found.sessions))
    if not as_json and (more := found.total - len(found.sessions)):
        say(f"{human_count(more)} more; --limit shows them.")
    if not as_json and not found.total:
        say("No such session. `helix status` shows what the memory contains, `helix sweep` reads the agents' logs.")


def _listing(found: Sequence[ListedSession]) -> Table:
    columns = [
        Column("session"), Column("started"), Column("repo"), Column("outcome"), Column("events", "right"),
        Column("output tokens", "right"), Column("stored", "right"), Column("title"),
    ]  # fmt: skip
    names = _names([item.session_uid for item in found])
    return Table(columns, [_row(name, item) for name, item in zip(names, found, strict=True)])


def _names(uids: list[str]) -> list[str]:
    """The names shown for sessions: on a terminal, which is narrow, the start of their uids if these differ."""
    if not sys.stdout.isatty():
        return uids
    heads = [uid.partition("-")[0] for uid in uids]
    return [head if heads.count(head) == 1 else uid for head, uid in zip(heads, uids, strict=True)]


def _row(name: str, item: ListedSession) -> list[str]:
    stored = "evicted" if item.evicted_at else human_size(item.raw_bytes)
    if item.is_pinned:
        stored += ", pinned"
    events, tokens = _count(item.events), _count(item.tokens.output if item.tokens else None)
    started = (item.started_at or item.day)[:16].replace("T", " ")
    return [name, started, item.repo or "", item.outcome, events, tokens, stored, (item.title or "")[:60]]


def _count(number: int | None) -> str:
    return "" if number is None else human_count(number)
