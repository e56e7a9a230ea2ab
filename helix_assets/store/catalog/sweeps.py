"""Finished sweeps and what they counted."""

from __future__ import annotations

from typing import Any

from helix_assets.store.catalog.connection import Connection


def put(connection: Connection, **values: Any) -> int:
    """Record a finished sweep. Returns its number."""
    connection.insert("sweeps", [values])
    return int(connection.value("SELECT last_insert_rowid()"))
