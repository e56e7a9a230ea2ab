"""Changes in folders set the event, also in folders that appear later, and where nothing can be watched."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import watchfiles

from helix_assets.serve import watch as module
from helix_assets.serve.watch import remote, watch

_MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:41 / /mnt/far\\040away rw - nfs4 server:/export rw
31 22 0:42 / /mnt/far\\040away/near rw shared:2 master:3 - tmpfs none rw
"""


class Watched:
    """A watcher in a thread of its own, and what it said."""

    def __init__(self, *folders: Path) -> None:
        self.woken, self.stop, self.notes = threading.Event(), threading.Event(), list[str]()
        arguments = (lambda: folders, self.woken, self.stop, self.notes.append)
        self.thread = threading.Thread(target=watch, args=arguments, daemon=True)
        self.thread.start()

    def wakes(self, seconds: float = 10) -> bool:
        """Whether it wakes its listener within this time; the next change wakes it again."""
        did = self.woken.wait(seconds)
        self.woken.clear()
        return did

    def end(self) -> None:
        self.stop.set()
        self.thread.join(5)
        assert not self.thread.is_alive()


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    """A folder that exists and one that does not yet, looked for often."""
    monkeypatch.setattr(module, "_LOOK_MS", 300)
    monkeypatch.setattr(module, "_MOUNTS", tmp_path / "no mounts")
    (tmp_path / "logs").mkdir()
    watched = Watched(tmp_path / "logs", tmp_path / "later")
    assert watched.wakes(), "at the beginning, for what was written before"
    yield watched
    watched.end()


def test_a_change_at_any_depth_wakes(watched: Watched, tmp_path: Path) -> None:
    folder = tmp_path / "logs" / "a" / "b"
    folder.mkdir(parents=True)
    assert watched.wakes()
    watched.wakes(1)  # both folders
    with (folder / "log.jsonl").open("w") as log:
        assert watched.wakes()
        watched.wakes(1)
        log.write("{}\\n")
        log.flush()
        assert watched.wakes()


def test_nothing_wakes_without_a_change(watched: Watched) -> None:
    assert not watched.wakes(1.5)
    assert watched.notes == [""]


def test_a_folder_that_appears_later_is_watched(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "later").mkdir()
    assert watched.wakes()
    (tmp_path / "later" / "log").touch()
    assert watched.wakes()


def test_a_folder_that_is_made_again_is_watched(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "logs").rename(tmp_path / "old")
    (tmp_path / "logs").mkdir()
    watched.wakes(2)
    watched.wakes(2)
    (tmp_path / "logs" / "log").touch()
    assert watched.wakes()


def test_where_nothing_can_be_watched_it_wakes_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("OS file watch limit reached.")

    monkeypatch.setattr(module, "POLL_S", 0.1)
    monkeypatch.setattr(module, "_MOUNTS", tmp_path / "no mounts")
    monkeypatch.setattr(watchfiles, "watch", fail)
    watched = Watched(tmp_path)
    assert watched.wakes()
    assert watched.wakes()
    watched.end()
    assert "OS file watch limit reached." in watched.notes


def test_a_network_file_system_is_not_watched(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(_MOUNTS)
    far = Path("/mnt/far away/logs")
    assert remote([tmp_path, far], mounts) == f"{far} is on a network file system (nfs4)"
    assert remote([tmp_path, Path("/mnt/far away/near/logs")], mounts) == ""
    assert remote([far], tmp_path / "none") == ""
