"""`helix verify --secrets` reads every stored byte."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from helix_assets.keep.backup import make_copy
from helix_assets.prove.verify_secrets import Survivor, surviving_secrets
from helix_assets.store.lock import writer_lock
from helix_assets.store.parquet import SessionWriter, read_rows
from helix_assets_tests.home import Memory, call, conversation, prompt
from helix_assets_tests.redaction.made_up import made_up

KEY = made_up("ghp_{an36}", 1)
CANARY = 'a "quoted" word nobody says'


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path, {"HELIX_AGENTS": "claude"})
    text = f"the key is {KEY}, keep it; {CANARY}"
    made.write("s1", prompt("p1", "10:00:00", text), call("c1", "10:00:01", "Read", "t1", file_path="/a/b.py"))
    made.write("s2", *conversation(2, session="b"))
    made.sweep()
    yield made
    made.close()


def places(memory: Memory) -> set[str]:
    return {survivor.place for survivor in surviving_secrets(memory.store)}


def list_canary(memory: Memory, text: str) -> None:
    (memory.store.data_dir / "canaries.txt").write_text(f"something else\n\n{text}\n")


def test_what_a_sweep_stores_has_no_survivors(memory: Memory) -> None:
    assert surviving_secrets(memory.store) == []


def test_canary_is_found_in_rows_digests_and_names_with_the_session(memory: Memory) -> None:
    list_canary(memory, CANARY)
    found = surviving_secrets(memory.store)
    (row,) = (survivor for survivor in found if survivor.place.startswith("raw/"))
    assert row == Survivor("the text of line 3 of canaries.txt", "claude:s1", row.place)
    assert Survivor(row.what, "claude:s1", "helix.db, table digests, column digest") in found
    assert not any(CANARY in text for survivor in found for text in survivor if text)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_canaries_are_found_whatever_editor_wrote_their_list(memory: Memory, mark: str, end: str) -> None:
    path = memory.store.data_dir / "canaries.txt"
    path.write_bytes(f"{mark}{CANARY}{end}one\u2028line{end}/a/b.py".encode())
    found = {survivor.what for survivor in surviving_secrets(memory.store)}
    assert found == {"the text of line 1 of canaries.txt", "the text of line 3 of canaries.txt"}


def test_canary_is_found_in_facts(memory: Memory) -> None:
    list_canary(memory, "/a/b.py")
    assert "memory/file_operations/flavor=claude/day=2026-06-05.1.parquet, column file_path" in places(memory)


@pytest.mark.parametrize("is_outside", [False, True])
def test_canary_is_found_in_the_facts_of_a_copy(memory: Memory, tmp_path: Path, is_outside: bool) -> None:
    if is_outside:
        settings = memory.store.settings
        backup = replace(settings.backup, dir=str(tmp_path / "elsewhere"))
        memory.store = replace(memory.store, settings=replace(settings, backup=backup))
    copy = make_copy(memory.store, memory.now)
    list_canary(memory, "/a/b.py")
    place = memory.store.settings.backup_dir / copy.generation / "memory.zip"
    assert any(str(place).endswith(found.partition(",")[0]) for found in places(memory) if "zip" in found)


def test_a_file_that_a_writer_is_at_work_on_is_no_damaged_one(memory: Memory) -> None:
    fresh = next(memory.store.facts.root.rglob("*.parquet")).with_name("day=2026-06-05.99.parquet")
    fresh.write_bytes(b"PAR1 half of it")
    with writer_lock(memory.store.data_dir, "test"):
        assert surviving_secrets(memory.store) == []
    assert [survivor.what for survivor in surviving_secrets(memory.store)] == ["cannot be searched (StoreError)"]


def test_canary_list_is_not_searched_itself(memory: Memory) -> None:
    list_canary(memory, "nowhere else to be found")
    assert surviving_secrets(memory.store) == []


def test_key_in_a_stored_row_is_found(memory: Memory) -> None:
    (part,) = memory.parts("claude:s2")
    path = memory.store.raw.path(part.name)
    rows = list(read_rows([path], raw=True))
    writer = SessionWriter(path, "claude:s2", memory.store.key)
    writer.add([rows[0]._replace(raw=f'{{"text": "{KEY}"}}'.encode()), *rows[1:]])
    writer.close()
    place = f"raw/{part.name}"
    assert surviving_secrets(memory.store) == [Survivor("a secret by the rules in force", "claude:s2", place)]


@pytest.mark.parametrize("place", ["hub/note.md", "dagster/logs/run.out", "anything.json"])
def test_key_in_a_file_is_found(memory: Memory, place: str) -> None:
    path = memory.store.data_dir / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x\n" * 600_000 + KEY)  # beyond the first block that is read
    assert places(memory) == {place}


def test_numbers_of_the_search_index_are_no_secrets(memory: Memory) -> None:
    segment = memory.store.data_dir / "search" / "00000099.words"
    segment.write_bytes(b"\x01\x02" + KEY.encode() + b"\xff")  # as chance may spell it
    assert surviving_secrets(memory.store) == []
    list_canary(memory, KEY)
    assert "search/00000099.words" in places(memory)


def test_key_in_any_database_is_found(memory: Memory) -> None:
    path = memory.store.data_dir / "dagster" / "runs.db"
    path.parent.mkdir()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute('create table "odd "" name" (session_uid text, body text)')
        connection.execute('insert into "odd "" name" values (?, ?)', ("claude:s1", f"token {KEY}"))
    assert surviving_secrets(memory.store) == [
        Survivor("a secret by the rules in force", "claude:s1", 'dagster/runs.db, table odd " name, column body')
    ]


def test_key_in_the_name_of_a_file_is_found_and_not_shown(memory: Memory) -> None:
    (memory.store.data_dir / f"{KEY}.txt").touch()
    (survivor,) = surviving_secrets(memory.store)
    assert survivor.place == "the name of a file"


def test_damaged_file_is_reported(memory: Memory) -> None:
    (memory.store.data_dir / "raw" / "x.parquet").write_bytes(b"no parquet")
    (survivor,) = surviving_secrets(memory.store)
    assert survivor.what.startswith("cannot be searched")
