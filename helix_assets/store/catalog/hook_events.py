"""Hook events: when things happened according to the agents' own hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from helix_assets.store.catalog.connection import Connection, Row


def every(connection: Connection) -> list[Row]:
    """All times that hooks noted, in their order."""
    return connection.rows("SELECT session_uid, at, event, call_id FROM hook_events ORDER BY at")


def put(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
    """Record events, once each. Returns how many are new."""
    before = connection.total_changes
    connection.insert("hook_events", rows, or_="IGNORE")
    return connection.total_changes - before
