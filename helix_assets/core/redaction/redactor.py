"""Replaces secrets by marks, in text and in chunks of raw JSONL lines.

Belongs here: marks and their tags, the walk over the lines of a chunk, what happens when a line cannot be redacted.
"""

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import orjson

from helix_assets.core.redaction import assignment, blocks, rules, tables
from helix_assets.core.redaction.finder import Finder, Span
from helix_assets.core.redaction.trigger import Kept, Trigger
from helix_assets.core.redaction.view import BLANK, View, may_be_coloured, plain_view, without_colours

# Part of the version: raise it when the judgement changes while the rules do not.
_REVISION = 7
# A mark can bring the text on both its sides together, so what stands around it is read again until nothing is found.
_MOST_PASSES = 4
_AROUND = 2_048
# What is found so near to where such a piece was cut may be the half of something.
_EDGE = 64
WITHHELD = "[withheld: redaction failed]"
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\Z")
_UNQUOTED = re.compile(rb"((?:\\)*\")[ \t]*:[ \t]*\Z")


@dataclass(frozen=True)
class Redacted:
    """Redacted text and the number of secrets that were in it."""

    text: str
    hits: int


@dataclass(frozen=True)
class RedactedLines:
    """A redacted chunk; unpacks as `data, hits`. `withheld` lines were replaced by stand-in records."""

    data: bytes
    hits: int
    withheld: int = 0

    def __iter__(self) -> Iterator[bytes | int]:
        return iter((self.data, self.hits))


class Redactor:
    """Redacts by the built-in rules and the user's own; `allow` are texts that are no secrets wherever they stand.

    Pickles as its arguments; patterns are compiled when first needed, in each process. `kept` gives what `built` once
    gave, or None; what it gives is not trusted to be for these rules.
    """

    def __init__(
        self, key: bytes, extra_rules: Sequence[rules.Rule] = (), allow: Sequence[str] = (), kept: Kept | None = None
    ) -> None:
        self._arguments = (key, tuple(extra_rules), tuple(allow), kept)
        self._key = key if len(key) <= 64 else hashlib.blake2b(key).digest()
        self._finder = Finder(extra_rules, allow)
        self._trigger = Trigger(extra_rules, self._key, kept)

    def __reduce__(self) -> tuple[object, ...]:
        return Redactor, self._arguments

    @cached_property
    def version(self) -> str:
        """Short hash of all rules in force; the key is no part of it."""
        patterns = (
            assignment.ASSIGNMENT,
            assignment.FLAG,
            assignment.COMMAND,
            *assignment.TRIGGERS,
            blocks.TRIGGER,
            *tables.TRIGGERS,
        )
        stated = repr((_REVISION, rules.TOKENS, rules.CONTEXTS, patterns, self._arguments[1:3]))
        return hashlib.blake2b(stated.encode(), digest_size=6).hexdigest()

    def prepare(self) -> None:
        """Build now what reading much needs, so that processes forked from this one share it."""
        self._trigger.prepare()

    def built(self) -> bytes | None:
        """What this process had to build to read much, for other processes that do; None if it did not."""
        return self._trigger.built()

    def text(self, text: str) -> Redacted:
        """Redact a plain string: cwd, branch, title, message, file; one that cannot be redacted is withheld whole."""
        raw = text.encode("utf-8", "surrogatepass")
        try:
            if not self._trigger.occurs_in(raw):
                return Redacted(text, 0)
            redacted, hits = self._bytes(raw)
            if hits and _was_json(raw, redacted):
                return Redacted(f'"{WITHHELD}"', 1)
        except Exception:  # noqa: BLE001 - whatever goes wrong, the text must not pass unredacted
            return Redacted(WITHHELD, 1)
        return Redacted(redacted.decode("utf-8", "surrogatepass"), hits) if hits else Redacted(text, 0)

    def lines(self, chunk: bytes) -> RedactedLines:
        """Redact whole raw JSONL lines; their number and order stay, bytes that are not hit stay as they are."""
        out: list[bytes] = []
        at = hits = withheld = 0
        for start, end in self._trigger.lines_hit(chunk):
            line = chunk[start:end]
            redacted, found = self._line(line)
            if redacted is not line:
                out += (chunk[at:start], redacted)
                at = end
                hits += found
                withheld += found == 0
        if not out:
            return RedactedLines(chunk, 0)
        out.append(chunk[at:])
        return RedactedLines(b"".join(out), hits, withheld)

    def scan(self, data: bytes) -> int:
        """Count the secrets that the rules would still redact in stored bytes; marks do not count."""
        if data[:1] in (b"{", b"["):
            result = self.lines(data)
            return result.hits + result.withheld
        return self._bytes(data)[1] if self._trigger.occurs_in(data) else 0

    def _line(self, line: bytes) -> tuple[bytes, int]:
        """Redact one line; a line that cannot be redacted safely becomes a stand-in with 0 hits."""
        try:
            redacted, hits = self._bytes(line)
            if hits and _was_json(line, redacted):
                return _stand_in(line), 0
        except Exception:  # noqa: BLE001 - whatever goes wrong, the line must not pass unredacted
            return _stand_in(line), 0
        return (redacted, hits) if hits else (line, 0)

    def _bytes(self, raw: bytes) -> tuple[bytes, int]:
        hits = 0
        # Most lines with colours are worth a look for these only.
        if may_be_coloured(raw) and not self._trigger.occurs_in(without_colours(raw)):
            return raw, 0
        pieces: list[tuple[int, int]] | None = None
        for _ in range(_MOST_PASSES):
            view = plain_view(raw)
            spans = self._spans(view, pieces or [(0, len(view.text))])
            if not spans:
                break
            raw = self._replaced(raw, view, spans)
            hits += len(spans)
            after = _blanked(view.text, spans)
            pieces = _around(spans, len(after))
            if not any(self._trigger.occurs_in(after[start:end]) for start, end in pieces):
                break
        return raw, hits

    def _spans(self, view: View, pieces: list[tuple[int, int]]) -> list[Span]:
        found = []
        for start, end in pieces:
            piece = view.text[start:end]
            worth = self._trigger.worth(piece)
            lowest = _EDGE if start else 0
            highest = len(piece) - _EDGE if end < len(view.text) else len(piece)

            def string_end(begin: int, last: int, offset: int = start) -> int:
                return view.string_end(offset + begin, offset + last) - offset

            for span in self._finder.spans(piece, worth, string_end) if worth else ():
                if span.start >= lowest and span.end <= highest:
                    found.append(Span(start + span.start, start + span.end, span.kind))
        return found

    def _replaced(self, raw: bytes, view: View, spans: list[Span]) -> bytes:
        out: list[bytes] = []
        at = 0
        for span in spans:
            secret = view.text[span.start : span.end]
            start, end = _whole_characters(raw, *view.raw_span(span.start, span.end))
            quote = _missing_quote(raw, start, end)
            out += (raw[at:start], quote, _mark(self._key, span.kind, secret), quote)
            at = end
        out.append(raw[at:])
        return b"".join(out)


@lru_cache(maxsize=1024)
def _mark(key: bytes, kind: str, secret: bytes) -> bytes:
    digest = hashlib.blake2b(secret, key=key, digest_size=5).digest()
    tag = base64.b32encode(digest)[:7].lower()
    return b"[redacted:%s:%s]" % (kind.encode(), tag)


def strip_tags(text: str) -> str:
    """Turn `[redacted:kind:tag]` into `[redacted:kind]`, for exports that two stores have in common."""
    return re.sub(r"\[redacted:([a-z0-9_]+):[a-z2-7]{7}\]", r"[redacted:\1]", text)


def _blanked(text: bytes, spans: list[Span]) -> bytes:
    """Return the view as it will be once the spans are marks."""
    edges = [0, *(edge for span in spans for edge in (span.start, span.end)), len(text)]
    return BLANK.join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))


def _around(spans: list[Span], length: int) -> list[tuple[int, int]]:
    """Return the places around the marks that take those of the spans, in the view as it will be."""
    pieces: list[tuple[int, int]] = []
    shorter = 0
    for span in spans:
        at = span.start - shorter
        start, end = max(0, at - _AROUND), min(length, at + _AROUND)
        pieces.append((pieces.pop()[0] if pieces and start <= pieces[-1][1] else start, end))
        shorter += span.end - span.start - len(BLANK)
    return pieces


def _stand_in(line: bytes) -> bytes:
    return b'{"type":"helix_withheld","reason":"redaction_failed","bytes":%d}' % len(line)


def _was_json(before: bytes, after: bytes) -> bool:
    return before[:1] in (b"{", b"[") and not _is_json(after) and _is_json(before)


def _is_json(line: bytes) -> bool:
    try:
        orjson.loads(line)
    except ValueError:
        return False
    return True


def _whole_characters(raw: bytes, start: int, end: int) -> tuple[int, int]:
    """Widen a span that begins or ends inside a UTF-8 character."""
    while start > 0 and 0x80 <= raw[start] <= 0xBF:
        start -= 1
    while end < len(raw) and 0x80 <= raw[end] <= 0xBF:
        end += 1
    return start, end


def _missing_quote(raw: bytes, start: int, end: int) -> bytes:
    """Return the quote that a mark needs where it takes the place of a JSON number: the one that ended the key."""
    if not _NUMBER.match(raw, start, end) or raw[end : end + 1] not in (b",", b"}", b"]", b"\n", b" ", b"\\", b""):
        return b""
    key_end = _UNQUOTED.search(raw, max(0, start - 32), start)
    return key_end.group(1) if key_end else b""
