"""An error of the system names the file, and room is kept for evictions."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from helix_assets.store import reserve
from helix_assets.store.durable import new_file, replace_file
from helix_assets.store.parquet import SessionWriter
from helix_assets.store.reserve import BYTES, RESERVE, give_up_reserve, make_reserve

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="needs a device that is always full")


@needs_full
def test_a_file_that_there_is_no_room_for_is_named() -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"), new_file(FULL) as file:
        file.write(b"x")


@needs_full
def test_a_part_that_there_is_no_room_for_is_named() -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        SessionWriter(FULL, "claude:s1", b"k" * 32).close()


def test_room_is_kept_once_and_given_up(tmp_path: Path) -> None:
    path = tmp_path / RESERVE
    make_reserve(tmp_path)
    first = path.stat()
    make_reserve(tmp_path)
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (first.st_ino, first.st_mtime_ns)
    assert (first.st_size, first.st_mode & 0o777) == (BYTES, 0o600)
    assert first.st_blocks * 512 >= BYTES
    assert min(path.read_bytes()) > 0x7F  # nothing in it can look like a secret
    give_up_reserve(tmp_path)
    give_up_reserve(tmp_path)
    assert not path.exists()


def test_a_half_made_reserve_is_made_whole(tmp_path: Path) -> None:
    (tmp_path / RESERVE).write_bytes(b"half")
    make_reserve(tmp_path)
    assert (tmp_path / RESERVE).stat().st_size == BYTES


@needs_full
def test_no_room_to_keep_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reserve, "new_file", lambda _: new_file(FULL))
    make_reserve(tmp_path)
    assert not (tmp_path / RESERVE).exists()


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "notes" / "note"
    path.parent.mkdir()
    replace_file(path, b"old")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"old", 0o600)
    replace_file(path, b"new", 0o640)
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", 0o640)

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr("helix_assets.store.durable.os.fsync", full)
    with pytest.raises(OSError, match="no room"):
        replace_file(path, b"newer")
    assert [(one.name, one.read_bytes()) for one in path.parent.iterdir()] == [("note", b"new")]
