"""Hook events: when things happened according to the agents' own hooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from helix_assets.store.catalog.connection import Connection


def put(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> int:
    """Record events, once each. Returns how many are new."""
    before = connection.total_changes
    connection.insert("hook_events", rows, or_="IGNORE")
    return connection.total_changes - before
