"""The ledger: which sessions contain a record or message that others may contain too, and who owns the shared ones.

Keys are hashes, so each of a few new ones would be written to another page, and the larger the store the more pages.
They are kept as news at first, one row for each session and commit, and sorted into the ledger once they are many.
Belongs here: reading and filling the ledger. `sweep.settle` decides who owns what.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from helix_assets.store.catalog.connection import Connection, Row

NEWS_KEYS = 20_000
"""Every query reads all news: so many take two milliseconds."""
_FEW = 2_000

Claim = tuple[int, int]
"""A key, and the id of a session that contains it."""
News = Mapping[int, Set[int]]
"""Sessions by key, of those claims that are news."""


class Shared(NamedTuple):
    """A key that several sessions contain, one of them, and its owner; with the message's id if it is a message's."""

    key: int
    owner_id: int
    message_id: str | None
    session_id: int


def claim(connection: Connection, claims: Sequence[Claim]) -> None:
    """Record which sessions contain which keys."""
    if len(claims) > _FEW:
        _put(connection, claims)
        return
    by_session: dict[int, list[int]] = defaultdict(list)
    for key, session_id in claims:
        by_session[session_id].append(key)
    rows = [{"session_id": number, "count": len(keys), "told": keys} for number, keys in by_session.items()]
    connection.insert("ledger_news", rows)


def sort_in(connection: Connection) -> None:
    """Move the news to the ledger if they are many. Every sweep that changed anything does this at its end."""
    if connection.value("SELECT coalesce(sum(count), 0) FROM ledger_news") > NEWS_KEYS:
        _put(connection, [(key, number) for key, numbers in news_of(connection).items() for number in numbers])
        connection.execute("DELETE FROM ledger_news")


def unclaim(connection: Connection, claims: Collection[Claim]) -> None:
    """Remove claims: these sessions no longer contain these keys."""
    by_session: dict[int, set[int]] = defaultdict(set)
    for key, session_id in claims:
        by_session[session_id].add(key)
    for session_id, keys in by_session.items():
        connection.run_for("DELETE FROM ledger WHERE session_id = ? AND key IN ({})", keys, (session_id,))
        news = connection.rows("SELECT id, told FROM ledger_news WHERE session_id = ?", (session_id,))
        for row in news:
            left = [key for key in row.told if key not in keys]
            connection.update("ledger_news", {"told": left, "count": len(left)}, "id = ?", row.id)


def _put(connection: Connection, claims: Collection[Claim]) -> None:
    """Write claims to the ledger, in its order."""
    connection.executemany("INSERT OR IGNORE INTO ledger (key, session_id) VALUES (?, ?)", sorted(claims))


def news_of(connection: Connection) -> News:
    """All claims that are news."""
    found: dict[int, set[int]] = {}
    for session_id, keys in connection.execute("SELECT session_id, told FROM ledger_news"):
        for key in keys:
            found.setdefault(key, set()).add(session_id)
    return found


def claims_on(connection: Connection, keys: Collection[int], news: News | None = None) -> set[Claim]:
    """Which sessions contain any of these keys. Pass `news` to avoid reading it for each of many calls."""
    wanted = set(keys)
    news = news_of(connection) if news is None else news
    found = {(key, number) for key in wanted & news.keys() for number in news[key]}
    if wanted and connection.value("SELECT key FROM ledger LIMIT 1") is not None:
        rows = connection.for_each("SELECT key, session_id FROM ledger WHERE key IN ({})", wanted)
        found.update((key, number) for key, number in rows)
    return found


def claims_of(connection: Connection, session_ids: Collection[int]) -> set[int]:
    """The keys that these sessions contain. Reads the whole ledger."""
    mine = set(session_ids)
    found = {key for key, numbers in news_of(connection).items() if numbers & mine}
    found.update(row.key for row in connection.for_each("SELECT key FROM ledger WHERE session_id IN ({})", session_ids))
    return found


def owners_of(connection: Connection, keys: Collection[int]) -> dict[int, int]:
    """The owner of each key that several sessions contain."""
    return {row.key: row.owner_id for row in _shared(connection, keys)}


def shared_with(connection: Connection, session_ids: Collection[int]) -> list[Shared]:
    """The shared keys that any of these sessions contains, with every session that contains them."""
    if not session_ids or connection.value("SELECT key FROM shared_keys LIMIT 1") is None:
        return []
    claimed = "SELECT DISTINCT k.key FROM shared_keys k JOIN ledger l ON l.key = k.key WHERE l.session_id IN ({})"
    mine, news = set(session_ids), news_of(connection)
    keys = {key for key, numbers in news.items() if numbers & mine}
    keys.update(row.key for row in connection.for_each(claimed, session_ids))
    shared = {row.key: row for row in _shared(connection, keys)}
    return [
        Shared(key, shared[key].owner_id, shared[key].message_id, number)
        for key, number in sorted(claims_on(connection, shared, news))
    ]


def sharers_of(connection: Connection, owner_ids: Collection[int]) -> set[int]:
    """Sessions that contain what one of these owns."""
    return {number for _, number in _claims_on_owned(connection, owner_ids)}


def forget(connection: Connection, session_ids: Collection[int]) -> None:
    """Remove the claims of these sessions, and all claims on what they own: other sessions make those again."""
    unclaim(connection, _claims_on_owned(connection, session_ids))
    for table, column in (("shared_keys", "owner_id"), ("ledger", "session_id"), ("ledger_news", "session_id")):
        connection.run_for(f"DELETE FROM {table} WHERE {column} IN ({{}})", session_ids)


def _claims_on_owned(connection: Connection, owner_ids: Collection[int]) -> set[Claim]:
    owned = connection.for_each("SELECT key FROM shared_keys WHERE owner_id IN ({})", owner_ids)
    return claims_on(connection, {row.key for row in owned})


def put_shared(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Record which session owns each key that several sessions contain."""
    connection.upsert("shared_keys", rows, ["key"])


def _shared(connection: Connection, keys: Collection[int]) -> Iterator[Row]:
    return connection.for_each("SELECT * FROM shared_keys WHERE key IN ({})", keys)
