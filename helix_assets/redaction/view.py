"""The plain view of a line: what a person would read, without JSON escapes, colours and entities.

Rules only see the view, so each is written once for plain text; `raw_span` leads back to the bytes. A span always
covers whole escapes, so replacing one can neither remove half an escape nor break the JSON around it.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import NamedTuple

MARK = re.compile(rb"\[redacted:([a-z0-9_]+):([a-z2-7]{7})\]")
# Stands for a mark in the view. It never occurs in UTF-8, so no rule matches it, and candidates that touch it are
# dropped: what is redacted is not redacted again.
BLANK = b"\xff"

# Each alternative begins with its own letter (hence `\\\\*` where `+` would do), so that `re` looks for letters first.
_ESCAPE = re.compile(
    rb"(\\\\*(?:[nrt\"'/`bfv]|u(?!001[bB][\[\]])[0-9a-fA-F]{4}"
    rb"|(?:u001[bB]|x1[bB]|033|e)(?:\[[0-9;:?]*[@-~]|\][^\"\\\n]{0,2000}\\+(?:u0007|x07|a|007))|)"  # colour or link
    rb"|\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b\n]{0,2000}(?:\x07|\x1b\\))"  # the same, raw
    rb"|\[redacted:[a-z0-9_]+:[a-z2-7]{7}\]"
    rb"|\r"  # as when it is escaped: CRLF ends a line
    rb"|&(?:\#[0-9]{2,5}|\#x[0-9a-fA-F]{2,4}|amp|quot|apos|lt|gt);)"
)
_COLOUR = re.compile(rb"(?:\\\\*u001[bB]|\x1b)\[[0-9;]*m")
_JSON = re.compile(rb"\{|\[\s*(?:[\"{\]]|\[\s*[\"{\[0-9])")
_SPACE = re.compile(rb"[\n\t ]")
_BACKSLASH, _QUOTE = b'\\"'
_WORD_ENDS = re.compile(rb"[\n\t \"]")
_BREAK = re.compile(rb"\n")
_QUOTES = re.compile(rb"\"")
_SAMPLE = 16
_BEHIND_A_STRING = re.compile(rb"[\s,;:.)\]}\"]|\Z")
_FAR = 4_096
# A string with more quotes and line breaks in it ends early: it is not a password.
_MOST_QUOTES = 12
_ANY = 1 << 16
_STRING_ENDS = {quote: re.compile(b'[\n"' + quote + b"]") for quote in (b'"', b"'", b"`")}
_LETTERS = {b"n": b"\n", b"r": b"\n", b"t": b"\t", b"b": b" ", b"f": b" ", b"v": b" ", b"": b"\\"}
_ENTITIES = {b"amp": b"&", b"quot": b'"', b"apos": b"'", b"lt": b"<", b"gt": b">"}


class _Plain(dict[bytes, bytes]):
    """Escape -> what it stands for, cached within bounds: a log uses few different escapes."""

    def __missing__(self, escape: bytes) -> bytes:
        plain = _plain(escape)
        if len(self) < 50_000 and len(escape) < 64:
            self[escape] = plain
        return plain


def _plain(escape: bytes) -> bytes:
    if escape[:1] == b"[":
        return BLANK
    if escape[:1] == b"\x1b":
        return b""
    if escape[:1] == b"&":
        return _entity(escape[1:-1])
    if escape == b"\r":
        return b"\n"
    letters = escape.lstrip(b"\\")
    if letters[:1] == b"u" and len(letters) == 5:
        return chr(int(letters[1:], 16)).encode("utf-8", "surrogatepass")
    if len(letters) > 1:
        return b""
    return _LETTERS.get(letters, letters)


def _entity(name: bytes) -> bytes:
    if name[:1] != b"#":
        return _ENTITIES[name]
    code = int(name[2:], 16) if name[1:2] in b"xX" else int(name[1:])
    return chr(code).encode("utf-8", "surrogatepass")


_PLAIN = _Plain()


def may_be_coloured(raw: bytes) -> bool:
    """Whether the usual codes of colours may occur; cheap."""
    return b"\x1b[" in raw or b"u001b[" in raw or b"u001B[" in raw


def without_colours(raw: bytes) -> bytes:
    """Remove the usual codes of colours. The result is still the raw text."""
    return _COLOUR.sub(b"", raw)


@dataclass(frozen=True, slots=True)
class View:
    """Plain text and the way back to the raw bytes it was read from."""

    text: bytes
    plain_starts: list[int]
    raw_starts: list[int]

    def raw_span(self, start: int, end: int) -> tuple[int, int]:
        """Return the raw bytes that `text[start:end]` (not empty) stands for."""
        if not self.plain_starts:
            return start, end
        return self._raw(start), self._raw(end - 1, after=True)

    def string_end(self, start: int, end: int) -> int:
        """Return where a span has to end to stay within the JSON string, at whatever depth, that it begins in."""
        if self._begins_behind_a_string(start):
            return start
        at = self.text.find(b'"', start, end)
        if at < 0:
            return end
        inner = max(self.depth(self.text.rfind(b'"', max(0, start - 256), start)), self._is_json)
        while at >= 0 and self.depth(at) >= inner:
            at = self.text.find(b'"', at + 1, end)
        return end if at < 0 else at

    @property
    def _is_json(self) -> bool:
        return _JSON.match(self.text) is not None

    def escapes(self, at: int) -> int:
        """How many backslashes stand before a quote or before the letter that stands for a line break."""
        piece = bisect_right(self.plain_starts, at) - 1
        if at < 0 or piece < 0 or not piece % 2:
            return 0
        return self.raw_starts[piece + 1] - self.raw_starts[piece] - 1

    def _begins_behind_a_string(self, start: int) -> bool:
        """Whether the quotes right before a place do not open a string: `"\\""` and `""` are complete strings."""
        before = self.text[max(0, start - 3) : start]
        first = start - len(before) + len(before.rstrip(b'"'))
        depths = [self.depth(at) for at in range(first, start)]
        return len(depths) > 1 and (depths[-1] < max(depths) or (depths == [0, 0] and self._is_json))

    def depth(self, at: int) -> int:
        """How many strings deep a quote is: `"` 0, `\\"` 1, `\\\\\\"` 2; two backslashes before it are text."""
        slashes = self.escapes(at)
        return (slashes ^ (slashes + 1)).bit_length() - 1

    def _raw(self, at: int, *, after: bool = False) -> int:
        # Even pieces are literal text, odd ones escapes, which are covered whole.
        piece = bisect_right(self.plain_starts, at) - 1
        if piece % 2:
            return self.raw_starts[piece + after]
        return self.raw_starts[piece] + at - self.plain_starts[piece] + after


class Places(NamedTuple):
    """A piece of a view, and where strings and lines end in it. All places are counted from its beginning."""

    view: View
    offset: int
    text: bytes

    @classmethod
    def of(cls, view: View, start: int, end: int) -> "Places":
        """The piece `view.text[start:end]`."""
        return cls(view, start, view.text[start:end])

    def string_end(self, start: int, end: int) -> int:
        """Return where a span has to end to stay within the JSON string that it begins in."""
        return self.view.string_end(self.offset + start, self.offset + end) - self.offset

    def is_same_quote(self, first: int, second: int) -> bool:
        """Whether two quotes are of one kind and have as many backslashes before them."""
        if first < 0 or self.text[first] != self.text[second]:
            return False
        return self.view.escapes(self.offset + first) == self.view.escapes(self.offset + second)

    def closing(self, start: int, quote: bytes, limit: int) -> int:
        """Return where the string ends whose text begins at `start`, behind `quote`; `limit` if it goes on.

        A quote with more backslashes before it than the first one is text. `'it''s'` is one string, and so is the
        shell's `'it'\\''s'`.
        """
        level = self._level(start) if quote[:1] != b'"' else 2 * self.view.escapes(self.offset + start - 1) + 1
        at, ends = start, _STRING_ENDS[quote[:1]]
        for _ in range(_MOST_QUOTES):
            found = ends.search(self.text, at, limit)
            if found is None:
                return limit
            at = found.end()
            if found.group() == b"\n":
                if self._is_break(found.start(), level):
                    return found.start()
            elif found.group() != quote[:1]:
                if self._ends_text(found.start(), level):
                    return found.start()
            elif self._is_escaped(found.start(), start, level):
                at += quote == b"'" and self.text.startswith(b"'", at) and not _BEHIND_A_STRING.match(self.text, at + 1)
            elif self.text.startswith(quote, found.start()):
                behind = self._doubled(found.start(), start, level) if quote == b"'" else 0
                if not behind or (behind == 1 and found.start() == start):
                    return found.start()
                at += behind
        return at

    def line_end(self, line: int, at: int) -> int:
        """Return where the line that begins at `line` ends."""
        level = self._level(line)
        while (end := self.text.find(b"\n", at)) >= 0:
            if self._is_break(end, level):
                return end
            at = end + 1
        return len(self.text)

    def word_end(self, line: int, at: int, limit: int) -> int:
        """Return where the word at `at` ends, in the line that begins at `line`."""
        level = self._level(line)
        for found in _WORD_ENDS.finditer(self.text, at, limit):
            is_end = self._ends_text if found.group() == b'"' else self._is_break
            if is_end(found.start(), level):
                return found.start()
        return min(limit, len(self.text))

    def row_end(self, start: int, line_break: int) -> int:
        """Return where the line ends, or before that the JSON string that the place and the line break are in."""
        end = self.text.find(b"\n", start)
        end = len(self.text) if end < 0 else end
        level = _lowest(self.view.escapes(self.offset + line_break))
        quotes = (found.start() for found in _QUOTES.finditer(self.text, start, end))
        return next((at for at in quotes if self._ends_text(at, level)), end)

    def literal(self, start: int, end: int) -> bytes:
        """Return a piece of the text in which a backslash before a letter is one: `\\n` within a password."""
        text = self.text[start:end]
        if not _SPACE.search(text):
            return text
        level, plain = self._level(start), bytearray(text)
        for space in _SPACE.finditer(text):
            if not self._is_break(start + space.start(), level):
                plain[space.start()] = _BACKSLASH
        return bytes(plain)

    def _level(self, at: int) -> int:
        """How many backslashes a line break has here: as many as the one before. One with more is text, `\\n`."""
        before = self.text.rfind(b"\n", max(0, at - _FAR), at)
        if before >= 0:
            return _lowest(self.view.escapes(self.offset + before))
        opened = self.text.rfind(b'"', max(0, at - _FAR), at)
        if opened >= 0:
            return self.view.escapes(self.offset + opened) + 1
        breaks = islice(_BREAK.finditer(self.text, at, at + _FAR), _SAMPLE)
        return min((_lowest(self.view.escapes(self.offset + found.start())) for found in breaks), default=_ANY)

    def _ends_text(self, at: int, level: int) -> bool:
        """Whether a quote ends the JSON string whose lines are broken by `level` backslashes and an n."""
        return level != _ANY and self.view.depth(self.offset + at) < level.bit_length()

    def _is_break(self, at: int, level: int) -> bool:
        return _lowest(self.view.escapes(self.offset + at)) <= level

    def _is_escaped(self, at: int, start: int, level: int) -> bool:
        """Whether a quote belongs to the text of the string that begins at `start`."""
        if self.text[at] == _QUOTE:
            return self.view.depth(self.offset + at) > self.view.depth(self.offset + start - 1)
        unit = 1 if level == _ANY else max(1, 2 * level)
        return self.view.escapes(self.offset + at) // unit % 2 == 1

    def _doubled(self, at: int, start: int, level: int) -> int:
        """How many quotes belong to the one at `at`, which does not end its string: `''`, or the shell's `'\\''`."""
        if not self.text.startswith(b"''", at):
            return 0
        return 2 if self._is_escaped(at + 1, start, level) and self.text.startswith(b"'", at + 2) else 1


def _lowest(slashes: int) -> int:
    """The lowest bit: `\\\n` is a backslash and a line break."""
    return slashes & -slashes


def plain_view(raw: bytes) -> View:
    """Read `raw` the way a person would: escapes of any depth undone, colours dropped, marks blanked."""
    pieces = _ESCAPE.split(raw)
    if len(pieces) == 1:
        return View(raw, [], [])
    raw_starts = list(accumulate(map(len, pieces), initial=0))
    pieces[1::2] = map(_PLAIN.__getitem__, pieces[1::2])
    plain_starts = list(accumulate(map(len, pieces), initial=0))
    plain_starts.pop()
    return View(b"".join(pieces), plain_starts, raw_starts)
