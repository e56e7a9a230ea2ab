"""Listing sessions, the newest first, and the agents that there are.

Belongs here: what is shown of a session in a list. Not here: opening one (`ask.reading`), finding texts (`ask.search`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from helix_assets.ask.withheld import refuse_unredacted
from helix_assets.model.digest_text import whole_digest
from helix_assets.model.time import iso
from helix_assets.store.catalog import sessions
from helix_assets.store.proof import is_proven
from helix_assets.store.store import Store

if TYPE_CHECKING:
    from helix_assets.model.digest import Tokens

Wanted = sessions.Wanted
"""Which sessions are listed."""


@dataclass(frozen=True)
class ListedSession:
    """A session in a list. `events` and `tokens` are None without a digest, or if it is damaged."""

    session_uid: str
    flavor: str
    day: str
    repo: str | None
    domain: str | None
    git_branch: str | None
    task_ref: str | None
    title: str | None
    model: str | None
    parent_uid: str | None
    started_at: str | None
    ended_at: str | None
    outcome: str
    events: int | None
    tokens: Tokens | None
    raw_bytes: int
    evicted_at: str | None
    is_pinned: bool


@dataclass(frozen=True)
class SessionList:
    """The first of the sessions that were asked for, and how many there are."""

    sessions: tuple[ListedSession, ...] = ()
    total: int = 0


class NamedSession(NamedTuple):
    """What a person knows a session by. Its title is part of a text, so who shows it asks whether that is withheld."""

    session_uid: str
    day: str
    repo: str | None
    title: str | None
    raw_bytes: int


def list_sessions(store: Store, wanted: Wanted, limit: int) -> SessionList:
    """The newest of the sessions wanted. WithheldError if the redaction rules changed and no sweep has used them."""
    refuse_unredacted(store)
    with store.catalog.reading() as connection:
        rows, total = sessions.newest(connection, wanted, limit)
    return SessionList(tuple(_listed(store, row) for row in rows), total)


def sessions_of_repo(store: Store, repo: str) -> tuple[NamedSession, ...]:
    """The sessions of a repository, by day. Also while the memory is withheld."""
    with store.catalog.reading() as connection:
        return tuple(_named(row) for row in sessions.of_repo(connection, repo))


def named_session(store: Store, session_uid: str) -> NamedSession:
    """One session, also while the memory is withheld. NotFoundError when there is none."""
    with store.catalog.reading() as connection:
        return _named(sessions.one(connection, session_uid))


def _named(row: Any) -> NamedSession:
    return NamedSession(row.session_uid, row.day, row.repo, row.title, row.raw_bytes)


def agents_in(store: Store) -> frozenset[str]:
    """The agents whose sessions the memory contains."""
    with store.catalog.reading() as connection:
        return frozenset(sessions.agents(connection))


def _listed(store: Store, row: Any) -> ListedSession:
    listed = ListedSession(
        session_uid=row.session_uid,
        flavor=row.flavor,
        day=row.day,
        repo=row.repo,
        domain=row.domain,
        git_branch=row.git_branch,
        task_ref=row.task_ref,
        title=row.title,
        model=row.model,
        parent_uid=row.parent_uid,
        started_at=iso(row.started_us),
        ended_at=iso(row.ended_us),
        outcome=row.outcome,
        raw_bytes=row.raw_bytes,
        evicted_at=row.evicted_at,
        is_pinned=row.is_pinned,
        events=None,
        tokens=None,
    )
    if not row.digest or not is_proven(row, store.key):
        return listed
    digest = whole_digest(row.digest)
    title = listed.title or digest.first_prompt
    return replace(listed, title=title, events=digest.event_count, tokens=digest.tokens)
