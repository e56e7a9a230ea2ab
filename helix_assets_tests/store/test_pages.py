"""The catalog's file falls with what is in it, also one that was made before it could; and no freed byte is left."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from helix_assets.keep import evict
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.store.catalog import pages
from helix_assets.store.catalog.catalog import Catalog, create_catalog
from helix_assets.store.lock import writer_lock
from helix_assets_tests.home import NOW, Memory, conversation

TEXT = "what an evicted session said " * 40


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    with writer_lock(tmp_path, "create"):
        create_catalog(tmp_path)
    catalog = Catalog(tmp_path / "helix.db")
    fill(catalog)
    yield catalog
    catalog.close()


def fill(catalog: Catalog, count: int = 3_000) -> None:
    with catalog.writing() as connection:
        connection.insert("meta", [{"name": f"n{n}", "value": TEXT} for n in range(count)])
    pages.truncate_log(catalog)


def empty(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        connection.execute("DELETE FROM meta WHERE value = ?", (TEXT,))
    pages.truncate_log(catalog)


def size(catalog: Catalog) -> int:
    return catalog.path.stat().st_size


def as_made_before(catalog: Catalog) -> None:
    """A catalog of a version that could not shrink in steps."""
    with catalog.connection() as connection:
        connection.execute("PRAGMA auto_vacuum=NONE")
        connection.execute("VACUUM")
    catalog._close_idle()


def test_file_falls_with_what_is_in_it(catalog: Catalog) -> None:
    before = size(catalog)
    empty(catalog)
    assert (size(catalog), pages.shrink(catalog) > 700) == (before, True)
    assert pages.truncate_log(catalog)
    assert size(catalog) < before / 5


def test_file_made_before_falls_too_and_in_steps_from_then_on(catalog: Catalog) -> None:
    as_made_before(catalog)
    before = size(catalog)
    for _ in range(2):
        empty(catalog)
        assert pages.shrink(catalog) > 700
        pages.truncate_log(catalog)
        assert size(catalog) < before / 5
        fill(catalog)


def test_file_made_before_stays_where_there_is_no_room_to_rewrite_it(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(NamedTuple):
        free: int

    as_made_before(catalog)
    empty(catalog)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Full(size(catalog)))
    assert pages.shrink(catalog) == 0


def test_few_free_pages_are_kept_for_what_comes_next(catalog: Catalog) -> None:
    with catalog.writing() as connection:
        connection.run_for("DELETE FROM meta WHERE name IN ({})", [f"n{n}" for n in range(100)])
    assert pages.shrink(catalog) == 0


def test_readers_are_not_disturbed(catalog: Catalog) -> None:
    with catalog.reading() as connection:
        names = connection.column("SELECT name FROM meta")
        empty(catalog)
        pages.shrink(catalog)
        assert connection.column("SELECT name FROM meta") == names


def test_eviction_makes_the_database_smaller(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    for number in range(20):
        memory.write(f"s{number}", *conversation(2, session=f"s{number}-"))
    memory.sweep()
    with memory.store.catalog.writing() as connection:
        state = {"held": "a text that a parser keeps until the next line " * 2_000}
        connection.update("sources", {"parser_state": state}, "true")
    pages.truncate_log(memory.store.catalog)
    before = size(memory.store.catalog)
    evict.apply(memory.store, clock=lambda: NOW, policy=RetentionPolicy(1, 1 << 40, 45, 1 << 40))
    assert size(memory.store.catalog) < before / 3
    assert b"a text that a parser keeps" not in memory.store.catalog.path.read_bytes()
    memory.close()
