"""A lost or damaged catalog comes back from a copy; what cannot is recorded, and the store proves itself afterwards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from helix_assets.keep import evict
from helix_assets.keep.backup import copies
from helix_assets.keep.restore import Restored, choose_copy, restore
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.model.errors import NotFoundError, StoreError
from helix_assets.prove.verify import is_sound, verify
from helix_assets.store.store import open_store
from helix_assets_tests.home import Memory, conversation


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A memory of two sessions with one copy."""
    os.umask(0o077)
    made = Memory(tmp_path)
    made.write("s1", *conversation(3))
    made.write("s2", *conversation(2, session="b"))
    made.sweep()
    yield made
    made.close()


def put_back(memory: Memory) -> Restored:
    settings = memory.store.settings
    memory.store.close()
    done = restore(settings, choose_copy(settings), memory.now)
    memory.store = open_store(settings)
    return done


def lost(memory: Memory) -> list[str]:
    with memory.store.catalog.reading() as connection:
        return connection.column("SELECT session_uid FROM losses ORDER BY session_uid")


def raw_file(memory: Memory, uid: str) -> Path:
    return memory.store.raw.path(memory.parts(uid)[0].name)


@pytest.mark.parametrize("name", ["helix.db", "key", "memory"])
def test_what_is_gone_comes_back(memory: Memory, name: str) -> None:
    before = memory.exported()
    memory.store.close()
    path = memory.folder / "data" / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert not is_sound(memory.store.settings)
    done = put_back(memory)
    assert (done.lost, verify(memory.store)) == ((), [])
    assert memory.exported() == before


def test_a_damaged_catalog_is_moved_not_deleted(memory: Memory) -> None:
    memory.store.close()
    (memory.folder / "data" / "helix.db").write_bytes(b"no database")
    done = put_back(memory)
    assert done.before_restore is not None
    assert (done.before_restore / "helix.db").read_bytes() == b"no database"
    assert verify(memory.store) == []


def test_the_next_restore_deletes_what_the_one_before_left(memory: Memory) -> None:
    first = put_back(memory).before_restore
    memory.now += timedelta(days=1)
    second = put_back(memory).before_restore
    assert first is not None
    assert first != second
    assert list(first.parent.iterdir()) == [second]


@pytest.mark.parametrize("step", ["_swap", "drop_reports", "_keep_only"])
def test_what_a_killed_restore_moved_away_is_kept_by_the_one_that_follows(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    memory.write("s3", *conversation(2, session="c"))
    memory.sweep()
    newer = raw_file(memory, "claude:s3").name
    with killed_in(monkeypatch, step):
        put_back(memory)
    before = put_back(memory).before_restore
    assert before is not None
    assert [path.name for path in before.rglob(newer)] == [newer]
    assert list(before.parent.iterdir()) == [before]
    assert verify(memory.store) == []


@contextmanager
def killed_in(monkeypatch: pytest.MonkeyPatch, step: str) -> Iterator[None]:
    """A restore ends where it would begin this step."""

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"helix_assets.keep.restore.{step}", kill)
        with pytest.raises(KeyboardInterrupt):
            yield


def test_the_next_writer_removes_what_a_killed_restore_prepared(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with killed_in(monkeypatch, "_new_folder"):
        put_back(memory)
    assert (memory.store.data_dir / ".restore").exists()
    memory.store = open_store(memory.store.settings)
    memory.sweep()
    assert not (memory.store.data_dir / ".restore").exists()


def test_a_session_without_its_raw_file_is_a_recorded_loss_and_read_again(memory: Memory) -> None:
    before = memory.exported()
    raw_file(memory, "claude:s1").unlink()
    done = put_back(memory)
    assert (done.lost, done.reread, done.gone) == (("claude:s1",), ("claude:s1",), ())
    assert lost(memory) == ["claude:s1"]
    assert verify(memory.store) == []
    memory.sweep()
    assert memory.row("claude:s1").evicted_at is None
    assert verify(memory.store) == []
    assert memory.exported() == before


def test_a_session_whose_log_is_gone_too_keeps_its_digest(memory: Memory) -> None:
    raw_file(memory, "claude:s1").unlink()
    memory.path("s1").unlink()
    digest = memory.digest("claude:s1")
    done = put_back(memory)
    memory.sweep()
    assert done.gone == ("claude:s1",)
    assert memory.digest("claude:s1") == digest
    assert verify(memory.store) == []


def test_a_log_that_was_rewritten_since_does_not_replace_what_the_digest_covers(memory: Memory) -> None:
    raw_file(memory, "claude:s1").unlink()
    memory.write("s1", *conversation(1, session="x"))
    assert put_back(memory).gone == ("claude:s1",)
    assert verify(memory.store) == []


def test_what_is_newer_than_the_copy_is_taken_in_again(memory: Memory) -> None:
    memory.write("s1", *conversation(2, start=3), append=True)
    memory.write("s3", *conversation(2, session="c"))
    memory.sweep()
    before = memory.exported()
    done = put_back(memory)
    assert (done.newer, done.lost) == (1, ())
    assert verify(memory.store) == []
    memory.sweep()
    assert verify(memory.store) == []
    assert memory.exported() == before


def test_a_restored_session_that_grows_has_each_record_once(memory: Memory) -> None:
    put_back(memory)
    memory.write("s1", *conversation(2, start=3), append=True)
    memory.sweep()
    assert verify(memory.store) == []
    assert memory.row("claude:s1").record_count == 5 * 4


def test_a_damaged_copy_is_refused_and_an_older_one_can_be_named(memory: Memory) -> None:
    settings = memory.store.settings
    copy = choose_copy(settings)
    (settings.backup_dir / copy.generation / "key").write_bytes(b"short")
    with pytest.raises(StoreError, match="is damaged itself"):
        restore(settings, copy, memory.now)
    assert verify(memory.store) == []
    assert choose_copy(settings, "1") == copies(settings)[0]


def test_of_a_damaged_copy_the_newest_sound_one_is_named(memory: Memory) -> None:
    settings = memory.store.settings
    made = [choose_copy(settings)]
    for turn in (3, 4):
        memory.now += timedelta(days=1)
        memory.write("s1", *conversation(1, start=turn), append=True)
        memory.sweep()
        made.append(choose_copy(settings))
    for number, words in ((2, f"is sound: restore it with --from {made[1].generation}"), (1, made[0].generation)):
        (settings.backup_dir / made[number].generation / "key").write_bytes(b"short")
        with pytest.raises(StoreError, match=words):
            restore(settings, made[2], memory.now)
    (settings.backup_dir / made[0].generation / "key").write_bytes(b"short")
    with pytest.raises(StoreError, match="No other copy of this store is sound"):
        restore(settings, made[2], memory.now)


def test_no_copy_is_reported(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no copy of the memory"):
        choose_copy(Memory(tmp_path).store.settings)


def test_half_written_files_are_not_moved(memory: Memory) -> None:
    staged = memory.store.raw.staging / "half-a-file"
    staged.write_bytes(b"PAR1")
    before = put_back(memory).before_restore
    assert before is not None
    assert "half-a-file" not in {path.name for path in before.rglob("*")}
    memory.sweep()
    assert not staged.exists()


def evict_all(memory: Memory) -> None:
    evict.apply(memory.store, clock=lambda: memory.now, policy=RetentionPolicy(1, 1 << 40, 45, 1 << 40))


def test_session_evicted_after_a_restore_is_whole_when_it_grows(memory: Memory) -> None:
    put_back(memory)
    evict_all(memory)
    memory.write("s1", *conversation(2, start=3), append=True)
    memory.sweep()
    assert memory.digest("claude:s1")["record_count"] == 20
    assert not memory.row("claude:s1").is_partial


def test_digest_of_records_that_outlived_their_log_is_not_rebuilt_from_the_rest(memory: Memory) -> None:
    memory.write("s1", *conversation(2, start=1))
    memory.sweep()
    memory.write("s1", *conversation(1, start=3), append=True)
    memory.sweep()
    memory.now += timedelta(days=2)
    memory.write("s2", *conversation(1, start=2, session="b"), append=True)
    memory.sweep()
    raw_file(memory, "claude:s1").unlink()
    put_back(memory)
    memory.sweep()
    assert memory.digest("claude:s1")["record_count"] == 16


def test_what_a_killed_sweep_left_is_still_the_next_writers_after_a_restore(memory: Memory) -> None:
    left = memory.store.raw.staging / "0123.4567"
    left.write_bytes(b"half a part")
    left.chmod(0o600)
    (memory.store.data_dir / "lock").write_text('{"pid": 1}')
    put_back(memory)
    assert verify(memory.store) == []
    memory.sweep()
    assert (left.exists(), verify(memory.store)) == (False, [])
