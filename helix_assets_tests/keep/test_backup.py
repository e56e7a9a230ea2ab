"""A copy of the memory is proven before it counts, made by itself once a day, and never outlives what must go."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from helix_assets.keep.backup import FACTS, MANIFEST, copies, make_copy, void_older_copies, wrong_in_copy
from helix_assets.model.errors import StoreError
from helix_assets.prove.verify import verify
from helix_assets.settings import load_settings
from helix_assets.store.store import open_store
from helix_assets_tests.home import Memory, conversation

DAY = timedelta(days=1)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A memory of one session; its first sweep made the first copy."""
    os.umask(0o077)
    made = Memory(tmp_path)
    made.write("s1", *conversation(3))
    made.sweep()
    yield made
    made.close()


def grow(memory: Memory, turn: int, days: float = 0) -> None:
    memory.now += timedelta(days=days)
    memory.write("s1", *conversation(1, start=turn), append=True)
    memory.sweep()


def numbers(memory: Memory) -> list[int]:
    return [copy.number for copy in copies(memory.store.settings)]


def folder(memory: Memory) -> Path:
    settings = memory.store.settings
    return settings.backup_dir / copies(settings)[-1].generation


def with_variables(memory: Memory, **variables: str) -> None:
    """Open the same store under other settings."""
    home = memory.folder / "home"
    environ = {"HOME": str(home), "HELIX_DATA_DIR": str(memory.folder / "data"), "HELIX_SWEEP_WORKERS": "1"}
    environ |= {"CLAUDE_CONFIG_DIR": str(home / "claude"), **variables}
    memory.store.close()
    memory.store = open_store(load_settings(environ))


def test_first_sweep_makes_a_private_and_sound_copy(memory: Memory) -> None:
    made = folder(memory)
    assert wrong_in_copy(made) == []
    assert {path.stat().st_mode & 0o077 for path in [made.parent, made, *made.rglob("*")]} == {0}
    assert verify(memory.store) == []


def test_a_copy_holds_digests_key_and_facts_but_no_raw_text_of_parsers(memory: Memory) -> None:
    with closing(sqlite3.connect(folder(memory) / "helix.db")) as copy:
        assert copy.execute("select count(*) from digests").fetchone() == (1,)
        assert copy.execute("select count(*) from sources where parser_state is not null").fetchone() == (0,)
    names = {path.name for path in folder(memory).iterdir()}
    assert names == {"helix.db", "key", FACTS, MANIFEST}


def test_a_second_copy_waits_for_a_day_and_for_news(memory: Memory) -> None:
    grow(memory, 3)
    assert numbers(memory) == [1]
    grow(memory, 4, days=1)
    memory.now += 3 * DAY
    memory.sweep()
    assert numbers(memory) == [1, 2]


def test_a_clock_that_was_set_back_does_not_keep_copies_from_being_made(memory: Memory) -> None:
    grow(memory, 3, days=-3650)
    assert numbers(memory) == [1, 2]


def test_only_so_many_copies_are_kept(memory: Memory) -> None:
    with_variables(memory, HELIX_BACKUP_KEEP="2")
    for turn in (3, 4, 5):
        grow(memory, turn, days=1)
    assert numbers(memory) == [3, 4]


def test_no_copy_is_made_by_itself_where_that_is_off(memory: Memory) -> None:
    with_variables(memory, HELIX_BACKUP_SCHEDULE="off")
    grow(memory, 3, days=2)
    assert numbers(memory) == [1]


def test_copies_lie_where_the_settings_say(memory: Memory, tmp_path: Path) -> None:
    with_variables(memory, HELIX_BACKUP_DIR=str(tmp_path / "elsewhere"))
    grow(memory, 3)
    assert folder(memory).parent == tmp_path / "elsewhere"


def test_another_stores_copies_are_let_be(memory: Memory, tmp_path: Path) -> None:
    shared = {"HELIX_BACKUP_DIR": str(memory.folder / "data" / "backup"), "HELIX_BACKUP_KEEP": "1"}
    other = Memory(tmp_path / "other", shared)
    other.write("s9", *conversation(1, session="z"))
    other.sweep()
    other.close()
    assert numbers(memory) == [1, 2]


def test_a_damaged_memory_makes_no_copy_and_costs_none(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE digests SET digest = '{}'")
    with pytest.raises(StoreError, match="the digest of claude:s1 is damaged"):
        make_copy(memory.store, memory.now + DAY)
    assert os.listdir(memory.store.settings.backup_dir) == [copies(memory.store.settings)[-1].generation]


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE sessions SET title = CAST(x'ff' AS TEXT)", "sessions has values that cannot be read"),
        ("UPDATE digests SET digest = CAST(x'ff' AS TEXT)", "digests has values that cannot be read"),
        ("UPDATE sessions SET facts = 'null'", "the facts of claude:s1 are not a JSON object"),
    ],
)
def test_what_a_restore_could_not_read_is_never_proven(memory: Memory, statement: str, what: str) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute(statement)
    with pytest.raises(StoreError, match=what):
        make_copy(memory.store, memory.now + DAY)
    assert numbers(memory) == [1]


def test_a_copy_of_an_earlier_version_is_proven(memory: Memory) -> None:
    with closing(sqlite3.connect(folder(memory) / "helix.db")) as copy, copy:
        for table in ("session_keys", "hook_events", "evictions"):
            copy.execute(f"DROP TABLE {table}")
        copy.execute("UPDATE meta SET value = '5' WHERE name = 'catalog_version'")
    before = (folder(memory) / "helix.db").read_bytes()
    assert wrong_in_copy(folder(memory)) == []
    assert (folder(memory) / "helix.db").read_bytes() == before
    assert {path.name for path in folder(memory).iterdir()} == {"helix.db", "key", FACTS, MANIFEST}


@pytest.mark.parametrize(("name", "place"), [("helix.db", b'"session_uid"'), (FACTS, b"PAR1"), (FACTS, b"PK\1\2")])
def test_a_flipped_byte_in_a_copy_is_found(memory: Memory, name: str, place: bytes) -> None:
    path = folder(memory) / name
    data = bytearray(path.read_bytes())
    data[data.index(place)] ^= 1
    path.write_bytes(data)
    assert wrong_in_copy(folder(memory))


def test_a_full_disk_costs_no_sweep(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("helix_assets.keep.backup.sync", full)
    grow(memory, 3, days=1)
    assert numbers(memory) == [1]
    assert os.listdir(memory.store.settings.backup_dir) == [copies(memory.store.settings)[-1].generation]


def test_what_a_killed_copy_left_is_gone_with_the_next(memory: Memory) -> None:
    (memory.store.settings.backup_dir / ".new").mkdir()
    (memory.store.settings.backup_dir / ".new" / "helix.db").touch()
    grow(memory, 3, days=1)
    assert len(os.listdir(memory.store.settings.backup_dir)) == 2


def test_new_redaction_rules_drop_the_copies_made_by_the_old_ones(memory: Memory) -> None:
    grow(memory, 3, days=1)
    rule = "[{name = 'steps', pattern = 'please do step (\\d)'}]"
    with_variables(memory, HELIX_REDACTION_RULES=rule)
    memory.sweep()
    assert numbers(memory) == [3]


def test_what_a_killed_drop_left_goes_with_the_next_copy(memory: Memory) -> None:
    left = folder(memory)
    (left / MANIFEST).unlink()
    make_copy(memory.store, memory.now + DAY)
    assert not left.exists()
    assert len(numbers(memory)) == 1


def test_an_erased_session_leaves_with_the_older_copies(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        void_older_copies(connection)
    memory.sweep()
    memory.sweep()
    assert numbers(memory) == [2]


def test_a_sweep_without_news_reads_nothing_of_the_copies_but_their_labels(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("helix_assets.keep.backup.make_copy", lambda *_: pytest.fail("a copy was made"))
    memory.now += 5 * DAY
    memory.sweep()
    assert numbers(memory) == [1]
