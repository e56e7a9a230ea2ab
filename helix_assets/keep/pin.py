"""Pinning a session: a person says whose raw bytes stay. `keep.retention` respects it in its plan."""

from __future__ import annotations

from dataclasses import dataclass

from helix_assets.keep.writing import writing
from helix_assets.store.catalog import sessions
from helix_assets.store.store import Store


@dataclass(frozen=True)
class Pinned:
    """Whether a session is pinned now, and when its raw bytes were evicted, if they were."""

    session_uid: str
    is_pinned: bool
    evicted_at: str | None


def set_pinned(store: Store, session_uid: str, *, is_pinned: bool) -> Pinned:
    """Pin a session or unpin it. BusyError if another process is writing, NotFoundError if the session is gone."""
    with writing(store, "pin" if is_pinned else "unpin"), store.catalog.writing() as connection:
        row = sessions.one(connection, session_uid)
        sessions.change(connection, row.id, is_pinned=is_pinned)
    return Pinned(store.shown(row.session_uid), is_pinned, row.evicted_at)
