"""`helix show`: prints the events of one session in order, or the line behind one. `ask.timeline` finds them."""

import re
import sys
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict
from itertools import islice
from typing import Any

import click
import orjson

from helix_assets.ask.reading import OpenSession, open_existing, open_session
from helix_assets.ask.timeline import events_of, head_of, payload_ref, source_line
from helix_assets.cli.digest import digest_tables, pick_session
from helix_assets.cli.output import Column, Table, emit, hand_over, human_count, print_tables, say
from helix_assets.model.digest_text import parsed_digest
from helix_assets.model.event import ROW_FIELDS, EventKind, Row
from helix_assets.model.fields import JSON
from helix_assets.model.time import iso
from helix_assets.settings import load_settings

_RANGE = re.compile(r"(\d*)\.\.(\d*)|(\d+)")
_SHOWN_AT_ONCE = 200
_JSON = [field.name for field in ROW_FIELDS if field.text == JSON]
_DETAILS = [
    field.name for field in ROW_FIELDS if field.is_exported and field.name not in ("ts_us", "file", "raw", *_JSON)
]


def _event_range(_: click.Context, param: click.Parameter, value: str | None) -> range | None:
    """Events by their numbers, both ends included."""
    if value is None:
        return None
    match = _RANGE.fullmatch(value)
    if match is None or value == "..":
        raise click.BadParameter(f"{value!r} is not a range of events; write 10..20, 10.., ..20 or 10", param=param)
    if match[3]:
        return range(int(match[3]), int(match[3]) + 1)
    return range(int(match[1] or 0), int(match[2]) + 1 if match[2] else sys.maxsize)


@click.command()
@click.argument("uid")
@click.option("--events", "wanted", metavar="N..M", callback=_event_range, help="Only the events with these numbers.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice([kind.value for kind in EventKind]),
    multiple=True,
    help="Only events of this kind.",
)
@click.option(
    "--payload", help="The redacted source line behind an event: its number, its record's id, or a payload_ref."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def show(uid: str, wanted: range | None, kinds: tuple[str, ...], payload: str | None, as_json: bool) -> None:
    """Show the events of the session UID (the first characters of its uid or native id will do)."""
    with (
        closing(open_existing(load_settings())) as store,
        open_session(store, pick_session(store, uid)) as session,
    ):
        if payload is not None:
            _show_payload(session, payload, as_json)
        elif not session.files:
            _show_evicted(session, as_json)
        else:
            _show_events(session, wanted, frozenset(kinds), as_json)


def _show_events(session: OpenSession, wanted: range | None, kinds: frozenset[str], as_json: bool) -> None:
    events, named = events_of(session, wanted, kinds), asdict(head_of(session))
    if as_json:
        emit({**named, "events": [_details(session, row) for row in events]}, as_json=True)
        return
    shown = list(events if wanted is not None else islice(events, _SHOWN_AT_ONCE))
    head = Table([Column("session"), Column("")], [[name, str(v)] for name, v in named.items() if v])
    print_tables([head, _timeline(shown)])
    left = sum(1 for _ in events)
    if left:
        say(f"{human_count(left)} more events: --events {shown[-1].seq + 1}.. shows them.")


def _details(session: OpenSession, row: Row) -> dict[str, Any]:
    """An event with all that is known of it, without nulls."""
    values = {name: getattr(row, name) for name in _DETAILS}
    values |= {"ts": iso(row.ts_us)} | {name: orjson.loads(text) for name in _JSON if (text := getattr(row, name))}
    values["payload_ref"] = payload_ref(session, row)
    return {name: value for name, value in values.items() if value is not None}


def _timeline(rows: Iterable[Row]) -> Table:
    columns = [
        Column("seq", "right"), Column("time"), Column("kind"), Column("who"), Column("status"),
        Column("tokens", "right"), Column("summary"),
    ]  # fmt: skip
    return Table(columns, [_timeline_row(row) for row in rows])


def _timeline_row(row: Row) -> list[str]:
    time = (iso(row.ts_us) or "")[:19].replace("T", " ")
    who = row.tool or row.role or ""
    if row.is_sidechain:
        who = f"{who} (agent {row.agent_id})" if row.agent_id else f"{who} (agent)"
    tokens = "" if row.tokens is None else human_count(row.tokens)
    return [str(row.seq), time, row.kind or "", who, row.status or "", tokens, row.summary or ""]


def _show_evicted(session: OpenSession, as_json: bool) -> None:
    """Show the digest instead of the events that are gone."""
    if as_json:
        digest = None if session.digest_text is None else parsed_digest(session.digest_text)
        emit({**asdict(head_of(session)), "events": None, "digest": digest}, as_json=True)
        return
    if session.evicted_at:
        say(f"The events of this session were evicted at {session.evicted_at}; this is what is kept of it:")
    else:
        say("This session has no records of its own (they belong to the session it was copied from).")
    print_tables(digest_tables(session.digest) if session.digest else [])


def _show_payload(session: OpenSession, wanted: str, as_json: bool) -> None:
    found = source_line(session, wanted)
    if as_json:
        emit(found._asdict(), as_json=True)
    else:
        hand_over(found.raw.encode() + b"\n")
