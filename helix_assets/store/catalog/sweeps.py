"""Finished sweeps and what they counted."""

from __future__ import annotations

from typing import Any

from helix_assets.store.catalog.connection import Connection


def put(connection: Connection, **values: Any) -> int:
    """Record a finished sweep. Returns its number."""
    connection.insert("sweeps", [values])
    return int(connection.value("SELECT last_insert_rowid()"))


def last(connection: Connection) -> int:
    """The number of the last sweep that changed anything; 0 before the first."""
    return int(connection.value("SELECT coalesce(max(id), 0) FROM sweeps"))
