"""Changes of the sources in the catalog."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, func, select, update

from helix_assets.store.catalog.schema import sessions, sources

PRESENT_UNREADABLE = "present_unreadable"
"""The status of a session's file that is known for what it is and cannot be read, such as an encrypted one."""


def unreadable_sessions(connection: Connection) -> dict[tuple[str, str], int]:
    """How many sessions of each agent cannot be read, by agent and reason."""
    s = sources.c
    counts = select(s.flavor, s.problem, func.count()).where(s.status == PRESENT_UNREADABLE)
    rows = connection.execute(counts.group_by(s.flavor, s.problem).order_by(s.flavor, s.problem))
    return {(flavor, reason): count for flavor, reason, count in rows}


def parts_of_files(connection: Connection, roles: Collection[str]) -> Sequence[Any]:
    """The sessions of files that hold many, as they were when they were last listed there."""
    s = sources.c
    columns = s.path_key, s.path, s.role, s.native_id, s.dev, s.inode, s.size, s.mtime_ns
    there = s.role.in_(roles), s.native_id.is_not(None), s.status != "gone"
    rows: Sequence[Any] = connection.execute(select(*columns).where(*there)).all()
    return rows


def read_again(connection: Connection, session_id: int) -> str | None:
    """Let the next sweep read a session's files from the start. Returns its uid, or None if the files are gone.

    What was evicted of it is then derived along with the rest, as whenever it grows.
    """
    mine = sources.c.session_id == session_id
    if connection.execute(select(sources.c.id).where(mine, sources.c.status == "gone")).first() is not None:
        return None
    connection.execute(update(sources).where(mine).values(mtime_ns=-1, is_doubted=True))
    uid: str = connection.execute(select(sessions.c.session_uid).where(sessions.c.id == session_id)).scalar_one()
    return uid
