"""New redaction rules reach what restores set aside, without a byte of it being deleted that they do not hide."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from helix_assets.keep.restore import choose_copy, restore
from helix_assets.prove.verify_secrets import surviving_secrets
from helix_assets.settings import load_settings
from helix_assets.store.before_restore import BeforeRestore, read_before_restore
from helix_assets.store.key import load_key, text_hash
from helix_assets.store.parquet import read_rows
from helix_assets.store.raw import file_hash
from helix_assets.store.store import open_store
from helix_assets.sweep import rescan_folders
from helix_assets.sweep.rescan_folders import redact_before_restore
from helix_assets_tests.home import Memory, call, conversation, prompt, result
from helix_assets_tests.sweep.test_rescan import WORD, with_new_rules

FAILED = result("r2", "11:00:02", "toolu_2", f"Error: {WORD} is not there", failed=True)


def session_text(name: str) -> list[bytes]:
    """A session that says the word in its text, branch, command, error and path."""
    asked = prompt(f"p{name}", "11:00:00", f"the word is {WORD}", gitBranch=f"fix-{WORD}")
    return [asked, call(f"c{name}", "11:00:01", "Bash", "toolu_2", command=f"cat {WORD}"), FAILED]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A store put back from a copy: what it was lies aside, with two sessions that the copy does not know."""
    os.umask(0o077)
    made = Memory(tmp_path, {"HELIX_AGENTS": "claude"})
    made.write("s1", *session_text("1"))
    made.sweep()
    made.write("s2", *session_text("2"))
    made.write(f"{WORD}x", *conversation(1, session="c"))
    made.sweep()
    made.close()
    settings = made.store.settings
    restore(settings, choose_copy(settings), made.now)
    made.store = open_store(settings)
    yield made
    made.close()


def folder_of(memory: Memory) -> Path:
    (folder,) = (memory.store.data_dir / "set-aside").iterdir()
    return folder


def files_that_say(root: Path, word: str) -> set[str]:
    """Every file below that holds the word in its name, its bytes, or its rows."""
    found = set()
    for path in (path for path in root.rglob("*") if path.is_file()):
        data = path.read_bytes()
        if path.suffix == ".parquet" and data[:4] == b"PAR1" == data[-4:]:
            data += repr(pq.ParquetFile(path).read(use_threads=False).to_pylist()).encode()
        if word.encode() in data + str(path).encode():
            found.add(str(path.relative_to(root)))
    return found


def places(memory: Memory) -> set[str]:
    return {found.place.partition(",")[0] for found in surviving_secrets(memory.store)}


def parts(folder: Path) -> list[Path]:
    return sorted((folder / "raw").rglob("*.parquet"))


def test_no_byte_below_the_data_folder_keeps_what_new_rules_hide(memory: Memory) -> None:
    folder = folder_of(memory)
    before = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    held = files_that_say(folder, WORD)
    assert {"helix.db", *(str(path.relative_to(folder)) for path in parts(folder)[:1])} <= held
    assert {name.partition("/")[0] for name in held} == {"helix.db", "memory", "raw"}
    with_new_rules(memory)
    memory.sweep()
    assert files_that_say(memory.store.data_dir, WORD[:-4]) == set()
    after = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    assert after - before == {Path(rescan_folders.NOTE), Path("lock")} & after
    assert before - after <= {Path("helix.db-wal"), Path("helix.db-shm")}


def test_verify_finds_it_in_catalog_facts_and_parts_before_and_nothing_after(memory: Memory) -> None:
    folder = folder_of(memory)
    with_new_rules(memory)
    named = {
        str(Path(place).relative_to(f"set-aside/{folder.name}")) for place in places(memory) if "set-aside" in place
    }
    assert named == files_that_say(folder, WORD)
    memory.sweep()
    assert surviving_secrets(memory.store) == []


def test_what_is_only_in_the_log_of_a_catalog_is_found_and_redacted(memory: Memory) -> None:
    catalog = folder_of(memory) / "helix.db"
    log = catalog.with_name("helix.db-wal")
    with closing(sqlite3.connect(catalog)) as connection:
        connection.execute("insert into meta values ('x', 'quokkaword1234 here')")
        connection.commit()
        files = {path: path.read_bytes() for path in (catalog, log)}
    for path, data in files.items():
        path.write_bytes(data)
    assert b"quokkaword1234 here" in log.read_bytes()
    assert b"quokkaword1234 here" not in catalog.read_bytes()
    with_new_rules(memory)
    assert any(found.place.endswith("helix.db, table meta, column value") for found in surviving_secrets(memory.store))
    memory.sweep()
    assert not log.exists()
    with closing(sqlite3.connect(catalog)) as connection:
        (text,) = connection.execute("select value from meta where name = 'x'").fetchone()
    assert text.startswith("[redacted:house_word:")
    assert text.endswith("] here")


def test_log_without_its_catalog_is_searched_and_told(memory: Memory) -> None:
    folder = folder_of(memory)
    (folder / "helix.db").unlink()
    (folder / "helix.db-wal").write_bytes(b"\0" * 40 + WORD.encode())
    with_new_rules(memory)
    assert f"set-aside/{folder.name}/helix.db-wal" in places(memory)
    assert [path for path, _ in memory.sweep().problems] == [f"set-aside/{folder.name}/helix.db"]
    assert not (folder / "helix.db").exists()


def test_what_was_set_aside_still_proves_itself(memory: Memory) -> None:
    folder = folder_of(memory)
    rows = sum(len(list(read_rows([path], raw=True))) for path in parts(folder))
    with_new_rules(memory)
    memory.sweep()
    key = load_key(folder)
    with closing(sqlite3.connect(folder / "helix.db")) as connection:
        digests = connection.execute("select session_uid, digest, hash from digests").fetchall()
        raw = dict(connection.execute("select name, hash from raw_files").fetchall())
        facts = dict(connection.execute("select name, hash from fact_files").fetchall())
    assert len(digests) == 3
    assert all(text_hash(key, text.encode()) == mark for _, text, mark in digests)
    assert all(file_hash(path, key) == raw[str(path.relative_to(folder / "raw"))] for path in parts(folder))
    assert all(file_hash(folder / "memory" / name, key) == mark for name, mark in facts.items())
    assert sum(len(list(read_rows([path], raw=True))) for path in parts(folder)) == rows


def test_sessions_keep_one_name_in_catalog_facts_and_rows(memory: Memory) -> None:
    folder = folder_of(memory)
    with_new_rules(memory)
    memory.sweep()
    with closing(sqlite3.connect(folder / "helix.db")) as connection:
        known = {uid for (uid,) in connection.execute("select session_uid from sessions")}
        assert {uid for (uid,) in connection.execute("select session_uid from digests")} == known
    files = list(folder.rglob("*.parquet"))
    told = {uid for path in files for uid in pq.ParquetFile(path).read().column("session_uid").to_pylist()}
    assert told == known
    assert sum("house_word" in uid for uid in known) == 1


def test_one_sweep_goes_through_a_bounded_part_and_status_says_how_far(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = with_new_rules(memory)
    monkeypatch.setattr("helix_assets.sweep.sweep.RESCAN_BYTES", 1)
    assert read_before_restore(store) == BeforeRestore(1, 1, [])
    files = len(list(folder_of(memory).rglob("*.parquet"))) + 1
    for _ in range(files):
        assert read_before_restore(store) == BeforeRestore(1, 1, [])
        memory.sweep()
    assert read_before_restore(store) == BeforeRestore(1, 0, [])
    assert files_that_say(store.data_dir, WORD) == set()


@pytest.mark.parametrize("step", ["sync", "_put_in_place", "rewrite", "replace_file"])
def test_killed_at_any_step_it_is_done_again(memory: Memory, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """What was committed for a file that was not put in its place yet is true once it is."""

    class KilledError(BaseException):
        pass

    def kill(*_: object) -> None:
        raise KilledError

    store = with_new_rules(memory)
    with monkeypatch.context() as patch:
        patch.setattr(f"helix_assets.sweep.rescan_folders.{step}", kill)
        with pytest.raises(KilledError):
            redact_before_restore(store, 1 << 40)
    assert read_before_restore(store).waiting == 1
    memory.sweep()
    assert read_before_restore(store) == BeforeRestore(1, 0, [])
    test_what_was_set_aside_still_proves_itself(memory)
    assert files_that_say(store.data_dir, WORD) == set()


def test_damaged_files_stay_are_told_once_and_named_until_they_go(memory: Memory) -> None:
    folder = folder_of(memory)
    damaged = parts(folder)[0]
    damaged.write_bytes(damaged.read_bytes()[:-9])
    (folder / "helix.db").write_bytes(b"no database")
    before = damaged.read_bytes()
    names = [str(damaged.relative_to(memory.store.data_dir)), f"set-aside/{folder.name}/helix.db"]
    store = with_new_rules(memory)
    assert [path for path, _ in memory.sweep().problems] == names
    assert memory.sweep().problems == []
    assert read_before_restore(store) == BeforeRestore(1, 0, names)
    assert damaged.read_bytes() == before
    assert [(found.what, found.place) for found in surviving_secrets(store)] == [
        ("cannot be searched (StoreError)", names[0])
    ]
    assert files_that_say(store.data_dir, WORD) <= {names[0]}


def test_file_of_other_columns_costs_no_sweep(memory: Memory) -> None:
    path = folder_of(memory) / "raw" / "other.parquet"
    pq.write_table(pa.table({"other": ["x"]}), path)
    store = with_new_rules(memory)
    memory.sweep()
    assert read_before_restore(store) == BeforeRestore(1, 0, [str(path.relative_to(store.data_dir))])


def test_full_disk_leaves_it_to_the_next_sweep(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    store = with_new_rules(memory)
    with monkeypatch.context() as patch:
        patch.setattr("helix_assets.sweep.rescan_folders._has_room", lambda *_: False)
        assert redact_before_restore(store, 1 << 40) == []
        assert read_before_restore(store) == BeforeRestore(1, 1, [])
        patch.setattr("helix_assets.sweep.rescan_folders.replace_file", failing)
        assert redact_before_restore(store, 1 << 40) == []
    memory.sweep()
    assert read_before_restore(store) == BeforeRestore(1, 0, [])


def failing(*_: object) -> None:
    raise OSError(errno.ENOSPC, "no space left")


def test_part_that_is_not_what_was_written_is_not_proven_anew(memory: Memory) -> None:
    folder = folder_of(memory)
    with closing(sqlite3.connect(folder / "helix.db")) as connection:
        connection.execute("update raw_files set hash = 'of other bytes'")
        connection.commit()
    with_new_rules(memory)
    memory.sweep()
    with closing(sqlite3.connect(folder / "helix.db")) as connection:
        assert connection.execute("select distinct hash from raw_files").fetchall() == [("of other bytes",)]
    assert files_that_say(folder, WORD) == set()


def test_without_its_key_it_is_redacted_all_the_same(memory: Memory) -> None:
    (folder_of(memory) / "key").unlink()
    with_new_rules(memory)
    memory.sweep()
    assert files_that_say(memory.store.data_dir, WORD) == set()


def test_files_that_rules_do_not_touch_stay_byte_for_byte(memory: Memory) -> None:
    folder = folder_of(memory)
    files = {path: path.read_bytes() for path in folder.rglob("*.parquet")}
    settings = load_settings({"HOME": str(memory.folder), "HELIX_DATA_DIR": str(memory.store.data_dir),
                              "HELIX_REDACTION_RULES": "[{name = 'other', pattern = 'nowhere5678'}]"})  # fmt: skip
    with closing(open_store(settings)) as store:
        assert redact_before_restore(store, 1 << 40) == []
        assert read_before_restore(store).waiting == 0
    assert {path: path.read_bytes() for path in files} == files


def test_catalog_that_is_still_the_stores_own_is_left_to_the_store(memory: Memory) -> None:
    folder = folder_of(memory)
    (folder / "helix.db").unlink()
    os.link(memory.store.catalog.path, folder / "helix.db")
    store = with_new_rules(memory)
    assert redact_before_restore(store, 1 << 40) == []
    assert read_before_restore(store).waiting == 1


def test_catalog_that_two_restores_set_aside_is_redacted_in_both(memory: Memory) -> None:
    folder = folder_of(memory)
    other = folder.with_name("20260620T120000Z-1")
    other.mkdir()
    os.link(folder / "helix.db", other / "helix.db")
    store = with_new_rules(memory)
    memory.sweep()
    assert read_before_restore(store) == BeforeRestore(2, 0, [])
    assert files_that_say(store.data_dir, WORD) == set()


def test_what_a_killed_restore_staged_goes_with_the_next_sweep(memory: Memory) -> None:
    staged = memory.store.data_dir / ".restore" / "hub"
    staged.mkdir(parents=True)
    (staged / "note.md").write_text(WORD)
    memory.sweep()
    assert not staged.parent.exists()
