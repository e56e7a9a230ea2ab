"""Turns text into keyed hashes of its words, many words at a time, for the search index.

A word is a run of ASCII letters and digits or of other alphabets' letters; ASCII letters are put into lower case. A
sign of Chinese, Japanese or Korean is a word by itself. The first four and eight bytes of longer words are hashed too,
for queries by prefix. Belongs here: finding and hashing words in the JSON text of records. Not here: where hashes are
stored (`store.words.segment`), what a query is (`ask.query`).

A text cannot be read back from these hashes, least of all without the store's key. Two words may have the same hash, so
a search checks each hit in the text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

PREFIX, LONG_PREFIX = 4, 8
_SLICE = 1 << 18
"""How many bytes at a time: the arrays made of them fit in the processor's cache."""
_LONG_RUN = 512
"""Runs of letters joined by + / - that are longer than this are encoded data, such as a picture, without words."""
_PAD = 40
_LONG_WORD = 128
_ESCAPE = re.compile(rb"\\u([0-9a-fA-F]{4})")
_LETTERS = bytes(ord(chr(b).lower()) if b < 128 and chr(b).isalnum() else b if b >= 128 else 0 for b in range(256))
_MASKS = np.array([(1 << 8 * size) - 1 for size in range(9)], np.uint64)
_BACKSLASH, _BRACKET, _ZERO, _U, _QUOTE, _COLON, _SPACE, _UNDERSCORE = b'\\[0u": _'
_IS_HEX = np.isin(np.arange(256), list(b"0123456789abcdefABCDEF"))
_IS_COLOUR = np.isin(np.arange(256), list(b"0123456789;?"))
_IS_LETTER = np.array([chr(b).isalpha() and b < 128 for b in range(256)])
_IS_ESCAPE = np.isin(np.arange(256), list(b"bfnrt"))
_IS_JOINT = np.isin(np.arange(256), list(b"+/-"))
# Lead byte, bytes in all, lowest and highest second byte of signs that are not letters. `ask.query` has the same.
_MARKS = ((0xE2, 3, 0x80, 0xBF), (0xF0, 4, 0x90, 0xBF), (0xC2, 2, 0x80, 0xBF), (0xE3, 3, 0x80, 0x80),
          (0xEF, 3, 0xB8, 0xBF), (0xD8, 2, 0x8C, 0x9F), (0xE0, 3, 0xA5, 0xA5))  # fmt: skip


class Words(NamedTuple):
    """The words of a text: their hashes in order, how often each occurs (at most 255), and how many words there are."""

    hashes: Array
    counts: Array
    size: int


class WordHasher:
    """Hashes words with a key of its own."""

    def __init__(self, key: bytes) -> None:
        seed = blake2b(b"words", digest_size=48, key=key).digest()
        odd = [int.from_bytes(seed[at : at + 8], "little") | 1 for at in range(0, 48, 8)]
        self._k = [np.uint64(number) for number in odd]

    def words(self, text: bytes) -> Words:
        """The words of a UTF-8 text, which may be lines of JSON."""
        found = [self._hashes(part) for part in _parts(text)]
        hashes = np.concatenate([one for one, _ in found]) if found else np.empty(0, np.uint64)
        hashes.sort()
        firsts = _firsts(hashes)
        counts = np.diff(np.append(firsts, len(hashes)))
        return Words(hashes[firsts], np.minimum(counts, 255).astype(np.uint8), sum(size for _, size in found))

    def word(self, word: str) -> int:
        """The hash of one word."""
        return int(self.each([word])[0])

    def each(self, words: Sequence[str]) -> Array:
        """The hash of each of some words."""
        encoded = [_lower(word.encode()) for word in words]
        data = np.frombuffer(bytes(_PAD).join([*encoded, b""]), np.uint8)
        sizes = np.fromiter(map(len, encoded), np.int64)
        starts = np.cumsum(sizes + _PAD) - sizes - _PAD
        return (self._of(data, starts, sizes) >> np.uint64(32)).astype(np.int64)

    def prefix(self, prefix: str) -> list[int] | None:
        """Every word with this prefix has one of these hashes. None if the prefix is too short."""
        data = _lower(prefix.encode())
        if len(data) < PREFIX:
            return None
        start = np.frombuffer(data[:LONG_PREFIX].ljust(LONG_PREFIX, b"\0"), np.dtype("<u8"))
        if len(data) < LONG_PREFIX:
            return [int(self._prefixes(start)[0])]
        exact = [self.word(prefix)] if len(data) == LONG_PREFIX else []
        return [*exact, int(self._long_prefixes(start)[0])]

    def _hashes(self, part: bytes) -> tuple[Array, int]:
        """Unordered hashes of all words of a part and of the prefixes of its distinct words; the number of words."""
        data, starts, sizes = _words(part)
        if not len(starts):
            return np.empty(0, np.uint32), 0
        marked = self._of(data, starts, sizes) & np.uint64(0xFFFFFFFF00000000)
        marked |= np.arange(len(starts), dtype=np.uint64)
        marked.sort()
        hashes = (marked >> np.uint64(32)).astype(np.uint32)
        places = (marked[_firsts(hashes)] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        starts, sizes = starts[places], sizes[places]
        view = _eights(data)
        short = self._prefixes(view[starts[sizes >= PREFIX]])
        long = self._long_prefixes(view[starts[sizes > LONG_PREFIX]])
        return np.concatenate((hashes, short, long)), len(marked)

    def _of(self, data: Array, starts: Array, sizes: Array) -> Array:
        """64 bits per word: of the first and last eight bytes, and of the eight after the first."""
        view, k = _eights(data), self._k
        hashes: Array = view[starts] & _MASKS[np.minimum(sizes, 8)]
        hashes *= k[0]
        hashes ^= hashes >> np.uint64(29)
        long = np.flatnonzero(sizes > 8)
        if len(long):
            start, size = starts[long], sizes[long]
            rest = (view[start + 8] & _MASKS[np.minimum(size - 8, 8)]) * k[1]
            rest ^= view[start + size - 8] * k[2]
            hashes[long] += rest ^ size.astype(np.uint64)
        hashes *= k[3]
        return hashes

    def _prefixes(self, eights: Array) -> Array:
        made: Array = (((eights & _MASKS[PREFIX]) * self._k[4]) >> np.uint64(32)).astype(np.uint32)
        return made

    def _long_prefixes(self, eights: Array) -> Array:
        made: Array = ((eights * self._k[5]) >> np.uint64(32)).astype(np.uint32)
        return made


def _parts(text: bytes) -> list[bytes]:
    """The text in slices that do not split words."""
    parts, start = [], 0
    while start < len(text):
        end = start + _SLICE
        if end < len(text):
            cut = max(text.rfind(b'"', start, end), text.rfind(b" ", start, end))
            end = cut + 1 if cut >= start else len(text)
        parts.append(text[start:end])
        start = end
    return parts


def _words(text: bytes) -> tuple[Array, Array, Array]:
    """The text in lower case with zeros between its words, and where these begin and how long they are."""
    padded = bytearray(text) + bytes(_PAD)
    given = np.frombuffer(padded, np.uint8)
    data = np.frombuffer(padded.translate(_LETTERS), np.uint8)
    escapes = np.flatnonzero(given == _BACKSLASH) + 1
    if _has_letters(given, escapes):
        return _words(_ESCAPE.sub(_character, text))
    unsure = _clear_escapes(given, data, escapes)
    signs = np.empty(0, np.int64) if text.isascii() else _clear_marks(data)
    is_word = data != 0
    if len(signs):
        starts, ends = _around_signs(is_word, signs)
    else:
        edges = np.flatnonzero(is_word[1:] != is_word[:-1]) + 1
        if is_word[0]:
            edges = np.append(0, edges)
        starts, ends = edges[::2], edges[1::2]
    if len(starts) > 1:
        starts, ends = _without_names(given, starts, ends)
    if len(starts) > 1 and (ends - starts).max() > _LONG_WORD:
        starts, ends = _without_packed(given, starts, ends)
    if len(unsure) and len(starts):
        at = np.minimum(np.searchsorted(ends, unsure, "right"), len(ends) - 1)
        is_inside = (starts[at] < unsure) & (unsure < ends[at])  # after the last word there is none to be in
        starts, ends = np.append(starts, unsure[is_inside]), np.append(ends, ends[at][is_inside])
    return data, starts, ends - starts


def _has_letters(given: Array, escapes: Array) -> bool:
    r"""Whether any \uXXXX stands for more than a control character."""
    codes = escapes[given[escapes] == _U]
    if not len(codes):
        return False
    is_control = (given[codes + 1] == _ZERO) & (given[codes + 2] == _ZERO) & (given[codes + 3] <= _ZERO + 1)
    is_code = _IS_HEX[given[codes + 1]] & _IS_HEX[given[codes + 2]] & _IS_HEX[given[codes + 3]]
    return bool((is_code & ~is_control).any())


def _character(match: re.Match[bytes]) -> bytes:
    number = int(match[1], 16)
    if number < 0x80:
        return match[0] if number < 0x20 else b" "
    return b" " if 0xD800 <= number < 0xE000 else chr(number).encode()


def _clear_escapes(given: Array, data: Array, escapes: Array) -> Array:
    r"""Blank escapes: the n of `\nword`, and all of `\u001b[31m`, which colours a terminal.

    After two backslashes, in JSON within JSON or in a path, an n may or may not be an escape. Returns where words begin
    if it is.
    """
    codes = escapes[given[escapes] == _U]
    for offset in range(5 if len(codes) else 0):
        data[codes + offset] = 0
    is_colour = given[codes + 5] == _BRACKET
    codes = codes[is_colour] + 6
    while len(codes):
        is_number = _IS_COLOUR[given[codes]]
        data[codes[is_number | _IS_LETTER[given[codes]]]] = 0
        codes = codes[is_number] + 1
    letters = escapes[_IS_ESCAPE[given[escapes]]]
    is_unsure = (letters > 1) & (given[letters - 2] == _BACKSLASH)
    data[letters[~is_unsure]] = 0
    begins: Array = letters[is_unsure] + 1
    return begins


def _clear_marks(data: Array) -> Array:
    """Blank non-ASCII signs that are not letters: punctuation, arrows, boxes, emoji. Returns where CJK signs begin."""
    places = np.flatnonzero(data >= 0xC2)
    leads, seconds = data[places], data[places + 1]
    for lead, size, low, high in _MARKS:
        found = places[(leads == lead) & (seconds >= low) & (seconds <= high)]
        for offset in range(size if len(found) else 0):
            data[found + offset] = 0
    signs: Array = places[(leads >= 0xE3) & (leads <= 0xED) & (data[places] != 0)]
    return signs


def _around_signs(is_word: Array, signs: Array) -> tuple[Array, Array]:
    """The words of a text in which some signs are words by themselves."""
    begins = np.zeros(len(is_word) + 1, bool)
    begins[signs] = begins[np.minimum(signs + 3, len(is_word))] = True
    before = np.append(False, is_word)
    after = np.append(is_word, False)
    starts = np.flatnonzero(after & (begins | ~before))
    ends = np.flatnonzero(before & (begins | ~after))
    return starts, ends


def _without_names(given: Array, starts: Array, ends: Array) -> tuple[Array, Array]:
    """Leave out the names in JSON objects, and numbers, true, false and null after them: nobody searches for these."""
    names = np.flatnonzero((given[ends] == _QUOTE) & (given[ends + 1] == _COLON))
    is_kept = np.ones(len(starts), bool)
    is_kept[names] = False
    followed = names[names + 1 < len(starts)]
    end, start = ends[followed], starts[followed + 1]
    is_bare = (start - end == 2) | ((start - end == 3) & (given[end + 2] == _SPACE))
    is_kept[followed[is_bare] + 1] = False
    while len(names := names[names > 0]):  # the words before in a name such as input_tokens
        names = names[(given[ends[names - 1]] == _UNDERSCORE) & (starts[names] - ends[names - 1] == 1)] - 1
        is_kept[names] = False
    return starts[is_kept], ends[is_kept]


def _without_packed(given: Array, starts: Array, ends: Array) -> tuple[Array, Array]:
    between = given[ends[:-1]]
    is_joined = (starts[1:] - ends[:-1] == 1) & _IS_JOINT[between]
    firsts = np.flatnonzero(np.append(True, ~is_joined))
    lasts = np.append(firsts[1:], len(starts)) - 1
    packed = np.flatnonzero(ends[lasts] - starts[firsts] > _LONG_RUN)
    if not len(packed):
        return starts, ends
    is_kept = np.ones(len(starts), bool)
    for run in packed:
        is_kept[firsts[run] : lasts[run] + 1] = False
    return starts[is_kept], ends[is_kept]


def _eights(data: Array) -> Array:
    """Eight bytes from each place on, as numbers."""
    return np.ndarray((len(data) - 7,), np.dtype("<u8"), data.data, strides=(1,))


def _firsts(ordered: Array) -> Array:
    """The first place of each value in an ordered array."""
    if not len(ordered):
        return np.empty(0, np.int64)
    return np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))


def _lower(data: bytes) -> bytes:
    return data.lower()
