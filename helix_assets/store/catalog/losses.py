"""The logs of what went: evictions of what a digest covers, and losses without one. They are only ever added to."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

from helix_assets.store.catalog.connection import Connection, Row

_ON = "at >= ? AND at < ?"


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


def evictions_on(connection: Connection, day: date) -> list[Row]:
    """What was evicted on a day: how many sessions and bytes of each partition for each reason."""
    query = f"""SELECT flavor, day, reason, count(*) AS sessions, sum(bytes) AS bytes FROM evictions WHERE {_ON}
        GROUP BY flavor, day, reason ORDER BY flavor, day, reason"""
    return connection.rows(query, _span(day))


def count_evictions(connection: Connection) -> int:
    """How many sessions were ever evicted, each time counted."""
    return int(connection.value("SELECT count(*) FROM evictions"))


def count_on(connection: Connection, day: date) -> int:
    """How many sessions were lost on a day."""
    return int(connection.value(f"SELECT count(*) FROM losses WHERE {_ON}", _span(day)))


def totals(connection: Connection) -> tuple[int, int]:
    """How many sessions were ever lost, each time counted, and of how many bytes."""
    count, size = connection.execute("SELECT count(*), coalesce(sum(bytes), 0) FROM losses").fetchone()
    return count, size


def after(connection: Connection, number: int) -> list[Row]:
    """The losses after the one of this number."""
    return connection.rows("SELECT * FROM losses WHERE id > ? ORDER BY id", (number,))


def newest(connection: Connection, limit: int) -> list[Row]:
    """The newest losses, without the names of their sessions."""
    query = "SELECT id, at, flavor, day, bytes, records, reason FROM losses ORDER BY id DESC LIMIT ?"
    return connection.rows(query, (limit,))


def _span(day: date) -> tuple[str, str]:
    return day.isoformat(), (day + timedelta(days=1)).isoformat()
