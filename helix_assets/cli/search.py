"""`helix search`: the sessions in which words stand, best first, with the passages that hold them."""

import sys
from contextlib import closing
from typing import Any

import click

from helix_assets.cli.limits import AGENT, SINCE, UNTIL, refuse_backwards, refuse_unknown_agent
from helix_assets.cli.output import cell, emit, human_count, terminal_safe
from helix_assets.core.errors import BusyError
from helix_assets.core.query import Snippet
from helix_assets.core.schema import EventKind
from helix_assets.indexing import update_index
from helix_assets.reading import open_existing
from helix_assets.search import LIMIT, SECONDS, Excerpt, Filters, Finder, Found, Hit, to_dict
from helix_assets.settings import load_settings
from helix_assets.store import Store


@click.command()
@click.argument("query")
@click.option("--repo", help="Only sessions of this repository.")
@AGENT
@SINCE
@UNTIL
@click.option("--kind", type=click.Choice([kind.value for kind in EventKind]), help="Only in events of this kind.")
@click.option("--role", help="Only in what this role said, such as user, assistant or tool.")
@click.option("--limit", type=click.IntRange(1), default=LIMIT, show_default=True, help="How many sessions at most.")
@click.option("--seconds", type=click.FloatRange(0.1), default=SECONDS, show_default=True, help="How long at most.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def search(query: str, limit: int, seconds: float, as_json: bool, **limits: Any) -> None:
    """Find sessions in which all of QUERY stands: words, "phrases in quotes", beginnings with a star (retr*)."""
    filters = Filters(**limits)
    refuse_backwards(filters.since, filters.until)
    with closing(open_existing(load_settings())) as store:
        refuse_unknown_agent(filters.agent, store, set(store.settings.roots))
        if store.settings.search.index == "off":
            raise click.UsageError('search is off: set index = "on" under [search] in helix.toml, then `helix sweep`')
        found = Finder(store).find(query, filters, limit=limit, seconds=seconds)
        if found.unindexed and _made_anew(store):
            found = Finder(store).find(query, filters, limit=limit, seconds=seconds)
    if as_json:
        emit(to_dict(found), as_json=True)
    else:
        for hit in found.hits:
            _print_hit(hit)
    _tell(found)


def _made_anew(store: Store) -> bool:
    """Have an index that is missing, damaged or behind brought up to date, unless somebody else is writing."""
    try:
        with store.writing("index", wait_s=0):
            done = update_index(store, thorough=True)
    except (BusyError, OSError) as exc:
        click.echo(terminal_safe(f"The index is not up to date, and cannot be now: {store.shown(str(exc))}"), err=True)
        return False
    click.echo(f"The index lacked {human_count(done.added)} files: made anew from the raw cache.", err=True)
    return True


def _print_hit(hit: Hit) -> None:
    when = (hit.started_at or hit.day)[:16].replace("T", " ")
    gone = f"  evicted {hit.evicted_at[:10]}, its digest says:" if hit.evicted_at else ""
    title = f"  {hit.title[:60]}" if hit.title else ""
    click.echo(cell(f"{hit.session_uid}  {when}  {hit.repo or ''}{title}{gone}"))
    for excerpt in hit.excerpts:
        click.echo(f"  {cell(_place(excerpt))}: {_marked(excerpt.snippet)}")
    click.echo()


def _place(excerpt: Excerpt) -> str:
    what = excerpt.kind or ("digest" if excerpt.source == "digest" else "record")
    number = f"{excerpt.seq} " if excerpt.seq is not None else ""
    return f"{number}{what}{f' {excerpt.tool}' if excerpt.tool else ''}"


def _marked(piece: Snippet) -> str:
    """The snippet, what was searched for in bold on a terminal."""
    if not sys.stdout.isatty():
        return cell(piece.text)
    text, at = "", 0
    for start, end in piece.marks:
        text += cell(piece.text[at:start]) + click.style(cell(piece.text[max(at, start) : end]), bold=True)
        at = max(at, end)
    return text + cell(piece.text[at:])


def _tell(found: Found) -> None:
    """What the answer lacks, on stderr, so that it is in nobody's data."""
    if not found.hits:
        click.echo(
            "Nothing found. All words have to stand in a session; try fewer, or beginnings such as retr*.", err=True
        )
    elif not found.is_complete:
        click.echo("There may be more; --limit shows them.", err=True)
    if found.unindexed:
        click.echo(f"{human_count(found.unindexed)} files are not in the index yet: run `helix sweep`.", err=True)
    if found.left_out:
        click.echo(
            terminal_safe(f"Left out, because damaged: {', '.join(found.left_out)}. Run `helix verify`."), err=True
        )
