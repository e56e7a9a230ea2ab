"""What finds secrets in much text is built once for a store; each process after it loads it."""

import os
import stat
from pathlib import Path

import pytest

from helix_assets.prove.verify import verify
from helix_assets.prove.verify_secrets import surviving_secrets
from helix_assets.redaction import engine
from helix_assets.store.store import ENGINE
from helix_assets.sweep import workers
from helix_assets_tests.home import Memory, conversation, prompt

pytest.importorskip("hyperscan", reason="it has no wheel for this platform")
SECRET = "hunter2xyz9Kq7"


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """A memory of one session, taken in as if it were much."""
    monkeypatch.setattr(workers, "IN_PLACE_BYTES", 0)
    memory = Memory(tmp_path)
    memory.write("a", prompt("p1", "10:00:00", f"export DB_PASSWORD={SECRET}"), *conversation(1))
    memory.sweep()
    return memory


def again(memory: Memory) -> Memory:
    """The same memory as another process sees it."""
    memory.close()
    return Memory(memory.folder)


def never(*_: object, **__: object) -> None:
    raise AssertionError("built anew")


def test_large_sweep_keeps_what_it_built_and_the_next_loads_it(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    path = memory.store.data_dir / ENGINE
    before = path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SECRET.encode() not in before
    memory = again(memory)
    monkeypatch.setattr(engine, "compile_pattern", never)  # google-re2's, which would look for the lines
    assert memory.store.redactor.text("nothing to see").hits == 0
    monkeypatch.undo()
    memory.write("b", prompt("p2", "11:00:00", f"export DB_PASSWORD={SECRET}"))
    memory.sweep()
    assert path.read_bytes() == before
    assert SECRET not in memory.exported().decode()
    memory.close()


def test_it_is_no_secret_and_no_foreign_file(memory: Memory) -> None:
    assert surviving_secrets(memory.store) == []
    assert verify(memory.store) == []
    memory.close()


def test_damaged_or_missing_it_costs_time_only(memory: Memory) -> None:
    path = memory.store.data_dir / ENGINE
    sound = path.read_bytes()
    for damaged in (b"", sound[:-9], b"\0" * len(sound)):
        path.write_bytes(damaged)
        memory = again(memory)
        memory.write(f"b{len(damaged)}", prompt(f"p{len(damaged)}", "11:00:00", f"export DB_PASSWORD={SECRET}"))
        memory.sweep()
        assert SECRET not in memory.exported().decode()
    path.unlink()
    assert again(memory).store.redactor.text(f"export DB_PASSWORD={SECRET}").hits == 1


@pytest.mark.parametrize("kind", ["pipe", "link", "folder", "giant"])
def test_what_is_no_plain_file_of_its_size_is_not_read(memory: Memory, kind: str) -> None:
    path = memory.store.data_dir / ENGINE
    sound = path.rename(memory.folder / "sound")
    if kind == "pipe":
        os.mkfifo(path)  # who opens it as a file waits for ever
    elif kind == "link":
        path.symlink_to(sound)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"")
        os.truncate(path, 2 << 30)
    memory = again(memory)
    memory.write("b", prompt("p2", "11:00:00", f"export DB_PASSWORD={SECRET}"))
    assert memory.sweep().problems == []
    assert SECRET not in memory.exported().decode()
    assert not path.is_symlink()
    memory.close()


def test_small_sweep_builds_none(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.write("a", *conversation(1))
    memory.sweep()
    assert not (memory.store.data_dir / ENGINE).exists()
    memory.close()


def test_disk_that_has_no_room_for_it_stops_no_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "IN_PLACE_BYTES", 0)
    memory = Memory(tmp_path)
    memory.write("a", *conversation(1))
    (memory.store.data_dir / f".{ENGINE}.new").mkdir()
    assert memory.sweep().problems == []
    assert not (memory.store.data_dir / ENGINE).exists()
    memory.close()
