"""Parts of a growing session stay few, say the same joined, and are written anew a few times at most."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix_assets.ask.reading import open_session
from helix_assets.ask.search import Finder
from helix_assets.keep.writing import writing
from helix_assets.prove.verify import verify
from helix_assets.store.raw import RawFiles
from helix_assets.sweep.joining import JOINED_AT, join_parts, worth_joining
from helix_assets.sweep.plan import MAX_PARTS
from helix_assets_tests.home import Memory, conversation

TURNS = 27


def parts(*sizes: int, light: int = -1) -> list[Any]:
    """Parts of these sizes; the one at place `light` has no texts."""
    return [
        SimpleNamespace(bytes=size, part=n, name=f"k.{n}.light.parquet" if n == light else f"k.{n}.parquet")
        for n, size in enumerate(sizes)
    ]


def grow(folder: Path, turns: int) -> Memory:
    """A session that grew turn by turn, swept each time."""
    memory = Memory(folder)
    for turn in range(turns):
        memory.write("s1", *conversation(1, start=turn), append=True)
        memory.sweep()
    return memory


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Memory:
    return grow(tmp_path_factory.mktemp("grown"), TURNS)


def in_one_piece(memory: Memory, folder: Path) -> Memory:
    """The same log swept once."""
    other = Memory(folder)
    other.write("s1", *(line for turn in range(TURNS) for line in conversation(1, start=turn)))
    other.sweep()
    return other


def test_a_session_that_grew_often_says_what_one_swept_once_says(grown: Memory, tmp_path: Path) -> None:
    assert verify(grown.store) == []
    assert grown.exported() == in_one_piece(grown, tmp_path / "other").exported()


def test_parts_stay_few_and_their_files_are_all_there_is(grown: Memory) -> None:
    live = [part.name for part in grown.parts("claude:s1")]
    assert len(live) < JOINED_AT <= MAX_PARTS
    assert sorted(grown.store.raw.names()) == sorted(live)


def test_words_of_joined_parts_are_found(grown: Memory) -> None:
    for turn in (0, TURNS // 2, TURNS - 1):
        assert [hit.session_uid for hit in Finder(grown.store).find(f'"do step {turn}"').hits] == ["claude:s1"]


def test_text_behind_any_event_is_found_in_joined_parts(grown: Memory) -> None:
    with open_session(grown.store, "claude:s1") as session:
        for row in session.rows(raw=True):
            found = session.record(row.seq)
            assert found is not None
            assert (found.record_key, found.raw is not None) == (row.record_key, True)
        assert session.record(10**6) is None


def test_damaged_part_is_not_joined_and_stays_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    grown = grow(tmp_path, 4)
    held = grown.parts("claude:s1")
    grown.store.raw.path(held[-1].name).write_bytes(b"damage")
    before = [part.name for part in held]
    with pytest.MonkeyPatch.context() as patch, writing(grown.store, "test"):
        patch.setattr("helix_assets.sweep.joining.JOINED_AT", 2)
        assert join_parts(grown.store, ["claude:s1"]) == 0
    assert [part.name for part in grown.parts("claude:s1")] == before
    assert "stay as they are" in caplog.text


@pytest.mark.parametrize(
    ("sizes", "light", "joined"),
    [
        ([9000, *[10] * 10], -1, []),
        ([9000, *[10] * 11], -1, range(1, 12)),
        ([9000, 500, *[10] * 10], -1, range(2, 12)),
        ([9000, 90, *[10] * 10], -1, range(1, 12)),
        ([10] * 12, 3, range(4, 12)),
        ([10] * 12, 11, []),
    ],
)
def test_what_is_large_beside_what_came_after_it_stays(sizes: list[int], light: int, joined: Any) -> None:
    assert [part.part for part in worth_joining(parts(*sizes, light=light))] == list(joined)


@given(st.lists(st.integers(1, 1000), min_size=120, max_size=240))
def test_each_byte_is_written_a_few_times_however_often_a_session_grows(growths: list[int]) -> None:
    held, written = [50_000_000], 0
    for size in growths:
        held.append(size)
        written += size
        if tail := worth_joining(parts(*held)):
            together = sum(part.bytes for part in tail)
            held[len(held) - len(tail) :] = [together]
            written += together
    assert len(held) < JOINED_AT + 1
    assert written < 5 * sum(growths)


@pytest.mark.parametrize("step", ["publish", "remove"])
def test_a_kill_while_parts_are_joined_is_only_a_pause(tmp_path: Path, step: str) -> None:
    memory = grow(tmp_path, JOINED_AT - 1)
    memory.write("s1", *conversation(1, start=JOINED_AT - 1), append=True)
    publish, calls = RawFiles.publish, list[str]()

    def killed(self: RawFiles, *names: str) -> None:
        calls.append(step)
        if step == "remove" or len(calls) > 1:  # the first that is published is the sweep's own part
            raise KeyboardInterrupt
        publish(self, *names)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RawFiles, step, killed)
        with pytest.raises(KeyboardInterrupt):
            memory.sweep()
    memory.sweep()
    live = [part.name for part in memory.parts("claude:s1")]
    assert sorted(memory.store.raw.names()) == sorted(live)
    assert verify(memory.store) == []
