"""Stale sessions, which were derived by older rules: which they are, and the note that there are none.

Belongs here: the query of the catalog. Not here: deriving them again (`sweep.sweep`), or redacting what is kept of
sessions without rows (`sweep.rescan`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Row, literal_column, or_, select, true

from helix_assets import __version__
from helix_assets.agents import ADAPTERS
from helix_assets.model.event import DIGEST_VERSION
from helix_assets.store.catalog import retries
from helix_assets.store.catalog.old_tables import sessions
from helix_assets.store.store import Store

_SETTLED = "settled"
_MANY = 5_000


def stale_sessions(
    store: Store,
    now: datetime,
    only: Collection[tuple[str, str]] | None,
    among: Collection[str] | None = None,
) -> Sequence[Row[Any]]:
    """Sessions to derive again now. `by_rules` (of redaction) and `otherwise` (parser, digest) say why.

    `among` names the only ones that can be stale.
    """
    s = sessions.c
    by_rules, otherwise = s.redaction_version != store.redactor.version, _is_outdated()
    query = select(
        s.session_uid, s.day, s.flavor, s.raw_bytes, by_rules.label("by_rules"), otherwise.label("otherwise")
    )
    query = query.where(s.evicted_at.is_(None), s.row_count > 0, or_(otherwise, by_rules))
    query = query.where(or_(s.failure.is_(None), literal_column(retries.due(now), Boolean)), _is_among(among))
    later = retries.waiting(store.catalog, now).uids
    with store.catalog.reading() as connection:
        return [
            row
            for row in connection.execute(query.order_by(s.ingest_order))
            if (only is None or (row.flavor, row.day) in only) and row.session_uid not in later
        ]


def _is_among(uids: Collection[str] | None) -> ColumnElement[bool]:
    return true() if uids is None or len(uids) > _MANY else sessions.c.session_uid.in_(uids)


def _is_outdated() -> ColumnElement[bool]:
    s = sessions.c
    by_parser = [(s.flavor == flavor) & (s.parser_version != one.version) for flavor, one in ADAPTERS.items()]
    return or_(
        *by_parser,
        s.derived_generation.is_(None),
        s.derived_generation != s.generation,
        s.derivation_version != DIGEST_VERSION,
    )


def is_settled(store: Store) -> bool:
    """Whether no session was stale and since then nothing was swept and no rule changed."""
    return store.catalog.meta_value(_SETTLED) == _progress(store)


def note_settled(store: Store, among: Collection[str] | None = None) -> None:
    """Remember it if no session is stale; `among` names the only ones that can be."""
    s = sessions.c
    has_rows = s.evicted_at.is_(None) & (s.row_count > 0)
    is_stale = or_(s.redaction_version != store.redactor.version, has_rows & _is_outdated())
    with store.catalog.reading() as connection:
        if connection.execute(select(s.id).where(is_stale, _is_among(among)).limit(1)).first() is not None:
            return
    with store.catalog.writing() as connection:
        store.catalog.set_meta(connection, _SETTLED, _progress(store))


def code_versions() -> str:
    """The versions of the code that derives."""
    parsers = " ".join(f"{flavor}:{adapter.version}" for flavor, adapter in sorted(ADAPTERS.items()))
    return f"{__version__} {DIGEST_VERSION} {parsers}"


def _progress(store: Store) -> str:
    """The last number in the order of work, and the current rules."""
    return f"{store.catalog.meta_value('order')} {store.redactor.version} {code_versions()}"
