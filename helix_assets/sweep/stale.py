"""Stale sessions, which were derived by older rules: which they are, and the note that there are none.

Belongs here: which of them can be tried now. Not here: deriving them again (`sweep.rounds`), or redacting them
(`sweep.rescan`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from helix_assets import __version__
from helix_assets.ask.coverage import versions
from helix_assets.store.catalog import meta, retries, sessions
from helix_assets.store.catalog.connection import Connection, Row
from helix_assets.store.store import Store

_SETTLED = "settled"


def stale_sessions(
    store: Store,
    now: datetime,
    only: Collection[tuple[str, str]] | None,
    among: Collection[str] | None = None,
) -> Sequence[Row]:
    """Sessions to derive again now, because of a new parser or digest; `among` names the only ones that can be."""
    with store.catalog.reading() as connection:
        return _due(connection, sessions.stale(connection, versions(), now, among), now, only)


def unredacted_sessions(store: Store, now: datetime, only: Collection[tuple[str, str]] | None) -> Sequence[Row]:
    """Sessions whose texts are not redacted by the rules in force and can be now, the newest first."""
    with store.catalog.reading() as connection:
        return _due(connection, sessions.unredacted(connection, store.rules_version, now), now, only)


def _due(
    connection: Connection, rows: Sequence[Row], now: datetime, only: Collection[tuple[str, str]] | None
) -> list[Row]:
    """Those in these partitions, without sessions whose files wait for another try."""
    if not rows:
        return []
    later = retries.waiting(connection, now).uids
    return [row for row in rows if (only is None or (row.flavor, row.day) in only) and row.session_uid not in later]


def is_settled(store: Store, known: Mapping[str, str]) -> bool:
    """Whether no session was stale and since then nothing was swept and no rule changed. `known` is the table meta."""
    return known.get(_SETTLED) == _progress(store, known.get(meta.ORDER))


def settled(
    store: Store, connection: Connection, order: str | None, among: Collection[str] | None = None
) -> dict[str, str]:
    """What to remember in `meta` if no session is stale; `among` names the only ones that can be."""
    if among != set() and sessions.is_any_stale(connection, versions(), store.rules_version, among):
        return {}
    return {_SETTLED: _progress(store, order)}


def code_versions() -> str:
    """The versions of the code that derives."""
    code = versions()
    parsers = " ".join(f"{flavor}:{version}" for flavor, version in sorted(code.parsers.items()))
    return f"{__version__} {code.digest} {parsers}"


def _progress(store: Store, order: str | None) -> str:
    """The last number in the order of work, and the current rules."""
    return f"{order} {store.rules_version} {code_versions()}"
