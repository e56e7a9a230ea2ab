"""The feed has each change of a digest once, at a position that only grows, whatever happens to its writer."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from shutil import rmtree

import pytest

from helix_assets.keep.backup import make_copy
from helix_assets.keep.forget import forget
from helix_assets.keep.restore import choose_copy, restore
from helix_assets.model.time import microseconds
from helix_assets.store.catalog.feed import OLD_FEED
from helix_assets.store.store import open_store
from helix_assets_tests.home import NOW, Memory, conversation
from helix_assets_tests.store.consumer import Consumer

ONE, TWO = "claude:s1", "claude:s2"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(2, session="a"))
    memory.write("s2", *conversation(3, session="b"))
    memory.sweep()
    yield memory
    memory.close()


@pytest.fixture
def consumer(memory: Memory) -> Consumer:
    return Consumer(memory.store.catalog.path)


def grow(memory: Memory, name: str, turn: int) -> None:
    memory.write(name, *conversation(1, start=turn, session=f"{name}{turn}"), append=True)
    memory.sweep()


def test_new_and_changed_digests_get_positions_that_grow(memory: Memory, consumer: Consumer) -> None:
    assert consumer.catch_up() == [(1, "new", ONE), (2, "new", TWO)]
    assert consumer.catch_up() == []
    grow(memory, "s1", 10)
    assert consumer.catch_up() == [(3, "revised", ONE)]
    assert consumer.missed() == []


def test_the_feed_is_read_in_order_of_positions_without_sorting_all(memory: Memory) -> None:
    query = "EXPLAIN QUERY PLAN SELECT * FROM feed WHERE position > 1 ORDER BY position LIMIT 1"
    with memory.store.catalog.reading() as connection:
        plan = [row.detail for row in connection.execute(query)]
    assert "SEARCH digests USING INDEX digests_by_position (position>?)" in plan
    assert not any("TEMP B-TREE" in step for step in plan)


def test_a_digest_that_stays_the_same_keeps_its_position(memory: Memory, consumer: Consumer) -> None:
    consumer.catch_up()
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE digests SET digest = digest, hash = hash, written_at = 'later'")
    assert consumer.catch_up() == []


def test_what_changes_between_two_steps_is_seen_once_in_its_last_form(memory: Memory, consumer: Consumer) -> None:
    assert consumer.step(1) == 1
    grow(memory, "s2", 10)
    grow(memory, "s2", 11)
    grow(memory, "s1", 12)
    assert consumer.catch_up(1) == [(4, "revised", TWO), (5, "revised", ONE)]
    assert consumer.missed() == []


def test_a_forgotten_session_is_named_by_its_first_position_alone(memory: Memory, consumer: Consumer) -> None:
    consumer.catch_up()
    grow(memory, "s1", 10)
    forget(memory.store, [ONE], now=memory.now)
    assert consumer.catch_up() == [(4, "forgotten", None)]
    assert consumer.missed() == []
    memory.store.catalog.close()
    assert all(b"claude:s1" not in path.read_bytes() for path in memory.store.data_dir.rglob("*") if path.is_file())


def test_the_position_of_a_forgotten_session_is_not_used_again(memory: Memory, consumer: Consumer) -> None:
    forget(memory.store, [TWO], now=memory.now)
    grow(memory, "s1", 10)
    assert consumer.catch_up() == [(3, "forgotten", None), (4, "revised", ONE)]


def test_killed_before_the_commit_neither_digest_nor_position_is_there(
    memory: Memory, consumer: Consumer, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer.catch_up()
    memory.write("s1", *conversation(1, start=10, session="c"), append=True)
    with monkeypatch.context() as broken:
        broken.setattr("helix_assets.store.catalog.problems.put", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            memory.sweep()
    assert consumer.catch_up() == []
    memory.sweep()
    assert consumer.catch_up() == [(3, "revised", ONE)]
    assert consumer.missed() == []


def test_newer_rules_revise_what_they_change(memory: Memory, consumer: Consumer, tmp_path: Path) -> None:
    consumer.catch_up()
    rules = '[{name = "step", pattern = "please do step [0-9]"}]'
    again = Memory(tmp_path, environ={"HELIX_REDACTION_RULES": rules})
    again.sweep()
    again.close()
    assert {change for _, change, _ in consumer.catch_up()} == {"revised"}
    assert "please do step" not in str(consumer.held)
    assert consumer.missed() == []


@pytest.mark.parametrize("is_damaged", [False, True])
def test_after_a_restore_consumers_have_what_the_copy_has(memory: Memory, consumer: Consumer, is_damaged: bool) -> None:
    make_copy(memory.store, memory.now)
    memory.write("s3", *conversation(1, session="c"))
    grow(memory, "s1", 10)
    consumer.catch_up()
    memory.close()
    if is_damaged:
        memory.store.catalog.path.write_bytes(b"?")
    for path in memory.projects.rglob("*.jsonl"):
        path.unlink()
    restore(memory.store.settings, choose_copy(memory.store.settings), NOW)
    assert consumer.catch_up()[0][1:] == ("forgotten", None)
    assert consumer.missed() == []
    assert {uid for uid, _ in consumer.held.values()} == {ONE, TWO}
    memory.store = open_store(memory.store.settings)


def test_positions_go_on_even_if_the_clock_was_set_back_before_a_restore(memory: Memory, consumer: Consumer) -> None:
    make_copy(memory.store, memory.now)
    late = microseconds(NOW) + 10
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE digests SET position = ? WHERE session_uid = ?", (late, ONE))
    consumer.catch_up()
    restore(memory.store.settings, choose_copy(memory.store.settings), NOW)
    assert [position for position, _, _ in consumer.catch_up()] == [late + 1, late + 2, late + 3]


# -- stores of earlier versions --------------------------------------------------------------------------------------


def as_version_ten(memory: Memory, *, last: int) -> None:
    """A store whose feed is files: ONE was last added at 3, TWO at 2 and has changed since."""
    memory.close()
    with closing(sqlite3.connect(memory.store.catalog.path)) as connection, connection:
        connection.executescript(f"""
            DROP VIEW feed; DROP TRIGGER digest_added; DROP TRIGGER digest_changed; DROP TRIGGER digest_removed;
            DROP INDEX digests_by_position; DROP TABLE removals;
            ALTER TABLE digests DROP COLUMN position; ALTER TABLE digests DROP COLUMN first_position;
            CREATE TABLE feed (session_uid TEXT PRIMARY KEY, hash TEXT NOT NULL, position BIGINT NOT NULL);
            INSERT INTO feed SELECT session_uid, hash, 3 FROM digests WHERE session_uid = '{ONE}';
            INSERT INTO feed VALUES ('{TWO}', 'older', 2);
            INSERT INTO meta VALUES ('feed_position', '{last}'), ('feed_redacted_with', 'rules');
            UPDATE meta SET value = '10' WHERE name = 'catalog_version';""")
    folder = memory.store.data_dir / "feed"
    folder.mkdir()
    (folder / "digests-000000000001.jsonl").write_text('{"position": 1, "session_uid": "claude:s1"}\n')


def test_positions_go_on_from_the_files_of_an_earlier_version(memory: Memory) -> None:
    memory.write("s3", *conversation(1, session="c"))
    memory.sweep()
    as_version_ten(memory, last=7)
    memory.store = open_store(memory.store.settings)
    consumer = Consumer(memory.store.catalog.path, position=7, held={1: ("claude:gone", "{}")})
    assert Consumer(consumer.catalog).catch_up()[0] == (3, "new", ONE)
    (first, *others) = consumer.catch_up()
    assert first == (507, "forgotten", None)
    assert others == [(508, "revised", TWO), (509, "new", "claude:s3")]
    assert "claude:gone" not in {uid for uid, _ in consumer.held.values()}
    with closing(sqlite3.connect(consumer.catalog)) as connection:
        assert connection.execute("SELECT * FROM meta WHERE name LIKE 'feed%'").fetchall() == []


def test_the_first_writer_removes_the_files_of_an_earlier_version(memory: Memory) -> None:
    as_version_ten(memory, last=3)
    memory.store = open_store(memory.store.settings)
    assert (memory.store.data_dir / OLD_FEED).exists()
    memory.sweep()
    assert not (memory.store.data_dir / OLD_FEED).exists()


def test_nothing_counts_as_forgotten_while_those_files_cannot_be_removed(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_version_ten(memory, last=3)
    memory.store = open_store(memory.store.settings)
    with monkeypatch.context() as broken:
        broken.setattr("shutil.rmtree", keep_old_feed)
        assert not forget(memory.store, [ONE], now=memory.now).is_finished
    memory.sweep()
    assert not (memory.store.data_dir / OLD_FEED).exists()


def keep_old_feed(path: Path, *, ignore_errors: bool = False) -> None:
    if path.name != OLD_FEED:
        rmtree(path, ignore_errors=ignore_errors)
    elif not ignore_errors:
        raise PermissionError(path)
