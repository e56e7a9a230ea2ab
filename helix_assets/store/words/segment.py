"""The search index on disk: segments, each a file of word hashes by document. It can be rebuilt from the raw cache.

A document is a row group of a part file, or the digest of an evicted session. A segment is written once, under another
name, then renamed. A document is erased by rewriting its segment without it, or by removing the segment. Belongs here:
the inside of a segment, and the folder of them. Not here: which documents belong in it (`store.words.keep`), or what a
word is (`store.words.hashing`).
"""

from __future__ import annotations

import logging
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson

from helix_assets.model.errors import StoreError
from helix_assets.store.catalog.catalog import INDEX_FOLDER
from helix_assets.store.durable import drop, new_file, open_plain
from helix_assets.store.words.hashing import Array, Words

MAX_DOCUMENTS = 1 << 16
MAX_PAIRS = 1 << 22
"""Segments of more pairs are not merged: merging takes 30 bytes of memory for each."""
MERGED_AT_ONCE = 6
"""Fewer segments of about the same size are left as they are: each merge writes all of them once more."""
_MAGIC = b"helix words 1\n"
_CHUNK = 1 << 16
_DIRECTORY = 1 << 16
_LENGTH_BYTES = 8
_HASH_BYTES = 16
_log = logging.getLogger(__name__)


class Document(NamedTuple):
    """Where words occur: the name of a part file and the number of its row group, or a digest; and how many words."""

    name: str
    group: int
    size: int


class Segment:
    """An open segment. Every chunk of it is proven by its hash when it is first read."""

    def __init__(self, path: Path, key: bytes) -> None:
        """StoreError if it is damaged or not a segment."""
        self.path, self._key = path, key
        try:
            with open_plain(path) as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            head = self._head()
            self.documents = list(map(Document._make, head["documents"]))
            self.pairs: int = head["pairs"]
            self._hashes: list[str] = head["hashes"]
        except (OSError, ValueError, KeyError, TypeError) as exc:
            raise StoreError(f"{path.name} of the search index is damaged") from exc
        self._proven: set[int] = set()

    def _head(self) -> Any:
        start = len(_MAGIC) + _LENGTH_BYTES
        size = int.from_bytes(self._map[len(_MAGIC) : start], "little")
        text, proof = self._map[start : start + size], self._map[start + size : start + size + _HASH_BYTES]
        if self._map[: len(_MAGIC)] != _MAGIC or _hash(self._key, text) != proof.hex():
            raise ValueError("the head is not what was written")
        self._body = start + size + _HASH_BYTES
        return orjson.loads(text)

    def find(self, word: int) -> tuple[Array, Array]:
        """The places of the documents that contain a word, and how often each does."""
        first, last = self._range(word >> 16)
        low = self._array(np.uint16, self._low, first, last)
        begin, end = np.searchsorted(low, [word & 0xFFFF, (word & 0xFFFF) + 1])
        return (
            self._array(np.uint16, self._document, first + begin, first + end).astype(np.int64),
            self._array(np.uint8, self._count, first + begin, first + end).astype(np.float64),
        )

    def has(self, words: Array) -> Array:
        """Which of some words occur in any document, answered together because a query has many forms of a word."""
        high, low = words >> 16, words & 0xFFFF
        bounds = [self._range(int(one)) for one in high]
        places = np.concatenate([np.arange(first, last) for first, last in bounds])
        asked = np.repeat(np.arange(len(words)), [last - first for first, last in bounds])
        size = np.dtype(np.uint16).itemsize
        for first, last in bounds:
            self._prove(self._low + first * size, self._low + last * size)
        found = np.frombuffer(self._map, np.uint16, self.pairs, self._body + self._low)[places] == low[asked]
        return np.bincount(asked[found], minlength=len(words)) > 0

    def packed(self) -> Array:
        """All pairs as one number each: hash, document, count."""
        high = (
            np.repeat(np.arange(_DIRECTORY, dtype=np.uint16), np.diff(self._array(np.uint32, 0, 0, _DIRECTORY + 1)))
            if self._has_directory
            else self._array(np.uint16, 0, 0, self.pairs)
        )
        packed: Array = high.astype(np.uint64)
        for kind, start in ((np.uint16, self._low), (np.uint16, self._document), (np.uint8, self._count)):
            packed <<= np.uint64(8 * kind().itemsize)
            packed |= self._array(kind, start, 0, self.pairs)
        return packed

    def check(self) -> None:
        """Prove all of it; StoreError when it is damaged."""
        self._prove(0, len(self._map) - self._body)
        if len(self._map) - self._body != self._count + self.pairs:
            raise StoreError(f"{self.path.name} of the search index is damaged")

    @property
    def _has_directory(self) -> bool:
        return self.pairs * 2 > _DIRECTORY * 4

    @property
    def _low(self) -> int:
        return (_DIRECTORY + 1) * 4 if self._has_directory else self.pairs * 2

    @property
    def _document(self) -> int:
        return self._low + self.pairs * 2

    @property
    def _count(self) -> int:
        return self._document + self.pairs * 2

    def _range(self, high: int) -> tuple[int, int]:
        if self._has_directory:
            first, last = self._array(np.uint32, 0, high, high + 2)
        else:
            first, last = np.searchsorted(self._array(np.uint16, 0, 0, self.pairs), [high, high + 1])
        return int(first), int(last)

    def _array(self, kind: Any, start: int, first: int, last: int) -> Array:
        """Some items of an array that begins at `start` of the body."""
        size = np.dtype(kind).itemsize
        self._prove(start + int(first) * size, start + int(last) * size)
        return np.frombuffer(self._map, kind, int(last) - int(first), self._body + start + int(first) * size)

    def _prove(self, begin: int, end: int) -> None:
        for chunk in range(begin // _CHUNK, -(-end // _CHUNK)):
            if chunk in self._proven:
                continue
            at = self._body + chunk * _CHUNK
            if chunk >= len(self._hashes) or _hash(self._key, self._map[at : at + _CHUNK]) != self._hashes[chunk]:
                raise StoreError(f"{self.path.name} of the search index is damaged")
            self._proven.add(chunk)


class WordIndex:
    """The folder of segments. Whoever writes holds the store's writer lock; readers need none."""

    def __init__(self, data_dir: Path, key: bytes) -> None:
        self.root = data_dir / INDEX_FOLDER
        self._key = key
        self._held: dict[Path, tuple[tuple[int, int, int], Segment]] = {}

    def paths(self) -> list[Path]:
        """The files of all segments."""
        return sorted(self.root.glob("*.words"))

    def open(self, *, thorough: bool = False) -> tuple[list[Segment], list[Path]]:
        """All segments, and the files of damaged ones. `thorough` proves every byte, not only the heads."""
        while True:
            paths = self.paths()
            whole, damaged = self._opened(paths, thorough)
            if self.paths() == paths:  # else segments were merged meanwhile, and some may be missing
                return whole, damaged

    def _opened(self, paths: Sequence[Path], thorough: bool) -> tuple[list[Segment], list[Path]]:
        whole, damaged = [], []
        for path in paths:
            try:
                segment = self._segment(path)
                if thorough:
                    segment.check()
                whole.append(segment)
            except StoreError:
                if os.path.lexists(path):  # else it was replaced since
                    damaged.append(path)
        self._held = {path: held for path, held in self._held.items() if path in paths}
        return whole, damaged

    def _segment(self, path: Path) -> Segment:
        """The segment in a file, opened once. It never changes, but another may get its name when it is gone."""
        try:
            info = path.stat()
        except OSError as exc:
            raise StoreError(f"{path.name} of the search index is gone") from exc
        state = (info.st_ino, info.st_size, info.st_mtime_ns)
        held = self._held.get(path)
        if held is None or held[0] != state:
            held = self._held[path] = (state, Segment(path, self._key))
        return held[1]

    def add(self, found: Sequence[tuple[Document, Words]]) -> None:
        """Add documents, merged with several segments that are not much larger, so that there are always few."""
        documents = [document for document, _ in found]
        packed = [_packed(place, words) for place, (_, words) in enumerate(found)]
        pairs = sum(map(len, packed))
        merged = _alike(sorted(self.open()[0], key=lambda one: one.pairs), pairs, len(documents))
        for segment in merged:
            try:
                pairs_of = segment.packed()
            except StoreError as exc:
                _log.warning("%s: its words are read again from the raw cache", exc)
                continue
            pairs_of += np.uint64(len(documents) << 8)
            packed.append(pairs_of)
            documents += segment.documents
        together = np.concatenate(packed) if packed else np.empty(0, np.uint64)
        packed.clear()
        self._write(documents, together)
        for segment in merged:
            segment.path.unlink()

    def keep(self, is_live: Callable[[str], bool], *, thorough: bool = False) -> int:
        """Erase documents that are not live, damaged segments and leftovers. Returns how many documents went."""
        for path in self.root.glob("*.new"):
            drop(path)
        whole, damaged = self.open(thorough=thorough)
        for path in damaged:
            _log.warning("%s of the search index is damaged: its words are read again from the raw cache", path.name)
            drop(path)
        return sum(self._erase(segment, is_live) for segment in whole)

    def _erase(self, segment: Segment, is_live: Callable[[str], bool]) -> int:
        stays = np.array([is_live(document.name) for document in segment.documents], bool)
        if stays.all():
            return 0
        try:
            if stays.any():
                self._write(*_only(segment, stays))
        except (OSError, StoreError) as exc:  # on a full disk, say: all of it goes, and the next sweep reads it again
            _log.warning("the search index loses %s, which cannot be rewritten (%s)", segment.path.name, exc)
        segment.path.unlink(missing_ok=True)
        return int((~stays).sum())

    def remove(self) -> None:
        """Remove the index."""
        with suppress(OSError):
            drop(self.root)

    def make_folder(self) -> None:
        """Make the index's folder, removing anything else of that name."""
        if not self.root.is_dir():
            drop(self.root)
        self.root.mkdir(mode=0o700, exist_ok=True)

    def _write(self, documents: Sequence[Document], packed: Array) -> None:
        packed.sort()
        body = b"".join(_arrays(packed))
        chunks = (memoryview(body)[at : at + _CHUNK] for at in range(0, len(body), _CHUNK))
        head = orjson.dumps(
            {
                "documents": [tuple(one) for one in documents],
                "pairs": len(packed),
                "hashes": [_hash(self._key, chunk) for chunk in chunks],
            }
        )
        self.make_folder()
        number = 1 + max((int(path.stem) for path in self.paths() if path.stem.isdecimal()), default=0)
        fresh = self.root / f"{number:08d}.new"
        try:
            with new_file(fresh) as file:
                file.write(_MAGIC + len(head).to_bytes(_LENGTH_BYTES, "little") + head)
                file.write(bytes.fromhex(_hash(self._key, head)))
                file.write(body)
            fresh.rename(fresh.with_suffix(".words"))
        except OSError:
            with suppress(OSError):
                fresh.unlink()
            raise


def _alike(segments: Sequence[Segment], pairs: int, documents: int) -> list[Segment]:
    """The smallest segments, to be merged with so many new pairs: each time so many of the same size that it pays."""
    chosen: list[Segment] = []
    while True:
        more: list[Segment] = []
        for segment in segments[len(chosen) :]:
            pairs_then = pairs + sum(one.pairs for one in more) + segment.pairs
            documents_then = documents + sum(len(one.documents) for one in (*more, segment))
            if segment.pairs > 2 * pairs or pairs_then > MAX_PAIRS or documents_then > MAX_DOCUMENTS:
                break
            more.append(segment)
        if len(more) + 1 < MERGED_AT_ONCE:
            return chosen
        chosen += more
        pairs += sum(one.pairs for one in more)
        documents += sum(len(one.documents) for one in more)


def _hash(key: bytes, data: bytes | memoryview) -> str:
    return blake2b(data, digest_size=_HASH_BYTES, key=key).hexdigest()


def _packed(place: int, words: Words) -> Array:
    packed: Array = words.hashes.astype(np.uint64)
    packed <<= np.uint64(24)
    packed |= np.uint64(place << 8)
    packed |= words.counts
    return packed


def _only(segment: Segment, stays: Array) -> tuple[list[Document], Array]:
    """The documents that stay, and their pairs."""
    packed = segment.packed()
    place = (packed >> np.uint64(8) & np.uint64(0xFFFF)).astype(np.int64)
    packed, place = packed[stays[place]], place[stays[place]]
    moved = (np.cumsum(stays) - 1)[place].astype(np.uint64)
    packed = packed & ~np.uint64(0xFFFF00) | moved << np.uint64(8)
    return [document for document, is_kept in zip(segment.documents, stays, strict=True) if is_kept], packed


def _arrays(packed: Array) -> Iterator[bytes]:
    """The body of a segment: the high half of each hash, as a directory if that is smaller, then the rest."""
    if len(packed) * 2 > _DIRECTORY * 4:
        starts = np.arange(_DIRECTORY + 1, dtype=np.uint64) << np.uint64(40)
        yield np.searchsorted(packed, starts).astype(np.uint32).tobytes()
    else:
        yield _bytes(packed, 5, 7)
    yield _bytes(packed, 3, 5)
    yield _bytes(packed, 1, 3)
    yield _bytes(packed, 0, 1)


def _bytes(packed: Array, first: int, last: int) -> bytes:
    """Some of the bytes of each number, the lowest first, without copying all of them."""
    return packed.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)[:, first:last].tobytes()


def names_of(segments: Iterable[Segment]) -> set[str]:
    """The names of all documents."""
    return {document.name for segment in segments for document in segment.documents}
