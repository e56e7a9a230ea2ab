"""Whatever is wrong with a store is found and named; a sound one is proven, also while others write."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from helix_assets.prove import verify_sessions
from helix_assets.prove.answer import Violation
from helix_assets.prove.verify import verify
from helix_assets.store.catalog import live_files, losses
from helix_assets.store.key import text_hash
from helix_assets.store.lock import writer_lock
from helix_assets.store.store import Store
from helix_assets.store.words.keep import drop_gone
from helix_assets_tests.home import Memory, ask, conversation

UID = "claude:s1"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A memory of two sessions."""
    os.umask(0o077)
    made = Memory(tmp_path)
    made.write("s1", *conversation(3))
    made.write("s2", *conversation(2, session="b"))
    made.sweep()
    yield made
    made.close()


def change(memory: Memory, table: str, **values: Any) -> None:
    """Set columns of the first session, in a table that has it."""
    key, one = ("session_id", memory.row(UID).id) if table in ("raw_files", "sources") else ("session_uid", UID)
    with memory.store.catalog.writing() as connection:
        assert connection.update(table, values, f"{key} = ?", one)


def checks(found: list[Violation]) -> set[str]:
    return {violation.check for violation in found}


def file_of(memory: Memory, uid: str = UID) -> Path:
    return memory.store.raw.path(memory.parts(uid)[0].name)


def test_swept_store_is_sound(memory: Memory) -> None:
    assert verify(memory.store) == []


def test_grown_store_is_sound(memory: Memory) -> None:
    memory.write("s1", *conversation(2, start=3), append=True)
    memory.sweep()
    assert len(ask(memory.store, live_files.parts_of, [1, 2])) == 2
    assert verify(memory.store) == []


def test_store_is_sound_whatever_becomes_of_a_log_that_is_excluded_now(memory: Memory) -> None:
    excluding = Memory(memory.folder, {"HELIX_EXCLUDE_PATHS": str(memory.projects)})
    memory.write("s1", *conversation(1))
    excluding.sweep()
    assert verify(excluding.store) == []
    excluding.close()


def test_an_eviction_that_was_interrupted_between_two_files_is_sound(memory: Memory) -> None:
    memory.write("s1", *conversation(2, start=3), append=True)
    memory.sweep()
    change(memory, "sessions", evicting_at="2026-06-20T12:00:00.000Z", evicting_reason="budget")
    file_of(memory).unlink()
    assert verify(memory.store) == []


def test_missing_file_is_named_with_its_session(memory: Memory) -> None:
    file_of(memory).unlink()
    assert [(v.check, v.session_uid) for v in verify(memory.store)] == [("row_has_file", UID)]


def test_flipped_bit_is_named_with_its_session(memory: Memory) -> None:
    path = file_of(memory)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert [(v.check, v.session_uid) for v in verify(memory.store)] == [("file_hash", UID)]


def test_cut_file_is_named_with_its_session(memory: Memory) -> None:
    os.truncate(file_of(memory), 100)
    assert [(v.check, v.session_uid) for v in verify(memory.store)] == [("file_bytes", UID)]


def test_file_without_a_row_is_named(memory: Memory) -> None:
    stray = file_of(memory).with_name("stray.parquet")
    stray.touch(mode=0o600)
    (violation,) = verify(memory.store)
    assert (violation.check, violation.path) == ("file_has_row", str(stray.relative_to(memory.store.raw.root)))


def test_leftovers_of_a_killed_writer_wait_for_the_next_one(memory: Memory) -> None:
    file_of(memory).with_name("stray.parquet").touch(mode=0o600)
    (memory.store.data_dir / "lock").write_bytes(b"{}")
    assert verify(memory.store) == []


def test_files_of_a_writer_at_work_are_none_of_our_business(memory: Memory) -> None:
    with writer_lock(memory.store.data_dir, "test"):
        (memory.store.raw.staging / "half-written").touch(mode=0o600)
        assert verify(memory.store) == []


def test_file_open_to_others_is_named(memory: Memory) -> None:
    file_of(memory).chmod(0o644)
    assert checks(verify(memory.store)) == {"private"}


@pytest.mark.parametrize(
    ("table", "values", "check"),
    [
        ("sessions", {"row_count": 1}, "row_count"),
        ("sessions", {"record_count": 1}, "record_count"),
        ("sessions", {"raw_bytes": 1}, "raw_bytes"),
        ("raw_files", {"row_count": 1}, "row_count"),
        ("raw_files", {"record_count": 1}, "record_count"),
        ("sessions", {"derived_generation": 7}, "digest_generation"),
        ("sessions", {"title": "another"}, "digest_agrees"),
        ("sessions", {"started_us": 0}, "digest_agrees"),
        ("sessions", {"day": "2025-01-01"}, "names_agree"),
        ("sources", {"path": "/elsewhere"}, "names_agree"),
        ("digests", {"outcome": "fail"}, "digest_columns"),
        ("digests", {"digest": "{}"}, "digest_hash"),
        ("digests", {"generation": 9}, "digest_generation"),
        ("sources", {"offset": 1 << 40}, "cursor_within_file"),
    ],
)
def test_wrong_value_in_the_catalog_is_named(memory: Memory, table: str, values: dict[str, Any], check: str) -> None:
    change(memory, table, **values)
    found = verify(memory.store)
    assert check in checks(found)
    assert {violation.session_uid for violation in found} == {UID}


def test_digest_that_covers_too_little_is_named(memory: Memory) -> None:
    digest = memory.digest(UID)
    digest["coverage"]["events"] -= 1
    text = orjson.dumps(digest).decode()
    change(memory, "digests", digest=text, hash=text_hash(memory.store.key, text.encode()))
    assert checks(verify(memory.store)) == {"digest_covers"}


def test_vanished_digest_is_named(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute("DELETE FROM digests WHERE session_uid = ?", (UID,))
    found = verify(memory.store)
    assert {v.session_uid for v in found} == {UID}
    assert checks(found) == {"digest_exists", "facts_of_digest"}  # what counts its facts is gone


def test_rows_of_another_session_are_named(memory: Memory) -> None:
    """Two files that swapped places have the right sizes for nobody."""
    first, second = file_of(memory), file_of(memory, "claude:s2")
    data = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(data)
    assert {violation.session_uid for violation in verify(memory.store)} == {UID, "claude:s2"}


def drop_file(memory: Memory) -> None:
    """Take the raw bytes of the first session away as an eviction would."""
    path = file_of(memory)
    number = memory.row(UID).id
    with memory.store.catalog.writing() as connection:
        live_files.drop_parts(connection, [number])
    path.unlink()
    change(memory, "sessions", evicted_at="2026-06-20T12:00:00.000Z", raw_bytes=0)
    drop_gone(memory.store)


def test_covered_session_may_be_evicted(memory: Memory) -> None:
    drop_file(memory)
    assert verify(memory.store) == []


def test_eviction_without_cover_is_named(memory: Memory) -> None:
    drop_file(memory)
    change(memory, "sessions", generation=2)
    assert checks(verify(memory.store)) == {"evicted_is_covered"}


def test_loss_record_stands_in_for_a_digest(memory: Memory) -> None:
    drop_file(memory)
    change(memory, "sessions", generation=2)
    with memory.store.catalog.writing() as connection:
        row = {"at": "", "session_uid": UID, "flavor": "claude", "day": "2026-06-05", "bytes": 1, "records": 1}
        losses.put_loss(connection, **row, generation=2, reason="overflow")
    assert verify(memory.store) == []


def test_evicted_session_with_files_is_named(memory: Memory) -> None:
    change(memory, "sessions", evicted_at="2026-06-20T12:00:00.000Z")
    assert "evicted_is_gone" in checks(verify(memory.store))


def test_file_of_a_begun_eviction_may_be_gone(memory: Memory) -> None:
    file_of(memory).unlink()
    change(memory, "sessions", evicting_at="2026-06-20T12:00:00.000Z")
    assert verify(memory.store) == []


def test_copied_history_is_stored_by_its_owner_alone(memory: Memory) -> None:
    memory.write("s3", *conversation(3), *conversation(1, start=9, session="c"))
    memory.sweep()
    assert verify(memory.store) == []
    with memory.store.catalog.writing() as connection:
        connection.execute("DELETE FROM shared_keys")
    assert [(v.check, v.session_uid) for v in verify(memory.store)] == [("record_once", UID)]


def test_gap_in_the_ledger_is_named(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute("DELETE FROM ledger")
        connection.execute("DELETE FROM ledger_news")
    assert checks(verify(memory.store)) == {"ledger_knows_records"}


def test_session_that_changed_meanwhile_is_looked_at_again(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep replaces the file between the look into the catalog and the look at the disk."""
    looks: list[int] = []

    def look(store: Store, ids: Sequence[int]) -> list[Any]:
        seen = load(store, ids)
        looks.append(len(ids))
        if len(looks) == 1:
            memory.write("s1", *conversation(1))
            memory.sweep()
        return seen

    load = verify_sessions._load
    monkeypatch.setattr(verify_sessions, "_load", look)
    assert verify(memory.store) == []
    assert looks == [2, 1]


@pytest.mark.parametrize("column", ["started_us", "ended_us", "unparsed_count"])
def test_a_number_of_the_catalog_that_is_none_names_its_session(memory: Memory, column: str) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute(f"UPDATE sessions SET {column} = 'not a number' WHERE session_uid = 'claude:s1'")
    assert "claude:s1" in {one.session_uid for one in verify(memory.store)}


def test_damaged_catalog_page_is_reported_and_does_not_raise(memory: Memory) -> None:
    memory.store.catalog.close()
    path = memory.store.catalog.path
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(os.urandom(16_384))
    assert checks(verify(memory.store)) & {"catalog_readable", "catalog_integrity"}


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("UPDATE sessions SET title = CAST(x'ff' AS TEXT)", "sessions has values that cannot be read"),
        ("UPDATE sessions SET last_row = '{'", "sessions has values that cannot be read"),
        ("UPDATE sweeps SET counters = '['", "sweeps has values that cannot be read"),
        ("UPDATE sessions SET facts = 'null'", f"the facts of {UID} are not a JSON object"),
        ("UPDATE sessions SET facts = ''", f"the facts of {UID} are not a JSON object"),
        ("UPDATE sessions SET facts = '[1]'", f"the facts of {UID} are not a JSON object"),
    ],
)
def test_values_that_cannot_be_read_are_named(memory: Memory, statement: str, what: str) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute(statement)
    assert what in {violation.what for violation in verify(memory.store) if violation.check == "catalog_integrity"}
