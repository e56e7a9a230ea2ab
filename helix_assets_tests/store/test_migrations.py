"""A catalog of an older version is upgraded, and what it did not contain is made again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sqlalchemy import create_engine, inspect, update

from helix_assets.prove.verify import verify
from helix_assets.store.catalog.catalog import open_catalog
from helix_assets.store.catalog.schema import CATALOG_VERSION, MIGRATIONS, fact_files, sessions
from helix_assets.store.store import open_store
from helix_assets_tests.home import Memory, conversation


@pytest.fixture
def memory_of_version_1(tmp_path: Path) -> Memory:
    """A swept memory as it was before there were facts."""
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(2))
    memory.sweep()
    with memory.store.catalog.writing() as connection:
        fact_files.drop(connection)
        connection.execute(update(sessions).values(derivation_version=1))
        memory.store.catalog.set_meta(connection, "catalog_version", "1")
        memory.store.catalog.set_meta(connection, "settled", "by older rules")
    memory.close()
    shutil.rmtree(memory.store.facts.root)
    return memory


def test_first_step_makes_the_first_version(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'first.db'}")
    with engine.begin() as connection:
        MIGRATIONS[0](connection)
    tables = set(inspect(engine).get_table_names())
    engine.dispose()
    assert "sessions" in tables
    assert "fact_files" not in tables


def test_older_catalog_is_upgraded_at_open(memory_of_version_1: Memory) -> None:
    catalog = open_catalog(memory_of_version_1.store.data_dir)
    assert catalog.meta_value("catalog_version") == str(CATALOG_VERSION)
    assert catalog.fact_files() == []
    catalog.close()


def test_next_sweep_makes_the_facts_that_were_not_kept_then(memory_of_version_1: Memory) -> None:
    memory = memory_of_version_1
    memory.store = open_store(memory.store.settings)
    memory.sweep()
    assert {"tool_calls", "token_usage", "messages"} <= {file.fact for file in memory.store.catalog.fact_files()}
    assert verify(memory.store) == []
    memory.close()


def test_upgrade_that_two_begin_is_done_once(memory_of_version_1: Memory) -> None:
    catalog = open_catalog(memory_of_version_1.store.data_dir)
    for step in MIGRATIONS[1:]:
        with catalog.writing() as connection:
            step(connection)
    assert catalog.fact_files() == []
    catalog.close()
