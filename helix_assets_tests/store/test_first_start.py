"""A new store is made whole or not at all; parts of one that are gone are missed, never replaced in silence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from helix_assets.ask.reading import has_store, open_existing
from helix_assets.model.errors import StoreError
from helix_assets.store import lock
from helix_assets.store.lock import writer_lock
from helix_assets_tests.home import Memory, conversation


def swept(folder: Path) -> Path:
    memory = Memory(folder)
    memory.write("s1", *conversation(1))
    memory.sweep()
    memory.close()
    return folder / "data"


@pytest.mark.parametrize("name", ["key", "helix.db"])
def test_what_is_gone_from_a_store_is_named(tmp_path: Path, name: str) -> None:
    (swept(tmp_path) / name).unlink()
    with pytest.raises(StoreError, match=f"{name} is gone"):
        Memory(tmp_path)
    assert not (tmp_path / "data" / name).exists()


def test_readers_take_a_lost_catalog_for_no_empty_memory(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "other")
    settings = memory.store.settings
    swept(tmp_path / "other")
    settings.catalog_path.unlink()
    for ask in (has_store, open_existing):
        with pytest.raises(StoreError, match="is gone, and the other files"):
            ask(settings)
    memory.close()


def test_a_memory_beside_another_is_not_taken_for_what_is_left_of_one(tmp_path: Path) -> None:
    swept(tmp_path / "data").rename(tmp_path / "data" / "demo")
    memory = Memory(tmp_path)
    memory.close()
    (tmp_path / "data" / "helix.db").unlink()
    assert not has_store(memory.store.settings)


def test_a_cut_key_is_refused(tmp_path: Path) -> None:
    os.truncate(swept(tmp_path) / "key", 31)
    with pytest.raises(StoreError, match="damaged"):
        Memory(tmp_path)


def test_what_a_killed_maker_left_is_no_obstacle(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    for name in (".key.new", ".helix.db", ".helix.db-wal"):
        (data / name).write_bytes(b"half")
    assert not list(swept(tmp_path).glob(".*"))


def test_one_killed_while_it_signs_the_lock_leaves_a_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lock").write_text("the sign of a killed one")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lock.os, "pwrite", killed)
    with pytest.raises(KeyboardInterrupt), writer_lock(tmp_path, "test"):
        pass
    monkeypatch.undo()
    with writer_lock(tmp_path, "test", recovers=False) as unfinished:
        assert unfinished
    with writer_lock(tmp_path, "test") as unfinished:
        assert unfinished
    with writer_lock(tmp_path, "test") as unfinished:
        assert not unfinished
