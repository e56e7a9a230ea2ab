"""`helix search`: the sessions that contain some words, best first, with the passages that contain them."""

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import click

from helix_assets.ask.query import Snippet
from helix_assets.ask.reading import open_existing
from helix_assets.ask.search import LIMIT, SECONDS, Excerpt, Filters, Finder, Found, Hit
from helix_assets.ask.withheld import note_on_texts
from helix_assets.cli.limits import AGENT, SINCE, UNTIL, refuse_backwards, refuse_unknown_agent
from helix_assets.cli.output import emit, human_count, say, say_marked
from helix_assets.keep.writing import writing
from helix_assets.model.errors import BusyError
from helix_assets.model.event import EventKind
from helix_assets.model.terminal import cell
from helix_assets.settings import load_settings
from helix_assets.store.store import Store
from helix_assets.store.words.keep import update_index


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
    """Find sessions that contain all of QUERY: words, "phrases in quotes", beginnings with a star (retr*)."""
    filters = Filters(**limits)
    refuse_backwards(filters.since, filters.until)
    with closing(open_existing(load_settings())) as store:
        refuse_unknown_agent(filters.agent, store, set(store.settings.roots))
        if store.settings.search.index == "off":
            raise click.UsageError('search is off: set index = "on" under [search] in helix.toml, then `helix sweep`')
        found = Finder(store).find(query, filters, limit=limit, seconds=seconds)
        if found.unindexed and _is_updated(store):
            found = Finder(store).find(query, filters, limit=limit, seconds=seconds)
    if as_json:
        emit(found, as_json=True)
    else:
        for hit in found.hits:
            _print_hit(hit)
    _print_notes(found)


def _is_updated(store: Store) -> bool:
    """Update an index that is missing, damaged or behind. False if another process is writing or it fails."""
    try:
        with writing(store, "index", wait_s=0):
            done = update_index(store, thorough=True)
    except (BusyError, OSError) as exc:
        say(f"The index is not up to date, and cannot be updated now: {store.shown(str(exc))}", err=True)
        return False
    say(f"The index lacked {human_count(done.added)} files: they were read from the raw cache.", err=True)
    return True


def _print_hit(hit: Hit) -> None:
    when = (hit.started_at or hit.day)[:16].replace("T", " ")
    gone = f"  evicted {hit.evicted_at[:10]}, its digest says:" if hit.evicted_at else ""
    title = f"  {hit.title[:60]}" if hit.title else ""
    say(cell(f"{hit.session_uid}  {when}  {hit.repo or ''}{title}{gone}"))
    for excerpt in hit.excerpts:
        say_marked([(f"  {_place(excerpt)}: ", False), *_pieces(excerpt.snippet)])
    say()


def _place(excerpt: Excerpt) -> str:
    what = excerpt.kind or ("digest" if excerpt.source == "digest" else "record")
    number = f"{excerpt.seq} " if excerpt.seq is not None else ""
    return f"{number}{what}{f' {excerpt.tool}' if excerpt.tool else ''}"


def _pieces(piece: Snippet) -> Iterator[tuple[str, bool]]:
    """The snippet in pieces, and whether each was searched for."""
    at = 0
    for start, end in piece.marks:
        yield piece.text[at:start], False
        yield piece.text[max(at, start) : end], True
        at = max(at, end)
    yield piece.text[at:], False


def _print_notes(found: Found) -> None:
    """Say what the answer lacks, on stderr, so that it does not get into the data."""
    if not found.hits:
        say("Nothing found. A session has to contain all words; try fewer, or beginnings such as retr*.", err=True)
    elif not found.is_complete:
        say("There may be more; --limit shows them.", err=True)
    if found.unindexed:
        say(f"{human_count(found.unindexed)} files are not in the index yet: run `helix sweep`.", err=True)
    if found.left_out:
        say(f"Left out, because damaged: {', '.join(found.left_out)}. Run `helix verify`.", err=True)
    if found.withheld:
        say(note_on_texts(found.withheld), err=True)
