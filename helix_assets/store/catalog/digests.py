"""Digests: one per session, written or replaced as a whole. Nothing here deletes one (`keep.erase` does)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from helix_assets.store.catalog.connection import Connection, Row


def identities(connection: Connection) -> list[Row]:
    """What identifies each digest: its partition, its session, and its hash."""
    return list(connection.execute("SELECT flavor, day, session_uid, hash FROM digests ORDER BY session_uid"))


def of_days(connection: Connection, days: Collection[str]) -> Iterator[Row]:
    """The digests of the sessions of these days."""
    query = "SELECT flavor, day, outcome, schema_version, digest FROM digests WHERE day IN ({})"
    return connection.for_each(query, days)


def count(connection: Connection) -> int:
    """How many digests there are."""
    return int(connection.value("SELECT count(*) FROM digests"))


def put(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write or replace digests, each in one step."""
    connection.upsert("digests", rows, ["session_uid"])


def change(connection: Connection, session_uid: str, **values: Any) -> None:
    """Change some columns of a digest."""
    connection.update("digests", values, "session_uid = ?", session_uid)
