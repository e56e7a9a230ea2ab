"""A catalog of an older version is upgraded, and what it did not contain is made again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from helix_assets.prove.verify import verify
from helix_assets.store.catalog import live_files, meta
from helix_assets.store.catalog.catalog import open_catalog
from helix_assets.store.catalog.schema import CATALOG_VERSION, upgrade
from helix_assets.store.store import open_store
from helix_assets_tests.home import Memory, conversation


@pytest.fixture
def memory_of_version_1(tmp_path: Path) -> Memory:
    """A swept memory as it was before there were facts."""
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(2))
    memory.sweep()
    with memory.store.catalog.writing() as connection:
        connection.execute("DROP TABLE fact_files")
        connection.execute("UPDATE sessions SET derivation_version = 1")
        meta.put(connection, "catalog_version", "1")
        meta.put(connection, "settled", "by older rules")
    memory.close()
    shutil.rmtree(memory.store.facts.root)
    return memory


def test_older_catalog_is_upgraded_at_open(memory_of_version_1: Memory) -> None:
    catalog = open_catalog(memory_of_version_1.store.data_dir)
    with catalog.reading() as connection:
        assert meta.value(connection, "catalog_version") == str(CATALOG_VERSION)
        assert live_files.fact_files(connection) == []
    catalog.close()


def test_next_sweep_makes_the_facts_that_were_not_kept_then(memory_of_version_1: Memory) -> None:
    memory = memory_of_version_1
    memory.store = open_store(memory.store.settings)
    memory.sweep()
    assert {"tool_calls", "token_usage", "messages"} <= {file.fact for file in memory.fact_files()}
    assert verify(memory.store) == []
    memory.close()


def test_fact_files_of_version_11_stay_live_and_recent_ones_can_join_them(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(2))
    memory.sweep()
    before = memory.fact_files()
    columns = "fact, flavor, day, version, name, bytes, hash, row_count"
    with memory.store.catalog.writing() as connection:
        connection.execute("ALTER TABLE fact_files RENAME TO newer")
        connection.execute(f"CREATE TABLE fact_files (id INTEGER PRIMARY KEY, {columns}, UNIQUE (fact, flavor, day))")
        connection.execute(f"INSERT INTO fact_files ({columns}) SELECT {columns} FROM newer")
        connection.execute("DROP TABLE newer")
        meta.put(connection, "catalog_version", "11")
    memory.close()
    later = Memory(tmp_path)
    assert later.fact_files() == before
    with later.store.catalog.writing() as connection:
        live_files.put_fact_files(connection, [before[0]._replace(name="recent", is_recent=True)], [])
    assert len(later.fact_files()) == len(before) + 1


def test_upgrade_that_two_begin_is_done_once(memory_of_version_1: Memory) -> None:
    catalog = open_catalog(memory_of_version_1.store.data_dir)
    with catalog.writing() as connection:
        upgrade(connection, 1)
        assert live_files.fact_files(connection) == []
    catalog.close()
