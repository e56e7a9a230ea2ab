"""Changes of the sources in the catalog."""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from helix_assets.store.catalog.schema import sessions, sources


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
