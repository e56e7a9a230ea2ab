"""`helix sessions`: lists sessions, newest first, from the catalog and the digests."""

import sys
from collections.abc import Callable
from contextlib import closing
from typing import Any

import click
from sqlalchemy import ColumnElement, func, select

from helix_assets.ask.reading import digest_shown, has_store, open_existing, row_shown
from helix_assets.cli.limits import AGENT, SINCE, UNTIL, refuse_backwards, refuse_unknown_agent
from helix_assets.cli.output import Column, Table, emit, human_count, human_size, say
from helix_assets.model.time import iso, microseconds
from helix_assets.settings import load_settings
from helix_assets.store.catalog.old_tables import digests
from helix_assets.store.catalog.old_tables import sessions as table
from helix_assets.store.proof import is_proven
from helix_assets.store.store import Store

_OUTCOMES = ("success", "fail", "abandoned", "unknown")
_DAY = click.DateTime(["%Y-%m-%d"])

_CONDITIONS: dict[str, Callable[[Any], ColumnElement[bool]]] = {
    "agent": lambda name: table.c.flavor == name,
    "repo": lambda name: table.c.repo == name,
    "day": lambda day: table.c.day == day.date().isoformat(),
    "since": lambda moment: table.c.ended_us >= microseconds(moment),
    "until": lambda moment: table.c.started_us < microseconds(moment),
    "outcome": lambda outcome: table.c.outcome == outcome,
}


@click.command()
@AGENT
@click.option("--repo", help="Only sessions of this repository.")
@click.option("--day", type=_DAY, help="Only sessions of this partition day (UTC).")
@SINCE
@UNTIL
@click.option("--outcome", type=click.Choice(_OUTCOMES), help="Only sessions that ended like this.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many at most.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def sessions(limit: int, as_json: bool, **filters: Any) -> None:
    """List sessions, newest first."""
    settings = load_settings()
    refuse_backwards(filters["since"], filters["until"])
    wanted = [_CONDITIONS[name](value) for name, value in filters.items() if value is not None]
    if not has_store(settings):
        refuse_unknown_agent(filters["agent"], None, set(settings.roots))
        found, total = list[dict[str, Any]](), 0
    else:
        with closing(open_existing(settings)) as store:
            refuse_unknown_agent(filters["agent"], store, set(settings.roots))
            found, total = _find(store, wanted, limit)
    emit(found, as_json, _listing(found))
    if not as_json and total > len(found):
        say(f"{human_count(total - len(found))} more; --limit shows them.")
    if not as_json and not total:
        say("No such session. `helix status` shows what the memory contains, `helix sweep` reads the agents' logs.")


def _find(store: Store, wanted: list[ColumnElement[bool]], limit: int) -> tuple[list[dict[str, Any]], int]:
    s = table.c
    with store.catalog.reading() as connection:
        total = connection.execute(select(func.count()).select_from(table).where(*wanted)).scalar_one()
        query = (
            select(table, digests.c.digest, digests.c.hash)
            .join_from(table, digests, s.session_uid == digests.c.session_uid, isouter=True)
            .where(*wanted)
            .order_by(func.coalesce(s.started_us, 0).desc(), s.session_uid)
            .limit(limit)
        )
        return [_describe(row, store) for row in connection.execute(query)], total


def _describe(row: Any, store: Store) -> dict[str, Any]:
    version = row.redaction_version
    digest = digest_shown(store, row.digest, version) if row.digest and is_proven(row, store.key) else {}
    if version != store.redactor.version:
        row = row_shown(store, row)
    return {
        "session_uid": row.session_uid,
        "flavor": row.flavor,
        "day": row.day,
        "repo": row.repo,
        "domain": row.domain,
        "git_branch": row.git_branch,
        "task_ref": row.task_ref,
        "title": row.title or digest.get("first_prompt"),
        "model": row.model,
        "parent_uid": row.parent_uid,
        "started_at": iso(row.started_us),
        "ended_at": iso(row.ended_us),
        "outcome": row.outcome,
        "events": digest.get("event_count"),
        "tokens": digest.get("tokens"),
        "raw_bytes": row.raw_bytes,
        "evicted_at": row.evicted_at,
        "is_pinned": row.is_pinned,
    }


def _listing(found: list[dict[str, Any]]) -> Table:
    columns = [
        Column("session"), Column("started"), Column("repo"), Column("outcome"), Column("events", "right"),
        Column("output tokens", "right"), Column("stored", "right"), Column("title"),
    ]  # fmt: skip
    names = _names([item["session_uid"] for item in found])
    return Table(columns, [_row(name, item) for name, item in zip(names, found, strict=True)])


def _names(uids: list[str]) -> list[str]:
    """The names shown for sessions: on a terminal, which is narrow, the start of their uids if these differ."""
    if not sys.stdout.isatty():
        return uids
    heads = [uid.partition("-")[0] for uid in uids]
    return [head if heads.count(head) == 1 else uid for head, uid in zip(heads, uids, strict=True)]


def _row(name: str, item: dict[str, Any]) -> list[str]:
    stored = "evicted" if item["evicted_at"] else human_size(item["raw_bytes"])
    if item["is_pinned"]:
        stored += ", pinned"
    events = "" if item["events"] is None else human_count(item["events"])
    tokens = "" if item["tokens"] is None else human_count(item["tokens"]["output"])
    started = (item["started_at"] or item["day"])[:16].replace("T", " ")
    title = (item["title"] or "")[:60]
    return [name, started, item["repo"] or "", item["outcome"], events, tokens, stored, title]
