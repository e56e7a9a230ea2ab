"""What the store can make again is made again, or named, however it is damaged; what it cannot is left alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from helix_assets.ask.search import Finder, Found
from helix_assets.ask.status import read_status
from helix_assets.keep.backup import copies
from helix_assets.keep.writing import writing
from helix_assets.prove.doctor import examine
from helix_assets.prove.verify import verify
from helix_assets.store.words.hashing import WordHasher
from helix_assets.store.words.keep import update_index
from helix_assets.sweep import workers
from helix_assets_tests.home import Memory, conversation, prompt

SECRET = "hunter2xyz9Kq7"


def made_of(data: bytes, size: int | None = None) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(data[:size])


def instead(make: Callable[[Path], object]) -> Callable[[Path], object]:
    def put(path: Path) -> None:
        path.unlink()
        make(path)

    return put


def flipped(share: float) -> Callable[[Path], object]:
    def flip(path: Path) -> None:
        data = bytearray(path.read_bytes())
        data[int(share * (len(data) - 1))] ^= 1
        path.write_bytes(data)

    return flip


DAMAGE: dict[str, Callable[[Path], object]] = {
    "empty": made_of(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\xff"),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "garbage": lambda path: path.write_bytes(bytes(number * 7919 % 251 for number in range(path.stat().st_size))),
    **{f"flipped at {share}": flipped(share) for share in (0.0, 0.01, 0.5, 1.0)},
    "a folder": instead(lambda path: (path / "x").mkdir(parents=True)),
    "a loop": instead(lambda path: path.symlink_to(path)),
    "a pipe": instead(os.mkfifo),
    "gone": Path.unlink,
}


DAMAGED = [
    *((place, kind) for place in ("search/00000001.words", "search/stamp") for kind in DAMAGE),
    *(("engine", kind) for kind in ("flipped at 0.01", "longer", "a folder", "a loop")),
    *(("backup/*/copy.json", kind) for kind in ("cut", "garbage", "flipped at 0.5", "a folder", "a pipe")),
]


@pytest.fixture(autouse=True)
def private() -> Iterator[None]:
    """What is planted is readable for its owner alone, like all of the store."""
    before = os.umask(0o077)
    yield
    os.umask(before)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A memory of three sessions with everything that is kept to save time, made as if it were much."""
    folder = tmp_path_factory.mktemp("sound")
    with closing(Memory(folder)) as memory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(workers, "IN_PLACE_BYTES", 0)
        for name in ("a", "b", "c"):
            memory.write(name, *conversation(1, session=name), prompt(name, "11:00:00", f"DB_PASSWORD={SECRET}"))
        memory.sweep()
    return folder


def search(memory: Memory) -> Found:
    """As the command does: an index that lacks something is mended first."""
    found = Finder(memory.store).find("step")
    if found.unindexed:
        with writing(memory.store, "index"):
            update_index(memory.store, thorough=True)
        found = Finder(memory.store).find("step")
    return found


@pytest.mark.parametrize(("place", "kind"), DAMAGED)
def test_damaged_file_stops_nothing_and_is_made_again(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, kind: str
) -> None:
    if place == "engine":
        pytest.importorskip("hyperscan", reason="it has no wheel for this platform")
        monkeypatch.setattr(workers, "IN_PLACE_BYTES", 0)
    folder = tmp_path / "copy"
    shutil.copytree(sound, folder)
    (path,) = (folder / "data").glob(place)
    DAMAGE[kind](path)
    with closing(Memory(folder)) as memory:
        Finder(memory.store).find("step")
        read_status(memory.store)
        examine(memory.now, memory.variables)
        memory.sweep()
        memory.write("d", *conversation(1, session="d"), prompt("d", "11:00:00", f"DB_PASSWORD={SECRET}"))
        assert memory.sweep().problems == []
        found = search(memory)
        assert (len(found.hits), found.unindexed, found.left_out) == (4, 0, ())
        assert SECRET not in memory.exported().decode()
        assert verify(memory.store) == []
    if place != "backup/*/copy.json":
        assert path.is_file()


@pytest.mark.parametrize("make", [Path.touch, os.mkfifo, Path.mkdir, lambda path: path.symlink_to(path)])
@pytest.mark.parametrize(
    "place", ["search", "search/a copy.words", "search/99999999.words", "search/00000009.new", "raw/staging/x"]
)
def test_what_does_not_belong_there_stops_nothing(
    sound: Path, tmp_path: Path, place: str, make: Callable[[Path], object]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(sound, folder)
    path = folder / "data" / place
    shutil.rmtree(path, ignore_errors=True)
    make(path)
    with closing(Memory(folder)) as memory:
        memory.write("d", *conversation(1, session="d"))
        memory.sweep()
        found = search(memory)
        assert (len(found.hits), found.unindexed, verify(memory.store)) == (4, 0, [])


def test_copy_that_does_not_say_when_it_was_made_is_no_copy(sound: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(sound, folder)
    (manifest,) = (folder / "data").glob("backup/*/copy.json")
    text = manifest.read_text()
    with closing(Memory(folder)) as memory:
        assert len(copies(memory.store.settings)) == 1
        for wrong in ("2026-06-20T12:00800.000Z", "2026-06-20T12:00:00", ""):
            manifest.write_text(text.replace(memory.now.strftime("%Y-%m-%dT%H:%M:%S.000Z"), wrong))
            assert copies(memory.store.settings) == []
        manifest.write_text(text.replace('"facts": ', '"facts": null, "x": '))
        assert copies(memory.store.settings) == []


def test_words_that_cannot_be_found_leave_the_files_unindexed_until_they_can(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(sound, folder)
    shutil.rmtree(folder / "data" / "search")
    with closing(Memory(folder)) as memory:
        monkeypatch.setattr(WordHasher, "words", lambda *_: 1 / 0)
        memory.sweep()
        assert Finder(memory.store).find("step").unindexed == 3
        monkeypatch.undo()
        assert len(search(memory).hits) == 3
