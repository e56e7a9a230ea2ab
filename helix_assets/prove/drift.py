"""How far the agents' logs have moved away from what their parsers know, by agent, version and week.

An unknown type is kept and counted, and stops nothing. A growing share of them means that a format has changed. Belongs
here: adding up what the sessions recorded. Names come from logs, so only plain ones are shown.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from helix_assets.store.catalog import sessions
from helix_assets.store.store import Store

LISTED = 20
_PLAIN = re.compile(r"[\w./() +-]{1,60}")


@dataclass
class Tally:
    """Counts of records, of those that are not JSON, and of those of a type that the parser does not know."""

    records: int = 0
    unparsed: int = 0
    unknown: int = 0

    def add(self, records: int, unparsed: int, unknown: int) -> None:
        self.records += records
        self.unparsed += unparsed
        self.unknown += unknown

    @property
    def per_1000(self) -> float:
        return round(1000 * (self.unparsed + self.unknown) / self.records, 1) if self.records else 0.0


@dataclass
class Drift:
    """What was not understood of one agent's logs."""

    total: Tally = field(default_factory=Tally)
    types: Counter[str] = field(default_factory=Counter)
    by_version: dict[str, Tally] = field(default_factory=dict)
    by_week: dict[str, Tally] = field(default_factory=dict)

    def versions_with_unknown(self) -> dict[str, Tally]:
        """The versions whose logs hold types that the parser does not know, the worst first."""
        odd = {version: tally for version, tally in self.by_version.items() if tally.unknown}
        return dict(sorted(odd.items(), key=lambda item: -item[1].unknown)[:LISTED])


def drift_of(store: Store) -> Mapping[str, Drift]:
    """The drift of each agent over all sessions, evicted ones included."""
    drifts: dict[str, Drift] = {}
    with store.catalog.reading() as connection:
        for flavor, day, records, unparsed, found in sessions.lines_read(connection):
            drift = drifts.setdefault(flavor, Drift())
            facts = found if isinstance(found, dict) else {}  # `helix verify` names the session
            _add(drift, day, _plain(facts.get("agent_version")), (records, unparsed), facts.get("unknown_types") or {})
    return dict(sorted(drifts.items()))


def _add(drift: Drift, day: str, version: str, lines: tuple[int, int], types: Mapping[str, int]) -> None:
    unknown = sum(types.values())
    year, week, _ = date.fromisoformat(day).isocalendar()
    for tally in (
        drift.total,
        drift.by_version.setdefault(version, Tally()),
        drift.by_week.setdefault(f"{year}-W{week:02d}", Tally()),
    ):
        tally.add(*lines, unknown)
    for name, count in types.items():
        drift.types[_plain(name)] += count


def _plain(name: Any) -> str:
    if name is None:
        return "(not told)"
    return name if isinstance(name, str) and _PLAIN.fullmatch(name) else "(no plain name)"


def figures_of(flavor: str, drift: Drift) -> dict[str, Any]:
    """The drift of one agent as metadata: totals, the trend by week, counts of types and versions. No names from logs.

    Dagster's records are not rewritten when redaction rules change. `helix status` names types and versions.
    """
    total = drift.total
    figures: dict[str, Any] = {
        f"{flavor}_records": total.records,
        f"{flavor}_unparsed": total.unparsed,
        f"{flavor}_unknown": total.unknown,
        f"{flavor}_trend": ", ".join(f"{w}: {t.per_1000} in 1000" for w, t in sorted(drift.by_week.items())[-LISTED:]),
    }
    if drift.types:
        figures[f"{flavor}_unknown_types"] = len(drift.types)
        figures[f"{flavor}_unknown_of_the_commonest_type"] = max(drift.types.values())
        figures[f"{flavor}_versions_with_unknown"] = len(drift.versions_with_unknown())
        figures["named_by"] = "`helix status`"
    return figures
