"""Options that limit a command to some sessions: an agent, a span of time in UTC.

Belongs here: options that mean the same in several commands, and refusing values that can only be mistakes.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import click

from helix_assets.ask.listing import agents_in
from helix_assets.model.errors import QueryError
from helix_assets.store.store import Store

_DAY = "%Y-%m-%d"


class _Moment(click.DateTime):
    """A day or a time of a day, in UTC. As an end, a day includes all of its hours."""

    def __init__(self, *, is_end: bool) -> None:
        super().__init__([_DAY, "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"])
        self._is_end = is_end

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        moment = super().convert(value, param, ctx)
        is_whole_day = self._is_end and isinstance(value, str) and len(value) <= len("2026-01-31")
        return moment.replace(tzinfo=UTC) + timedelta(days=is_whole_day)


AGENT = click.option("--agent", help="Only sessions of this agent.")
SINCE = click.option(
    "--since", type=_Moment(is_end=False), metavar="TIME", help="Only sessions that ended on this day (UTC), or later."
)
UNTIL = click.option(
    "--until",
    type=_Moment(is_end=True),
    metavar="TIME",
    help="Only sessions that started on this day or earlier, or before this time (UTC).",
)


def refuse_backwards(since: datetime | None, until: datetime | None) -> None:
    """Refuse a span of time that ends before it begins."""
    if since and until and since >= until:
        last = until - timedelta(microseconds=1)
        raise QueryError(
            f"the time ends ({last:{_DAY}}) before it begins ({since:{_DAY}}): give --since the earlier day"
        )


def refuse_unknown_agent(name: str | None, store: Store | None, known: set[str]) -> None:
    """Refuse a name of no agent, neither in the settings (`known`) nor in the memory."""
    if name is None or name in known:
        return
    if store is not None:
        known = known | agents_in(store)
    if name not in known:
        raise click.BadParameter(
            f"no agent is called {name!r}: there are {', '.join(sorted(known))}", param_hint="--agent"
        )
