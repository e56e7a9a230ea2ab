"""Which reports there are, and making one over the views.

Belongs here: the table of reports. A report is a module with `VIEWS`, the views that it reads, `make`, and `TOTALS`,
figures that must equal sums over the digests. Not here: what a report is made of (`frame`), its files (`files`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import NamedTuple

from helix_assets.ask.reports import acceptance, file_heat, recurring, retro, tests, tools, usage
from helix_assets.ask.reports.frame import Asking, Report, Span
from helix_assets.ask.views import Connect, Views, with_views
from helix_assets.model.errors import QueryError
from helix_assets.model.event import FACTS_SINCE
from helix_assets.store.store import Store

_ALWAYS = Span()


class Kind(NamedTuple):
    """A report that can be made: what it is about, the views it reads, the function, and what must add up."""

    about: str
    views: tuple[str, ...]
    make: Callable[[Asking], Report]
    totals: Mapping[str, str]


class Totals(NamedTuple):
    """One figure of a report, and the sum over the digests."""

    reported: int
    of_digests: int


REPORTS: Mapping[str, Kind] = {
    "usage_report": Kind("Tokens and cost by day, agent, repository and model.", usage.VIEWS, usage.make, usage.TOTALS),
    "tool_report": Kind(
        "How often tools are called, how calls end, how long they take.", tools.VIEWS, tools.make, tools.TOTALS
    ),
    "file_heatmap": Kind("Which files are changed and read most.", file_heat.VIEWS, file_heat.make, file_heat.TOTALS),
    "test_report": Kind("Test runs, how they end, and their trend.", tests.VIEWS, tests.make, tests.TOTALS),
    "acceptance_report": Kind(
        "Edits accepted, denied and later modified, by language and tool.",
        acceptance.VIEWS,
        acceptance.make,
        acceptance.TOTALS,
    ),
    "patterns": Kind(
        "What goes wrong again and again across sessions.", recurring.VIEWS, recurring.make, recurring.TOTALS
    ),
    "weekly_retro": Kind(
        "A week by repository: what was done, cost and failed, against the week before.",
        retro.VIEWS,
        retro.make,
        retro.TOTALS,
    ),
}


def kind_of(name: str) -> Kind:
    """The report of this name. QueryError lists the existing ones."""
    kind = REPORTS.get(name)
    if kind is None:
        raise QueryError(f"there is no report {name!r}; there are {', '.join(REPORTS)}")
    return kind


def make_report(
    store: Store, name: str, span: Span = _ALWAYS, *, today: date | None = None, connect: Connect | None = None
) -> Report:
    """Compute a report of the store as it is now. Leaves out and names what is damaged.

    `connect` opens the DuckDB that it is computed in.
    """
    kind = kind_of(name)

    def make(views: Views) -> Report:
        report = kind.make(Asking(views.connection, span, today or datetime.now(UTC).date()))
        return replace(report, left_out=views.left_out)

    return with_views(store, kind.views, make, connect=connect)


def totals_of_digests(store: Store, name: str, connect: Connect | None = None) -> Mapping[str, Totals]:
    """The figures of a report over all days that digests contain, too."""
    kind = kind_of(name)
    if not kind.totals:
        return {}

    def compare(views: Views) -> Mapping[str, Totals]:
        asking = Asking(views.connection, _ALWAYS, datetime.now(UTC).date())
        reported = kind.make(asking).figures
        sums = ", ".join(f"coalesce(sum({sql}), 0)::BIGINT AS {figure}" for figure, sql in kind.totals.items())
        digests = asking.figures(f"SELECT {sums} FROM digests WHERE schema_version >= {FACTS_SINCE}")
        return {figure: Totals(int(reported[figure] or 0), int(digests[figure] or 0)) for figure in kind.totals}

    return with_views(store, {*kind.views, "digests"}, compare, connect=connect)
