"""The ledger: which sessions contain a record or message that others may contain too, and who owns the shared ones.

Keys are hashes, so each of a few new ones would be written to another page, and the larger the store the more pages.
They are kept as news at first, one row for each session and commit, and sorted into the ledger once they are many.
Belongs here: reading and filling the ledger. `sweep.settle` decides who owns what.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from helix_assets.store.catalog.catalog import in_parts
from helix_assets.store.catalog.schema import ledger, ledger_news, shared_keys

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
    if not claims:
        return
    if len(claims) > _FEW:
        _put(connection, claims)
        return
    held = connection.execute(select(func.coalesce(func.sum(ledger_news.c.count), 0))).scalar_one()
    if held + len(claims) > NEWS_KEYS:
        earlier = ((key, number) for key, numbers in news_of(connection).items() for number in numbers)
        _put(connection, [*claims, *earlier])
        connection.execute(delete(ledger_news))
        return
    by_session: dict[int, list[int]] = defaultdict(list)
    for key, session_id in claims:
        by_session[session_id].append(key)
    rows = [{"session_id": number, "count": len(keys), "told": keys} for number, keys in by_session.items()]
    connection.execute(insert(ledger_news), rows)


def unclaim(connection: Connection, claims: Collection[Claim]) -> None:
    """Remove claims: these sessions no longer contain these keys."""
    by_session: dict[int, set[int]] = defaultdict(set)
    for key, session_id in claims:
        by_session[session_id].add(key)
    for session_id, keys in by_session.items():
        for part in in_parts(keys):
            connection.execute(delete(ledger).where(ledger.c.key.in_(part), ledger.c.session_id == session_id))
        for row in connection.execute(select(ledger_news).where(ledger_news.c.session_id == session_id)).all():
            left = [key for key in row.told if key not in keys]
            is_it = ledger_news.c.id == row.id
            connection.execute(update(ledger_news).where(is_it).values(told=left, count=len(left)))


def _put(connection: Connection, claims: Collection[Claim]) -> None:
    """Write claims to the ledger, in its order."""
    statement = upsert(ledger).on_conflict_do_nothing()
    compiled = statement.compile(dialect=connection.dialect, column_keys=["key", "session_id"])
    if compiled.positional:
        # Past SQLAlchemy's own preparation of each row, which takes four times as long as storing it.
        connection.exec_driver_sql(str(compiled), sorted(claims))
    else:
        connection.execute(statement, [{"key": key, "session_id": session_id} for key, session_id in sorted(claims)])


def news_of(connection: Connection) -> News:
    """All claims that are news."""
    found: dict[int, set[int]] = {}
    for session_id, keys in connection.execute(select(ledger_news.c.session_id, ledger_news.c.told)):
        for key in keys:
            found.setdefault(key, set()).add(session_id)
    return found


def claims_on(connection: Connection, keys: Collection[int], news: News | None = None) -> set[Claim]:
    """Which sessions contain any of these keys. Pass `news` to avoid reading it for each of many calls."""
    wanted = set(keys)
    news = news_of(connection) if news is None else news
    found = {(key, number) for key in wanted & news.keys() for number in news[key]}
    if wanted and connection.execute(select(ledger.c.key).limit(1)).first() is not None:
        query = select(ledger.c.key, ledger.c.session_id)
        for part in in_parts(wanted):
            found.update((row[0], row[1]) for row in connection.execute(query.where(ledger.c.key.in_(part))))
    return found


def claims_of(connection: Connection, session_ids: Collection[int]) -> set[int]:
    """The keys that these sessions contain. Reads the whole ledger."""
    mine = set(session_ids)
    found = {key for key, numbers in news_of(connection).items() if numbers & mine}
    for part in in_parts(session_ids):
        found.update(connection.execute(select(ledger.c.key).where(ledger.c.session_id.in_(part))).scalars())
    return found


def owners_of(connection: Connection, keys: Collection[int]) -> dict[int, int]:
    """The owner of each key that several sessions contain."""
    return {row.key: row.owner_id for row in _shared(connection, keys)}


def shared_with(connection: Connection, session_ids: Collection[int]) -> list[Shared]:
    """The shared keys that any of these sessions contains, with every session that contains them."""
    if connection.execute(select(shared_keys.c.key).limit(1)).first() is None:
        return []
    claimed = select(shared_keys.c.key).join(ledger, ledger.c.key == shared_keys.c.key).distinct()
    mine, news = set(session_ids), news_of(connection)
    keys = {key for key, numbers in news.items() if numbers & mine}
    for part in in_parts(session_ids):
        keys.update(connection.execute(claimed.where(ledger.c.session_id.in_(part))).scalars())
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
    for part in in_parts(session_ids):
        for column in (shared_keys.c.owner_id, ledger.c.session_id, ledger_news.c.session_id):
            connection.execute(delete(column.table).where(column.in_(part)))


def _claims_on_owned(connection: Connection, owner_ids: Collection[int]) -> set[Claim]:
    owned: set[int] = set()
    for part in in_parts(owner_ids):
        mine = shared_keys.c.owner_id.in_(part)
        owned.update(connection.execute(select(shared_keys.c.key).where(mine)).scalars())
    return claims_on(connection, owned)


def _shared(connection: Connection, keys: Collection[int]) -> Iterator[Any]:
    for part in in_parts(keys):
        yield from connection.execute(select(shared_keys).where(shared_keys.c.key.in_(part)))
