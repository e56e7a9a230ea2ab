"""Segments of the search index: written once, merged, erased from, and proven where they are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from helix_assets.model.errors import StoreError
from helix_assets.store.words import segment as segments
from helix_assets.store.words.hashing import WordHasher
from helix_assets.store.words.segment import Document, Segment, WordIndex

KEY = b"k" * 32
HASHER = WordHasher(KEY)


@pytest.fixture
def index(tmp_path: Path) -> WordIndex:
    return WordIndex(tmp_path, KEY)


def add(index: WordIndex, **texts: str) -> None:
    index.add([(Document(name, 0, 1), HASHER.words(text.encode())) for name, text in texts.items()])


def found(index: WordIndex, word: str) -> dict[str, float]:
    """In which documents a word is, and how often."""
    return {
        segment.documents[document].name: times
        for segment in index.open()[0]
        for document, times in zip(*(array.tolist() for array in segment.find(HASHER.word(word))), strict=True)
    }


def test_words_are_found_with_their_counts(index: WordIndex) -> None:
    add(index, one="a b b", two="b c")
    assert found(index, "b") == {"one": 2, "two": 1}
    assert found(index, "z") == {}


def test_segments_stay_few_and_each_word_is_written_a_few_times(index: WordIndex) -> None:
    written = 0
    for number in range(200):
        before = set(index.paths())
        add(index, **{f"d{number}": f"word{number}"})
        written += sum(Segment(path, KEY).pairs for path in set(index.paths()) - before)
    assert len(index.paths()) <= 12
    assert written <= 7 * 200


def test_small_segments_are_merged(index: WordIndex) -> None:
    for number in range(20):
        add(index, **{f"d{number}": f"common w{number}"})
    assert len(index.paths()) <= 5
    assert len(found(index, "common")) == 20
    assert found(index, "w7") == {"d7": 1}


def test_large_segment_has_a_directory_and_is_small(index: WordIndex) -> None:
    add(index, big=" ".join(f"word{number}" for number in range(150_000)))
    (path,) = index.paths()
    (segment,) = index.open()[0]
    assert segment.pairs > 131_072
    assert path.stat().st_size < segment.pairs * 5.2 + 300_000
    assert found(index, "word777") == {"big": 1}
    add(index, small="word777")
    assert found(index, "word777") == {"big": 1, "small": 1}


def test_erased_document_leaves_no_hash(index: WordIndex) -> None:
    add(index, one="alpha common", two="beta common")
    before = index.paths()
    assert index.keep({"two"}.__contains__) == 1
    assert found(index, "common") == {"two": 1}
    assert index.paths() != before
    fresh = WordIndex(index.root / "fresh", KEY)
    fresh.root.parent.mkdir(parents=True)
    add(fresh, two="beta common")
    assert [path.read_bytes() for path in index.paths()] == [path.read_bytes() for path in fresh.paths()]


def test_nothing_left_leaves_no_file(index: WordIndex) -> None:
    add(index, one="alpha")
    index.keep(lambda name: False)
    assert index.paths() == []


def test_segment_that_cannot_be_rewritten_goes_as_a_whole(index: WordIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    add(index, one="alpha", two="beta")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(WordIndex, "_write", full)
    index.keep({"two"}.__contains__)
    assert index.paths() == []


def test_writing_that_fails_leaves_what_was_there(index: WordIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    add(index, one="alpha")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", full)
    with pytest.raises(OSError, match="No space"):
        add(index, two="beta")
    assert [path.name for path in index.root.iterdir()] == ["00000001.words"]
    assert found(index, "alpha") == {"one": 1}


def test_files_are_private(index: WordIndex) -> None:
    add(index, one="alpha")
    assert {path.stat().st_mode & 0o077 for path in [index.root, *index.paths()]} == {0}


def test_no_word_can_be_read_in_it(index: WordIndex) -> None:
    add(index, one="supercalifragilistic pass")
    assert not [path for path in index.paths() if b"supercal" in path.read_bytes().lower()]


@pytest.mark.parametrize("place", [0.0, 0.02, 0.5, 0.999])
def test_flipped_byte_is_seen(index: WordIndex, place: float) -> None:
    add(index, one=" ".join(f"word{number}" for number in range(50_000)))
    (path,) = index.paths()
    data = bytearray(path.read_bytes())
    data[int(place * (len(data) - 1))] ^= 1
    path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        Segment(path, KEY).check()


@pytest.mark.parametrize("cut", [0, 1, 30, 5000])
def test_cut_file_is_seen_and_removed_when_the_index_is_kept_up(index: WordIndex, cut: int) -> None:
    add(index, one=" ".join(f"word{number}" for number in range(5_000)))
    (path,) = index.paths()
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(StoreError, match="damaged"):
        Segment(path, KEY).check()
    index.keep(lambda name: True, thorough=True)
    assert not index.paths()


def test_damaged_segment_is_not_merged_into_a_sound_one(index: WordIndex) -> None:
    add(index, one="alpha")
    (path,) = index.paths()
    data = path.read_bytes()
    path.write_bytes(data[:-3] + bytes(3))
    for text in ({"two": "beta"}, {"three": "c"}, {"four": "d"}, {"five": "e"}, {"six": "f"}):
        add(index, **text)
    assert not path.exists()
    assert found(index, "beta") == {"two": 1}
    assert found(index, "alpha") == {}


def test_reader_that_meets_a_merge_looks_again(index: WordIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    add(index, one="alpha")
    opened = WordIndex._opened
    done: list[int] = []

    def and_then_it_is_merged(self: WordIndex, paths: Sequence[Path], thorough: bool) -> object:
        if not done:
            done.append(1)
            add(WordIndex(index.root.parent, KEY), two="beta")
        return opened(self, paths, thorough)

    monkeypatch.setattr(WordIndex, "_opened", and_then_it_is_merged)
    assert found(index, "alpha") == {"one": 1}


def test_only_what_is_read_is_proven_and_each_stretch_once(index: WordIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    add(index, one=" ".join(f"word{number}" for number in range(200_000)))
    (segment,) = index.open()[0]
    hashed: list[int] = []
    real: Callable[[bytes, bytes], str] = segments._hash
    monkeypatch.setattr(segments, "_hash", lambda key, data: hashed.append(len(data)) or real(key, data))
    segment.find(HASHER.word("word5"))
    assert 0 < len(hashed) <= 5
    first: Sequence[int] = list(hashed)
    segment.find(HASHER.word("word5"))
    assert hashed == first


def test_segments_are_opened_once_and_again_when_another_has_the_name(index: WordIndex, tmp_path: Path) -> None:
    add(index, one="alpha")
    (first,), _ = index.open()
    assert index.open()[0] == [first]
    other = WordIndex(tmp_path, KEY)
    other.keep(lambda name: False)
    add(other, two="beta")
    assert [segment.path for segment in index.open()[0]] == [first.path]
    assert found(index, "beta") == {"two": 1}
    assert found(index, "alpha") == {}
