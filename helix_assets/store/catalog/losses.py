"""The logs of what went: evictions of what a digest covers, and losses without one. They are only ever added to."""

from __future__ import annotations

from typing import Any

from helix_assets.store.catalog.connection import Connection, Row


def put_eviction(connection: Connection, **values: Any) -> None:
    """Record raw bytes that went and are covered."""
    connection.insert("evictions", [values])


def of_time(connection: Connection, at: str) -> list[Row]:
    """What was lost by the eviction of this time."""
    return connection.rows("SELECT * FROM losses WHERE at = ? ORDER BY id", (at,))


def rename(connection: Connection, session_uid: str, name: str) -> None:
    """Replace a session's name in both logs, whose figures stay true."""
    for log in ("evictions", "losses"):
        connection.update(log, {"session_uid": name}, "session_uid = ?", session_uid)


def put_loss(connection: Connection, **values: Any) -> None:
    """Record raw bytes that go without a digest."""
    connection.insert("losses", [values])
