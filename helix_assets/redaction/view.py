"""The plain view of a line: what a person would read, without JSON escapes, colours and entities.

Rules only see the view, so each is written once for plain text; `raw_span` leads back to the bytes. A span always
covers whole escapes, so replacing one can neither remove half an escape nor break the JSON around it.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

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
        inner = max(self._depth(self.text.rfind(b'"', max(0, start - 256), start)), self.text[:1] in (b"{", b"["))
        while at >= 0 and self._depth(at) >= inner:
            at = self.text.find(b'"', at + 1, end)
        return end if at < 0 else at

    def _begins_behind_a_string(self, start: int) -> bool:
        """Whether the quotes right before a place do not open a string: `"\\""` and `""` are complete strings."""
        before = self.text[max(0, start - 3) : start]
        first = start - len(before) + len(before.rstrip(b'"'))
        depths = [self._depth(at) for at in range(first, start)]
        return len(depths) > 1 and (depths[-1] < max(depths) or (depths == [0, 0] and self.text[:1] in (b"{", b"[")))

    def _depth(self, at: int) -> int:
        """How many strings deep a quote is: `"` 0, `\\"` 1, `\\\\\\"` 2; two backslashes before it are text."""
        piece = bisect_right(self.plain_starts, at) - 1
        if at < 0 or piece < 0 or not piece % 2:
            return 0
        slashes = self.raw_starts[piece + 1] - self.raw_starts[piece] - 1
        return (slashes ^ (slashes + 1)).bit_length() - 1

    def _raw(self, at: int, *, after: bool = False) -> int:
        # Even pieces are literal text, odd ones escapes, which are covered whole.
        piece = bisect_right(self.plain_starts, at) - 1
        if piece % 2:
            return self.raw_starts[piece + after]
        return self.raw_starts[piece] + at - self.plain_starts[piece] + after


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
