"""Replaces secrets by marks, in text and in chunks of raw JSONL lines.

Belongs here: marks and their tags, the walk over the lines of a chunk, what happens when a line cannot be redacted.
"""

import base64
import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple, Protocol

import orjson

from helix_assets.redaction import assignment, blocks, manifests, rules, tables
from helix_assets.redaction.finder import Finder, Span
from helix_assets.redaction.judge import is_date, is_wordlike
from helix_assets.redaction.numbers import redacted_arrays
from helix_assets.redaction.trigger import Kept, Trigger
from helix_assets.redaction.view import BLANK, MARK, Places, View, may_be_coloured, plain_view, without_colours

# Part of the version: raise it when judgements change but the rules do not.
_REVISION = 10
# A mark joins the texts on its two sides, so the text around it is read again until nothing is found.
_MOST_PASSES = 4
_AROUND = 2_048
# A find this close to where such a piece was cut may be half of something.
_EDGE = 64
WITHHELD = "[withheld: redaction failed]"
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\Z")
# The rest of a secret has a digit, or a small letter before a capital.
_SHORTEST_REST = 4
_REST = re.compile(rb"[A-Za-z0-9+/=_-]*(?:[0-9]|[a-z][A-Z])[A-Za-z0-9+/=_-]*")
_ENDS_IN_MARK = re.compile(MARK.pattern + rb"\Z")
_NUMBERS = re.compile(rb"(?:[0-9]{1,3}\s*,\s*){9,}[0-9]{1,3}")
_REAL_QUOTE = re.compile(rb"(?<!\\)(?:\\\\)*\"")
_UNQUOTED = re.compile(rb"((?:\\)*\")[ \t]*:[ \t]*\Z")


@dataclass(frozen=True)
class Redacted:
    """Redacted text and the number of secrets that were in it."""

    text: str
    hits: int


@dataclass(frozen=True)
class RedactedLines:
    """A redacted chunk; unpacks as `data, hits`. `withheld` counts lines that were replaced by stand-in records."""

    data: bytes
    hits: int
    withheld: int = 0

    def __iter__(self) -> Iterator[bytes | int]:
        return iter((self.data, self.hits))


@dataclass(frozen=True)
class RedactedPieces:
    """The redacted pieces of one text; `across` has the first and last piece of each secret that is split."""

    texts: Sequence[str]
    hits: int
    across: frozenset[tuple[int, int]] = frozenset()


class _Cut(NamedTuple):
    """What replaces `raw[start:end]`."""

    start: int
    end: int
    mark: bytes


class _Edges:
    """Where the pieces of a text end, while marks replace secrets in it.

    A mark belongs to the first piece that contained a part of the secret.
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._ends = list(accumulate(map(len, pieces)))
        self.across: set[tuple[int, int]] = set()

    def follow(self, cuts: Sequence[_Cut]) -> None:
        for start, end, _ in cuts:
            first, last = bisect_right(self._ends, start), bisect_right(self._ends, end - 1)
            if first < last:
                self.across.add((first, last))
        moved, at, shift = [], 0, 0
        for edge in self._ends:
            while at < len(cuts) and cuts[at].end <= edge:
                shift += len(cuts[at].mark) - cuts[at].end + cuts[at].start
                at += 1
            is_inside = at < len(cuts) and cuts[at].start < edge
            moved.append(shift + (cuts[at].start + len(cuts[at].mark) if is_inside else edge))
        self._ends = moved

    def pieces(self, raw: bytes) -> list[bytes]:
        return [raw[start:end] for start, end in pairwise([0, *self._ends])]


class Texts(Protocol):
    """What redacts plain strings."""

    def text(self, text: str, /) -> Redacted:
        """Redact a plain string."""


class Redactor:
    """Redacts by the built-in rules and the user's own; texts in `allow` are never secrets.

    Pickles as its arguments; patterns are compiled when first needed, in each process. `kept` returns what `built`
    returned earlier, or None; it is checked whether that is for these rules.
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
        """Short hash of all rules in force, without the key."""
        patterns = (
            assignment.ASSIGNMENT,
            assignment.FLAG,
            assignment.COMMAND,
            *assignment.TRIGGERS,
            blocks.TRIGGER,
            manifests.TRIGGER,
            *tables.TRIGGERS,
        )
        stated = repr((_REVISION, rules.TOKENS, rules.CONTEXTS, patterns, self._arguments[1:3]))
        return hashlib.blake2b(stated.encode(), digest_size=6).hexdigest()

    def prepare(self) -> None:
        """Build now what is needed to read much text, so that processes forked from this one share it."""
        self._trigger.prepare()

    def built(self) -> bytes | None:
        """What this process had to build to read much text, for other processes; None if it did not."""
        return self._trigger.built()

    def text(self, text: str) -> Redacted:
        """Redact a plain string: cwd, branch, title, message, file. If that fails, all of it is withheld."""
        raw = text.encode("utf-8", "surrogatepass")
        try:
            if not self._trigger.occurs_in(raw):
                return Redacted(text, 0)
            redacted, hits = self._with_arrays(raw)
            if hits and _was_json(raw, redacted):
                return Redacted(f'"{WITHHELD}"', 1)
        except Exception:  # noqa: BLE001 - whatever goes wrong, the text must not pass unredacted
            return Redacted(WITHHELD, 1)
        return Redacted(redacted.decode("utf-8", "surrogatepass"), hits) if hits else Redacted(text, 0)

    def lines(self, chunk: bytes) -> RedactedLines:
        """Redact complete raw JSONL lines. Their number and order stay, and so do all bytes without secrets."""
        out: list[bytes | memoryview] = []
        at = hits = withheld = 0
        kept = memoryview(chunk)  # unchanged bytes are copied once, not twice
        for start, end in self._trigger.lines_hit(chunk):
            line = chunk[start:end]
            redacted, found = self._line(line)
            if redacted is not line:
                out += (kept[at:start], redacted)
                at = end
                hits += found
                withheld += found == 0
        if not out:
            return RedactedLines(chunk, 0)
        out.append(kept[at:])
        return RedactedLines(b"".join(out), hits, withheld)

    def pieces(self, texts: Sequence[str], *, is_open: bool = False, heals: bool = False) -> RedactedPieces:
        """Redact the pieces of one text together.

        A text that `is_open` may continue: what may be the beginning of a token at its end is redacted. With `heals`,
        the pieces were redacted one by one before, and the rest of a secret after a mark that ends a piece is removed.
        """
        pieces = [text.encode("utf-8", "surrogatepass") for text in texts]
        try:
            left = _healed(pieces) if heals else 0
            raw, hits, edges = b"".join(pieces), 0, _Edges(pieces)
            if self._trigger.occurs_in(raw):
                raw, hits = self._bytes(raw, edges)
            if is_open:
                raw, begun = self._without_beginning(raw, edges)
                hits += begun
        except Exception:  # noqa: BLE001 - as for a text
            withheld = [WITHHELD, *[""] * (len(texts) - 1)]
            return RedactedPieces(withheld, 1, frozenset({(0, len(texts) - 1)}))
        if not hits and not left:
            return RedactedPieces(texts, 0)
        redacted = [piece.decode("utf-8", "surrogatepass") for piece in edges.pieces(raw)]
        return RedactedPieces(redacted, hits + left, frozenset(edges.across))

    def scan(self, data: bytes) -> int:
        """Count the secrets that the rules would still redact in stored bytes; marks do not count."""
        if data[:1] in (b"{", b"["):
            result = self.lines(data)
            return result.hits + result.withheld
        return self._with_arrays(data)[1] if self._trigger.occurs_in(data) else 0

    def _with_arrays(self, raw: bytes) -> tuple[bytes, int]:
        raw, in_arrays = redacted_arrays(raw, self._bytes)
        raw, hits = self._bytes(raw)
        return raw, hits + in_arrays

    def _line(self, line: bytes) -> tuple[bytes, int]:
        """Redact one line. A line that cannot be redacted safely is replaced by a stand-in with 0 hits."""
        try:
            redacted, hits = self._with_arrays(line)
            if hits and _was_json(line, redacted):
                return stand_in(line), 0
        except Exception:  # noqa: BLE001 - whatever goes wrong, the line must not pass unredacted
            return stand_in(line), 0
        return (redacted, hits) if hits else (line, 0)

    def _without_beginning(self, raw: bytes, edges: _Edges) -> tuple[bytes, int]:
        """Replace what may be the beginning of a token whose rest is still to come."""
        view = plain_view(raw)
        span = self._finder.beginning(view.text)
        if span is None:
            return raw, 0
        cuts = self._cuts(raw, view, [span])
        edges.follow(cuts)
        return _replaced(raw, cuts), 1

    def _bytes(self, raw: bytes, edges: _Edges | None = None) -> tuple[bytes, int]:
        hits = 0
        # Most lines with colours are worth a look only because of these.
        if may_be_coloured(raw) and not self._trigger.occurs_in(without_colours(raw)):
            return raw, 0
        pieces: list[tuple[int, int]] | None = None
        for _ in range(_MOST_PASSES):
            view = plain_view(raw)
            spans = self._spans(view, pieces or [(0, len(view.text))])
            if not spans:
                break
            cuts = self._cuts(raw, view, spans)
            raw = _replaced(raw, cuts)
            if edges is not None:
                edges.follow(cuts)
            hits += len(spans)
            after = _blanked(view.text, spans)
            pieces = _around(spans, len(after))
            if not any(self._trigger.occurs_in(after[start:end]) for start, end in pieces):
                break
        return raw, hits

    def _spans(self, view: View, pieces: list[tuple[int, int]]) -> list[Span]:
        found = []
        for start, end in pieces:
            places = Places.of(view, start, end)
            worth = self._trigger.worth(places.text)
            lowest = _EDGE if start else 0
            highest = len(places.text) - _EDGE if end < len(view.text) else len(places.text)
            for span in self._finder.spans(places, worth) if worth else ():
                if span.start >= lowest and span.end <= highest:
                    found.append(Span(start + span.start, start + span.end, span.kind))
        return found

    def _cuts(self, raw: bytes, view: View, spans: list[Span]) -> list[_Cut]:
        cuts = []
        for span in spans:
            secret = view.text[span.start : span.end]
            start, end = _whole_characters(raw, *view.raw_span(span.start, span.end))
            quote = _missing_quote(raw, start, end)
            cuts.append(_Cut(start, end, quote + _mark(self._key, span.kind, secret) + quote))
        return cuts


def _replaced(raw: bytes, cuts: Sequence[_Cut]) -> bytes:
    out: list[bytes] = []
    at = 0
    for start, end, mark in cuts:
        out += (raw[at:start], mark)
        at = end
    out.append(raw[at:])
    return b"".join(out)


def _healed(pieces: list[bytes]) -> int:
    """Remove what follows a mark that ends a piece, if it may be the rest of the secret. Returns in how many pieces."""
    healed, is_behind = 0, False
    for place, piece in enumerate(pieces):
        rest = _REST.match(piece) if is_behind else None
        if rest and len(rest.group()) >= _SHORTEST_REST and not is_wordlike(rest.group()) and not is_date(rest.group()):
            piece = pieces[place] = piece[rest.end() :]  # noqa: PLW2901 - the rest of it decides about the next
            healed += 1
        is_behind = _ENDS_IN_MARK.search(piece, max(0, len(piece) - _EDGE)) is not None or (is_behind and not piece)
    return healed


@lru_cache(maxsize=1024)
def _mark(key: bytes, kind: str, secret: bytes) -> bytes:
    digest = hashlib.blake2b(secret, key=key, digest_size=5).digest()
    tag = base64.b32encode(digest)[:7].lower()
    return b"[redacted:%s:%s]" % (kind.encode(), tag)


def strip_tags(text: str) -> str:
    """Turn `[redacted:kind:tag]` into `[redacted:kind]`, for exports that must be the same in two stores."""
    return re.sub(r"\[redacted:([a-z0-9_]+):[a-z2-7]{7}\]", r"[redacted:\1]", text)


def _blanked(text: bytes, spans: list[Span]) -> bytes:
    """Return the view as it will be once marks have replaced the spans."""
    edges = [0, *(edge for span in spans for edge in (span.start, span.end)), len(text)]
    return BLANK.join(text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True))


def _around(spans: list[Span], length: int) -> list[tuple[int, int]]:
    """Return the places around the marks that replace the spans, in the view as it will be."""
    pieces: list[tuple[int, int]] = []
    shorter = 0
    for span in spans:
        at = span.start - shorter
        start, end = max(0, at - _AROUND), min(length, at + _AROUND)
        pieces.append((pieces.pop()[0] if pieces and start <= pieces[-1][1] else start, end))
        shorter += span.end - span.start - len(BLANK)
    return pieces


def stand_in(line: bytes) -> bytes:
    """The record that replaces a line that cannot be redacted."""
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
    """Return the quote that a mark needs if it replaces a JSON number, the one that ended the key, or several."""
    if _NUMBERS.fullmatch(raw, start, end):
        return b'"' if raw[:1] in (b"{", b"[") and len(_REAL_QUOTE.findall(raw, 0, start)) % 2 == 0 else b""
    if not _NUMBER.match(raw, start, end) or raw[end : end + 1] not in (b",", b"}", b"]", b"\n", b" ", b"\\", b""):
        return b""
    key_end = _UNQUOTED.search(raw, max(0, start - 32), start)
    return key_end.group(1) if key_end else b""
