"""The ledger answers the same whether a claim is news or has been put in its place, and few claims touch few pages."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from helix_assets.store.catalog import ledger
from helix_assets.store.catalog.catalog import create_catalog, open_catalog
from helix_assets.store.catalog.connection import Connection
from helix_assets.store.catalog.ledger import NEWS_KEYS, Shared, claim
from helix_assets_tests.home import Memory, conversation

FEW = [(11, 1), (12, 1), (11, 2), (13, 3)]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """Of a store with three sessions, whose own claims are gone; the first owns a message."""
    memory = Memory(tmp_path)
    for name in ("a", "b", "c"):
        memory.write(name, *conversation(1, session=name))
    memory.sweep()
    with memory.store.catalog.writing() as opened:
        ledger.forget(opened, [1, 2, 3])
        ledger.put_shared(opened, [{"key": 11, "owner_id": 1, "message_id": "m"}])
        yield opened
    memory.close()


def count(connection: Connection, table: str) -> int:
    return int(connection.value(f"SELECT count(*) FROM {table}"))


@pytest.fixture(params=["news", "in their places", "both"])
def claimed(request: pytest.FixtureRequest, connection: Connection, monkeypatch: pytest.MonkeyPatch) -> Connection:
    """Four claims: as news, in their places, and one half each."""
    halves = {"news": ([], FEW), "in their places": (FEW, []), "both": (FEW[:2], FEW[2:])}
    first, second = halves[request.param]
    with monkeypatch.context() as at_once:
        at_once.setattr(ledger, "_FEW", 0)
        claim(connection, first)
    claim(connection, second)
    assert (count(connection, "ledger"), count(connection, "ledger_news") > 0) == (len(first), bool(second))
    return connection


def test_which_sessions_contain_a_key(claimed: Connection) -> None:
    assert ledger.claims_on(claimed, [11, 13, 99]) == {(11, 1), (11, 2), (13, 3)}


def test_what_a_session_contains(claimed: Connection) -> None:
    assert ledger.claims_of(claimed, {1, 3}) == {11, 12, 13}


def test_what_is_shared_comes_with_every_session_that_contains_it(claimed: Connection) -> None:
    assert ledger.shared_with(claimed, {2}) == [Shared(11, 1, "m", 1), Shared(11, 1, "m", 2)]
    assert ledger.shared_with(claimed, {3}) == []


def test_which_sessions_contain_what_another_owns(claimed: Connection) -> None:
    assert (ledger.sharers_of(claimed, {1}), ledger.sharers_of(claimed, {2})) == ({1, 2}, set())


def test_what_is_forgotten_is_nowhere(claimed: Connection) -> None:
    ledger.forget(claimed, {1})
    assert ledger.claims_on(claimed, [11, 12, 13]) == {(13, 3)}  # the second has to be read again for what it told
    assert ledger.owners_of(claimed, [11]) == {}


def test_a_claim_taken_back_leaves_the_others(claimed: Connection) -> None:
    ledger.unclaim(claimed, [(11, 1), (13, 1)])
    assert ledger.claims_on(claimed, [11, 12, 13]) == {(12, 1), (11, 2), (13, 3)}


def test_many_news_are_put_in_their_places(connection: Connection) -> None:
    keys = Random(1).sample(range(1 << 60), NEWS_KEYS + 1)
    for start in range(0, len(keys), 1_000):
        claim(connection, [(key, 1) for key in keys[start : start + 1_000]])
    ledger.sort_in(connection)
    assert (count(connection, "ledger"), count(connection, "ledger_news")) == (NEWS_KEYS + 1, 0)


def test_a_claim_made_twice_counts_once(connection: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "NEWS_KEYS", 6)
    for _ in range(2):
        claim(connection, FEW)
    ledger.sort_in(connection)
    assert (count(connection, "ledger"), count(connection, "ledger_news")) == (4, 0)


def test_few_news_stay_news(connection: Connection) -> None:
    claim(connection, FEW)
    ledger.sort_in(connection)
    assert (count(connection, "ledger"), count(connection, "ledger_news") > 0) == (0, True)


def test_a_few_claims_more_write_a_few_pages(tmp_path: Path) -> None:
    create_catalog(tmp_path)
    catalog, rng = open_catalog(tmp_path), Random(1)
    log = tmp_path / "helix.db-wal"
    with catalog.writing() as connection:
        claim(connection, [(rng.getrandbits(62), 1) for _ in range(50_000)])
    with catalog.connection() as plain:
        plain.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with catalog.writing() as connection:
        claim(connection, [(rng.getrandbits(62), 1) for _ in range(50)])
    assert log.stat().st_size < 5 * 4_120
    catalog.close()
