"""Errors of a catalog say what is wrong with it, and nobody else's; no connection serves an old snapshot."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from helix_assets.model.errors import BusyError, NoAccessError, StoreError
from helix_assets.store.catalog import meta
from helix_assets.store.catalog.catalog import Catalog, create_catalog, open_catalog
from helix_assets.store.catalog.connection import connect, plainly
from helix_assets_tests.home import Memory, can_lose_powers, conversation, without_powers

NOT_UTF8 = "CAST(x'6f6464ff' AS TEXT)"


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    create_catalog(tmp_path)
    made = open_catalog(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("kind", "value"),
    [("TEXT", NOT_UTF8), ("JSON", NOT_UTF8), ("JSON", "'odd'"), ("JSON", f"'{'[' * 100_000}'")],
    ids=["text", "bytes", "no JSON", "depth"],
)
def test_a_value_that_cannot_be_read_is_damage_and_not_quoted(catalog: Catalog, kind: str, value: str) -> None:
    with catalog.writing() as connection:
        connection.execute(f"CREATE TABLE made_here (value {kind})")
        connection.execute(f"INSERT INTO made_here VALUES ({value})")
    with pytest.raises(StoreError, match="a value in it is damaged") as caught, catalog.reading() as connection:
        connection.rows("SELECT * FROM made_here")
    assert "odd" not in f"{caught.value}{caught.value.__cause__}"


def test_json_that_sqlite_cannot_read_is_damage(catalog: Catalog) -> None:
    with pytest.raises(StoreError, match="malformed JSON"), catalog.reading() as connection:
        connection.value("SELECT json_extract('{', '$.a')")


@pytest.mark.parametrize("read", [lambda: json.loads("{"), b"\xff".decode], ids=["JSON", "text"])
def test_an_error_of_the_reader_is_not_blamed_on_the_catalog(catalog: Catalog, read: Callable[[], object]) -> None:
    with pytest.raises((json.JSONDecodeError, UnicodeDecodeError)), catalog.reading():
        read()


@pytest.mark.parametrize("statement", ["SELEC 1", "SELECT nowhere FROM meta", "SELECT 1 FROM nowhere"])
def test_a_wrong_statement_is_no_damage(catalog: Catalog, statement: str) -> None:
    with pytest.raises(sqlite3.OperationalError), catalog.reading() as connection:
        connection.execute(statement)


def test_a_locked_catalog_is_tried_again(catalog: Catalog) -> None:
    with closing(sqlite3.connect(catalog.path, isolation_level=None)) as other, catalog.connection() as connection:
        connection.execute("PRAGMA busy_timeout=1")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError, match="another program keeps it locked"), plainly(catalog.path, "written"):
            meta.put(connection, "x", "y")


def test_a_catalog_that_may_not_be_opened_is_not_called_damaged(tmp_path: Path) -> None:
    (tmp_path / "helix.db").mkdir()
    with pytest.raises(NoAccessError) as caught:
        open_catalog(tmp_path)
    assert "damaged" not in str(caught.value)


def test_a_catalog_that_is_held_exclusively_is_not_called_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("helix_assets.store.catalog.connection._PATIENCE_S", 0)
    create_catalog(tmp_path)
    with closing(sqlite3.connect(tmp_path / "helix.db", isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(BusyError):
            open_catalog(tmp_path)


@pytest.mark.skipif(not can_lose_powers, reason="needs setpriv to lose the rights of root")
@pytest.mark.parametrize("is_open", [True, False])
def test_readers_where_nothing_can_be_written_answer_or_say_why(tmp_path: Path, is_open: bool) -> None:
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(1))
    memory.sweep()
    memory.close()
    folder = memory.store.data_dir
    with closing(connect(folder / "helix.db")) as writer:
        writer.rows("SELECT * FROM meta")
        if not is_open:
            writer.close()  # the last one takes the log with it
        files = [path for path in folder.iterdir() if path.name.startswith("helix.db")]
        for path in files:
            path.chmod(0o400)
        folder.chmod(0o500)
        try:
            ended = without_powers(memory.variables, "sessions")
        finally:
            folder.chmod(0o700)
    assert (ended.returncode, b"claude:s1" in ended.stdout) == ((0, True) if is_open else (65, False)), ended.stderr
    assert b"damaged" not in ended.stderr
    assert is_open or b"read-only" in ended.stderr


def test_a_read_that_goes_on_does_not_hide_what_is_committed(catalog: Catalog) -> None:
    with closing(open_catalog(catalog.path.parent)) as other:
        with other.writing() as connection:
            for number in range(500):
                meta.put(connection, str(number), "old")
        with catalog.reading() as connection:
            kept = connection.execute("SELECT name, value FROM meta ORDER BY rowid")
            next(kept)
        with other.writing() as connection:
            meta.put(connection, "1", "new")
        with catalog.reading() as connection:
            assert meta.value(connection, "1") == "new"
        with pytest.raises(sqlite3.ProgrammingError):
            next(kept)


def test_a_closed_catalog_says_so(catalog: Catalog) -> None:
    with catalog.reading():
        catalog.close()
    for use in (catalog.change, lambda: catalog.reading().__enter__(), lambda: catalog.writing().__enter__()):
        with pytest.raises(StoreError, match="is closed"):
            use()
    assert catalog._idle == []
