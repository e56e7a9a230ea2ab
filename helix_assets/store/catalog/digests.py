"""Digests: one per session, written or replaced as a whole. Nothing here deletes one (`keep.erase` does)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from helix_assets.store.catalog.connection import Connection


def put(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write or replace digests, each in one step."""
    connection.upsert("digests", rows, ["session_uid"])


def change(connection: Connection, session_uid: str, **values: Any) -> None:
    """Change some columns of a digest."""
    connection.update("digests", values, "session_uid = ?", session_uid)
