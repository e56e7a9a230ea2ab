"""Which sessions are covered: their digest is made of all their stored rows, by the current rules."""

from __future__ import annotations

from sqlalchemy import ColumnElement, and_, or_, select

from helix_assets.agents import ADAPTERS
from helix_assets.model.event import DIGEST_VERSION
from helix_assets.store.catalog.schema import (
    retries,
    sessions,
)


def is_covered() -> ColumnElement[bool]:
    """Whether a session's digest is made of all its stored rows, by the current rules."""
    s = sessions.c
    parsers = [and_(s.flavor == flavor, s.parser_version == adapter.version) for flavor, adapter in ADAPTERS.items()]
    return and_(
        s.derived_generation.is_not(None),
        s.derived_generation == s.generation,
        s.derivation_version == DIGEST_VERSION,
        s.session_uid.not_in(select(retries.c.session_uid)),
        or_(*parsers, s.flavor.not_in(list(ADAPTERS))),
    )
