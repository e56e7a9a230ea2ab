"""Digests: one per session, written or replaced as a whole. Only forgetting erases one (`keep.erase`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from helix_assets.store.catalog.connection import Connection, Row

_PADDED_FROM, _PADDED_TO = 8 << 10, 1 << 10


def identities(connection: Connection, days: Collection[str] | None = None) -> Iterator[Row]:
    """What identifies each digest: its partition, its session, and its hash."""
    query = "SELECT flavor, day, session_uid, hash FROM digests {} ORDER BY session_uid"
    return connection.of_days(query, "day", days)


def of_days(connection: Connection, days: Collection[str]) -> Iterator[Row]:
    """The digests of the sessions of these days."""
    query = "SELECT flavor, day, outcome, schema_version, digest FROM digests WHERE day IN ({})"
    return connection.for_each(query, days)


def count(connection: Connection) -> int:
    """How many digests there are."""
    return int(connection.value("SELECT count(*) FROM digests"))


def of(connection: Connection, session_uid: str) -> Row | None:
    """A session's digest as it is stored; None if it has none yet. `store.proof` says whether it is undamaged."""
    row: Row | None = connection.execute("SELECT * FROM digests WHERE session_uid = ?", (session_uid,)).fetchone()
    return row


def texts(connection: Connection) -> list[tuple[str, str, str]]:
    """Of every digest its agent, its text and its hash: all that figures over all digests need."""
    return connection.tuples("SELECT flavor, digest, hash FROM digests")


def every(connection: Connection) -> list[Row]:
    """All digests as they are stored, by uid."""
    return connection.rows("SELECT * FROM digests ORDER BY session_uid")


def without_texts(connection: Connection, light: str) -> list[Row]:
    """The digests of sessions whose texts went: evicted ones, and those with files whose names end in `light`."""
    # As a subquery, because otherwise all digests, a large table, would be read.
    query = """SELECT digests.session_uid, digests.hash, sessions.id
        FROM digests JOIN sessions ON sessions.session_uid = digests.session_uid
        WHERE digests.session_uid IN (
            SELECT session_uid FROM sessions WHERE evicted_at IS NOT NULL OR evicting_at IS NOT NULL
                OR id IN (SELECT session_id FROM raw_files WHERE substr(name, -length(?)) = ?))"""
    return connection.rows(query, (light, light))


def put(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write or replace digests, each in one step.

    Large ones are padded: SQLite overwrites a row of the same size where it is, and only the pages that differ. Else it
    writes all of it to other pages, and zeros over the old ones, at each turn of a session.
    """
    connection.upsert("digests", [{**row, "padding": _padding(row["digest"])} for row in rows], ["session_uid"])


def _padding(text: str) -> bytes | None:
    size = len(text.encode())
    return bytes(-size % _PADDED_TO) if size >= _PADDED_FROM else None


def erase(connection: Connection, session_uids: Collection[str]) -> int:
    """Erase the digests of forgotten sessions. Returns how many there were."""
    return len(list(connection.for_each("DELETE FROM digests WHERE session_uid IN ({}) RETURNING 1", session_uids)))


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
    return connection.rows(query, (flavor, day))


def partitions(connection: Connection) -> set[tuple[str, str]]:
    """The partitions (flavor, day) that have digests."""
    return set(connection.tuples("SELECT DISTINCT flavor, day FROM digests"))


def to_prove(connection: Connection) -> Iterator[Row]:
    """The text and the hash of every digest, one at a time."""
    with closing(connection.execute("SELECT session_uid, digest, hash FROM digests ORDER BY session_uid")) as found:
        yield from found


def missing(connection: Connection) -> list[str]:
    """Sessions that count as analysed and have no digest."""
    return connection.column("""SELECT session_uid FROM sessions
        WHERE (derived_generation IS NOT NULL OR analyzed_at IS NOT NULL)
            AND session_uid NOT IN (SELECT session_uid FROM digests) ORDER BY session_uid""")


def with_unpriced_models(connection: Connection) -> list[str]:
    """The texts of all digests that name models without a price."""
    return connection.column('SELECT digest FROM digests WHERE instr(digest, \'"unpriced_models":["\')')
