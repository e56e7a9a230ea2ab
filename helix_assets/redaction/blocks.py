"""Private key blocks: whole, cut off at either end, numbered, in a diff, in an array of lines, as an array of bytes.

Belongs here: which lines of a PEM, PGP, OpenSSH or PuTTY block are key material, and which arrays of numbers. Each line
is judged on its own, so text after a header without an END stays.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

TRIGGER = (
    r"-----? ?(?:BEGIN|END) (?:[A-Z0-9 ]{0,30}PRIVATE KEY|OpenVPN Static key)|PuTTY-User-Key-File|BEGIN SSH2 ENCRYPTED"
    # Agents write what a command printed as arrays of numbers: those have a name, and no key.
    r"|Private-Lines: \d|(?:^|[\"'(=n\t\n]|→|json:|[Kk]ey\\*\"?:) ?\[(?:\s|\\+[nr])*(?:[0-9]{1,3},(?:\s|\\+[nr])*){16}"
)
_BOUNDARY = re.compile(
    rb"-----? ?(BEGIN|END) (?:[A-Z0-9 ]{0,30}PRIVATE KEY(?: BLOCK)?|OpenVPN Static key V1) ?-?-----?"
    rb"|(Private-Lines): \d+"
)
# A key pair of Solana, as its tools write it: 64 bytes.
_ARRAY = re.compile(rb"\[\s{0,64}((?:[0-9]{1,3}\s{0,64},\s{0,64}){63}[0-9]{1,3})\s{0,64}\]")
_NUMBER = re.compile(rb"[0-9]+")
_BREAK = re.compile(rb"[\n\x00]|[\"']\s*,\s*[\"']|<br ?/?>|(?=-----)")
_NUMBERING = (
    rb"[ \t\"'>|]*(?:[\w./~-]{1,128}:(?=[^\s]))?(?:[+-][ \t]{1,8}(?=\d))?"  # grep's file, a diff's sign
    rb"(?:\d{1,6}[ \t]*(?:\xe2\x86\x92|[:|\t)]|-(?= )| (?=[A-Za-z0-9+/=]{2,}[ \t]*\Z))[ \t]?)?[+\-> |]{0,3}[ \t\"']*"
)
_ONLY_NUMBERING = re.compile(_NUMBERING + rb"\Z")
_KEY_LINE = re.compile(_NUMBERING + rb"([A-Za-z0-9+/_-]{2,}={0,3})[ \t\"',\\;]*\Z")
_LONG_KEY_LINE = re.compile(_NUMBERING + rb"([A-Za-z0-9+/_-]{16,}={0,3})")
_OTHER_LINE = re.compile(
    _NUMBERING + rb"(?:[A-Za-z][A-Za-z-]{2,24}: ?[^\n]{0,120}|=[A-Za-z0-9+/]{4}|\.\.\.|)[ \t\"',\\]*\Z"
)
_TAIL = re.compile(rb"[ \t]+([A-Za-z0-9+/]{1,15}={0,3})")
_SPACES = re.compile(rb"[ \t]+(?=[A-Za-z0-9+/=]{16})")


def private_key_spans(view: bytes) -> Iterator[tuple[int, int]]:
    """Yield the spans of key material in order; neighbouring lines of one string make one span."""
    end_before = 0
    for found in _BOUNDARY.finditer(view):
        if found.start() < end_before:
            continue
        if found.group(1) == b"END":
            spans = list(_lines_before(view, end_before, found.start()))[::-1]
        else:
            spans = list(_lines_after(view, found.end()))
        yield from _joined(view, spans)
        end_before = spans[-1][1] if spans else found.end()


def key_pair_spans(view: bytes) -> Iterator[tuple[int, int]]:
    """Yield the spans of arrays of 64 random bytes. Tables of 64 numbers are small, in order or repeat themselves."""
    for array in _ARRAY.finditer(view):
        numbers = [int(number) for number in _NUMBER.findall(array.group(1))]
        halves = (numbers[:32], numbers[32:])
        is_random = all(len(set(half)) > 22 and sum(n > 127 for n in half) > 6 for half in halves)
        rising = sum(first < second for first, second in pairwise(numbers))
        if is_random and rising < 48 and max(numbers) < 256:
            yield array.span(1)


def _joined(view: bytes, spans: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    if not any(end - start >= 16 for start, end in spans):
        return
    start, end = spans[0]
    for next_start, next_end in spans[1:]:
        if view[end:next_start].strip():
            yield start, end
            start = next_start
        end = next_end
    yield start, end


def _lines_after(view: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Walk the lines after a BEGIN until one is neither key material nor header."""
    while at < len(view):
        line_break = _BREAK.search(view, at)
        line_end = line_break.start() if line_break else len(view)
        key = _key_of(view, at, line_end)
        if key is None and not _OTHER_LINE.match(view, at, line_end):
            return
        yield from key or ()
        if line_break is None or line_break.end() == line_end:
            return
        at = line_break.end()


def _lines_before(view: bytes, floor: int, at: int) -> Iterator[tuple[int, int]]:
    """Walk the lines before an END, last first, while they are key material. `floor` is the end of the block before."""
    floor = max(floor, at - 65_536)
    breaks = list(_BREAK.finditer(view, floor, at))
    line_end = at
    for line_break in reversed(breaks):
        key = _key_of(view, line_break.end(), line_end)
        if key is None and not _ONLY_NUMBERING.match(view, line_break.end(), line_end):
            return
        yield from reversed(key or [])
        line_end = line_break.start()
    yield from reversed(_key_of(view, floor, line_end) or [])


def _key_of(view: bytes, start: int, end: int) -> list[tuple[int, int]] | None:
    """Return the spans of key material in one line, or None if the line is something else."""
    key = _KEY_LINE.match(view, start, end)
    if key:
        return [key.span(1)]
    key = _LONG_KEY_LINE.match(view, start, end)
    if key is None:
        return None
    # Lines that were folded into one: every long piece is key material.
    spans = [key.span(1)]
    while (space := _SPACES.match(view, spans[-1][1], end)) and (more := _LONG_KEY_LINE.match(view, space.end(), end)):
        spans.append(more.span(1))
    tail = _TAIL.match(view, spans[-1][1], end)
    return [*spans, tail.span(1)] if tail and len(spans) > 1 else spans
