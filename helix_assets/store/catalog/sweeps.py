"""Finished sweeps and what they counted."""

from __future__ import annotations

from typing import Any

from helix_assets.store.catalog.connection import Connection, Row


def newest(connection: Connection) -> Row | None:
    """The last sweep that changed anything, None before the first."""
    return connection.row("""SELECT id, started_at, ended_at, seconds, counters, raw_bytes, soft_cap_bytes,
        hard_cap_bytes FROM sweeps ORDER BY id DESC LIMIT 1""")


def sum_of(connection: Connection, counter: str) -> int:
    """The sum of one of their counters over all sweeps."""
    query = "SELECT coalesce(sum(CAST(json_extract(counters, '$.' || ?) AS INTEGER)), 0) FROM sweeps"
    return int(connection.value(query, (counter,)))


def put(connection: Connection, **values: Any) -> None:
    """Record a finished sweep."""
    connection.insert("sweeps", [values])


def last(connection: Connection) -> int:
    """The number of the last sweep that changed anything; 0 before the first."""
    return int(connection.value("SELECT coalesce(max(id), 0) FROM sweeps"))


def fill(connection: Connection, newest: int) -> list[tuple[str, int, int | None, int | None]]:
    """Of the newest sweeps: when each ended, the bytes of the raw cache then, and its soft and hard cap."""
    query = """SELECT ended_at, raw_bytes, soft_cap_bytes, hard_cap_bytes FROM sweeps
        WHERE ended_at IS NOT NULL AND raw_bytes IS NOT NULL ORDER BY id DESC LIMIT ?"""
    return connection.tuples(query, (newest,))
