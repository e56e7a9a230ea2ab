"""Digests: one per session, written or replaced as a whole. Nothing here deletes one (`keep.erase` does)."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from helix_assets.store.catalog.connection import Connection, Row


def put(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write or replace digests, each in one step."""
    connection.upsert("digests", rows, ["session_uid"])


def change(connection: Connection, session_uid: str, **values: Any) -> None:
    """Change some columns of a digest."""
    connection.update("digests", values, "session_uid = ?", session_uid)


def by_uid(connection: Connection, uids: Collection[str]) -> dict[str, Row]:
    """Those of these sessions' digests that exist."""
    rows = connection.for_each("SELECT * FROM digests WHERE session_uid IN ({})", uids)
    return {row.session_uid: row for row in rows}


def in_partition(connection: Connection, flavor: str, day: str) -> list[Row]:
    """The digests of a partition, by uid."""
    query = "SELECT * FROM digests WHERE flavor = ? AND day = ? ORDER BY session_uid"
    return connection.execute(query, (flavor, day)).fetchall()


def partitions(connection: Connection) -> set[tuple[str, str]]:
    """The partitions (flavor, day) that have digests."""
    return set(connection.tuples("SELECT DISTINCT flavor, day FROM digests"))


def to_prove(connection: Connection) -> Iterator[Row]:
    """The text and the hash of every digest."""
    return iter(connection.execute("SELECT session_uid, digest, hash FROM digests ORDER BY session_uid"))


def missing(connection: Connection) -> list[str]:
    """Sessions that count as analysed and have no digest."""
    return connection.column("""SELECT session_uid FROM sessions
        WHERE (derived_generation IS NOT NULL OR analyzed_at IS NOT NULL)
            AND session_uid NOT IN (SELECT session_uid FROM digests) ORDER BY session_uid""")


def unpriced_models(connection: Connection) -> list[list[str]]:
    """Of each digest that names models without a price: these models."""
    texts = connection.column('SELECT digest FROM digests WHERE instr(digest, \'"unpriced_models":["\')')
    return [json.loads(text)["unpriced_models"] for text in texts]
