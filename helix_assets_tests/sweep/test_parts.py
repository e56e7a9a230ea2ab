"""A growing session is stored in parts, and the last ones are folded when they are many."""

from __future__ import annotations

from pathlib import Path

import pytest

from helix_assets.ask.reading import open_session
from helix_assets.ask.search import Finder
from helix_assets.prove.verify import verify
from helix_assets.store.catalog import live_files, sessions
from helix_assets.sweep.plan import MAX_SMALL_PARTS
from helix_assets.sweep.warm import Warm
from helix_assets_tests.home import Memory, conversation

TURNS = 27


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


def parts_of(memory: Memory) -> list[str]:
    """The names of the session's part files."""
    with memory.store.catalog.reading() as connection:
        number = sessions.one(connection, "claude:s1").id
        return [part.name for part in live_files.parts_of(connection, [number])[number]]


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
    live = parts_of(grown)
    assert len(live) <= MAX_SMALL_PARTS
    assert sorted(grown.store.raw.names()) == sorted(live)


def test_words_of_folded_parts_are_found(grown: Memory) -> None:
    for turn in (0, TURNS // 2, TURNS - 1):
        assert [hit.session_uid for hit in Finder(grown.store).find(f'"do step {turn}"').hits] == ["claude:s1"]


def test_text_behind_any_event_is_found_after_a_fold(grown: Memory) -> None:
    with open_session(grown.store, "claude:s1") as session:
        for row in session.rows(raw=True):
            found = session.record(row.seq)
            assert found is not None
            assert (found.record_key, found.raw is not None) == (row.record_key, True)
        assert session.record(10**6) is None


@pytest.mark.parametrize(("small", "most"), [(1 << 20, MAX_SMALL_PARTS), (0, 5)])
def test_parts_of_a_session_are_folded_when_they_are_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: int, most: int
) -> None:
    monkeypatch.setattr("helix_assets.sweep.plan.SMALL_BYTES", small)
    monkeypatch.setattr("helix_assets.sweep.plan.MAX_PARTS", 5)
    memory = grow(tmp_path, most)
    assert len(parts_of(memory)) == most
    memory.write("s1", *conversation(1, start=most), append=True)
    memory.sweep()
    assert len(parts_of(memory)) == 2
    assert verify(memory.store) == []


def test_a_part_larger_than_all_after_it_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helix_assets.sweep.plan.MAX_SMALL_PARTS", 4)
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(400))
    memory.sweep()
    (first,) = parts_of(memory)
    for turn in range(400, 420):
        memory.write("s1", *conversation(1, start=turn), append=True)
        memory.sweep()
        assert parts_of(memory)[0] == first
        assert len(parts_of(memory)) <= 4
    assert verify(memory.store) == []


def test_damaged_part_is_not_folded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helix_assets.sweep.plan.MAX_SMALL_PARTS", 4)
    warm = Warm()
    memory = Memory(tmp_path)
    for turn in range(4):
        memory.write("s1", *conversation(1, start=turn), append=True)
        memory.sweep(warm=warm)
    before = parts_of(memory)
    path = memory.store.raw.path(before[1])
    path.write_bytes(path.read_bytes()[:-1])
    memory.write("s1", *conversation(1, start=4), append=True)
    assert memory.sweep(warm=warm).sessions_failed == 1
    assert (parts_of(memory), list(memory.store.raw.staging.iterdir())) == (before, [])
