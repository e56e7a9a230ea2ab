"""The logs of what went: evictions of what a digest covers, and losses without one. They are only ever added to."""

from __future__ import annotations

from typing import Any

from helix_assets.store.catalog.connection import Connection


def put_eviction(connection: Connection, **values: Any) -> None:
    """Record raw bytes that went and are covered."""
    connection.insert("evictions", [values])


def put_loss(connection: Connection, **values: Any) -> None:
    """Record raw bytes that go without a digest."""
    connection.insert("losses", [values])
