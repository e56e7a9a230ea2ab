"""Finds the spans of secrets in a plain view, by all rules in force.

Belongs here: trying rules, and judging and merging their matches. Not here: what replaces a span (`redactor.py`).
"""

import base64
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from helix_assets.redaction import assignment, blocks, manifests, tables
from helix_assets.redaction.engine import Pattern, RuleError, compile_pattern, compile_user_pattern
from helix_assets.redaction.judge import (
    is_blob,
    is_cache_key,
    is_name,
    is_norm,
    is_placeholder,
    is_reference,
    is_slug,
    is_test_name,
    is_uuid,
    is_version,
    is_wordlike,
    looks_chosen,
    looks_generated,
)
from helix_assets.redaction.names import kind_of
from helix_assets.redaction.rules import TOKENS, Check, Rule
from helix_assets.redaction.trigger import Worth
from helix_assets.redaction.view import BLANK, Places
from helix_assets.redaction.words import reads_as_words

# How many bytes at a time a person's own pattern reads, by how many these pieces overlap, and how long a match may be.
_PIECE = 16_384
_OVERLAP = 4_096
_LONGEST = 1 << 20
# How much of a value is judged, and how much of a token is read: many in a row would each be read to the end otherwise.
_JUDGED = 128
_MOST_OF_TOKEN = 8_192
# A prefix of this length identifies a token, and this much after it the beginning of one.
_LEAST_PREFIX = 3
_BEGUN = re.compile(rb"[A-Za-z0-9_.+/=-]{6,}\Z")
_COOKIE = re.compile(rb"([^\s=;,\"']{1,80})=([^\s;,\"'\xff]+)")
_NO_SESSION = re.compile(rb"(?i)_ga|_gid|_fbp|expires|max-age")
_CODE = re.compile(rb"[(){}<>?!|]")
_WORD = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_NO_WORD = re.compile(rb"[^A-Za-z0-9_]")
_HYPHEN, _NEWLINE = b"-\n"
_HASH_OF = re.compile(rb"(?i)sha(?:1|224|256|384|512)[=:-]\Z")
_BLOB = re.compile(rb"[A-Za-z0-9+/_=-]{64}")
_BLOB_LENGTH = 64
_LONGEST_LINE = 100
_DIGIT = re.compile(rb"[0-9]")
_DIGITS = b"0123456789"
_OWN_NAME = re.compile(rb"(?i)password|passwd|secret|token")
_HEX = re.compile(rb"[0-9a-fA-F]+\Z")
_TAG = re.compile(rb"\A</?[a-z]{1,10}>|</?[a-z]{1,10}>\Z")
# A full line of base64.
_FULL_LINE = re.compile(rb"[A-Za-z0-9+/]{60,76}\Z")
_IDENTIFIER = re.compile(
    rb"\w+=.*|[a-z_-]+\d\Z|(?:[a-z]{1,7}|[a-z]*[_-][a-z_-]*)\d\d\Z|v?\d+(?:[.x]\d+)*[a-zA-Z]{0,6}\Z|[a-z]+(?:[_.-][a-z]+\d?)+\Z|[a-z]{2,8}_\d+\Z"
)


# The last word of an unfinished text, if a name, an address or a header comes before it.
_VALUE_AT_THE_END = re.compile(
    rb"(?i)(?:://[^\s/@]*:|(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|key|auth|bearer|basic|credentials?)[\w-]{0,24}"
    rb"[\"'`]{0,2}\s{0,3}(?:[:=]|->|is|\xe2\x86\x92)?\s{0,3}[\"'`(]{0,2})([^\s\"'`]{1,512})\Z"
)


class Span(NamedTuple):
    """A secret in the view: `text[start:end]`, and its kind."""

    start: int
    end: int
    kind: str


class Finder:
    """Finds secrets in plain views. Patterns are compiled when first needed."""

    def __init__(self, extra_rules: Sequence[Rule], allow: Sequence[str]) -> None:
        self._extra = [(_own(rule), compile_user_pattern(rule.name, rule.pattern)) for rule in extra_rules]
        self._allow = frozenset(text.encode("utf-8", "surrogatepass") for text in allow)
        self._compiled: dict[str, Pattern] = {}
        self._by_first_byte: dict[int, list[tuple[bytes, Rule]]] = defaultdict(list)
        for rule in TOKENS:
            self._by_first_byte[ord(rule.keyword[0])].append((rule.keyword.encode(), rule))

    @cached_property
    def _assignments(self) -> tuple[Pattern, ...]:
        return tuple(map(compile_pattern, (assignment.ASSIGNMENT, assignment.FLAG, assignment.COMMAND)))

    @cached_property
    def _table_heads(self) -> Pattern:
        return compile_pattern("|".join(tables.TRIGGERS), never_capture=True)

    def spans(self, places: Places, worth: Worth) -> list[Span]:
        """Return the secrets in a piece of a view in order, overlaps merged. None goes beyond its JSON string."""
        view = places.text
        found = [*(self._tokens(view, worth.tokens) if worth.tokens else ()), *self._assigned(places)]
        for rule in worth.contexts:
            found += self._matches(rule, self._pattern(rule), view)
        if worth.blocks:
            found += [Span(*span, "private_key") for span in blocks.private_key_spans(view)]
            found += [Span(*span, "private_key") for span in blocks.key_pair_spans(view)]
            found += [Span(*span, "secret") for span in manifests.manifest_secrets(view)]
        if worth.tables:
            heads = (head.start() for head in self._table_heads.finditer(view))
            found += [Span(*cell) for cell in (*tables.cells_below(places, heads), *tables.listed_values(view))]
        text = view.decode("utf-8", "replace").casefold() if self._extra else ""
        for rule, pattern in self._extra:
            if rule.keyword.casefold() in text:
                found += self._own_matches(rule, pattern, view)
        found = [Span(span.start, places.string_end(span.start, span.end), span.kind) for span in found]
        if self._allow:
            found = [span for span in found if view[span.start : span.end] not in self._allow]
        return _merged([span for span in found if span.start < span.end])

    def beginning(self, view: bytes) -> Span | None:
        """The beginning of a token that the end of the view may have cut off, or None."""
        for found in self._keywords.finditer(view, max(0, len(view) - _MOST_OF_TOKEN)):
            body = view[found.end() :]
            if _BEGUN.match(body) and _begins_word(view, found.start()) and not is_wordlike(body[:_JUDGED]):
                return Span(found.start(), len(view), self._named[found.group()])
        last = _VALUE_AT_THE_END.search(view, max(0, len(view) - _MOST_OF_TOKEN))
        if last and not is_wordlike(last.group(1)):
            return Span(last.start(1), len(view), "unfinished")
        return None

    @cached_property
    def _named(self) -> dict[bytes, str]:
        """The kind of each keyword that is long enough to identify a token by its beginning."""
        return {rule.keyword.encode(): rule.kind or rule.name for rule in TOKENS if len(rule.keyword) >= _LEAST_PREFIX}

    @cached_property
    def _keywords(self) -> re.Pattern[bytes]:
        return re.compile(b"|".join(map(re.escape, sorted(self._named, key=len, reverse=True))))

    def _pattern(self, rule: Rule) -> Pattern:
        compiled = self._compiled.get(rule.pattern)
        if compiled is None:
            compiled = self._compiled[rule.pattern] = compile_pattern(rule.pattern)
        return compiled

    def _tokens(self, view: bytes, heads: Pattern) -> Iterator[Span]:
        at = 0
        while trigger := heads.search(view, at):
            start = trigger.start()
            span = self._token_at(view, start)
            if span:
                yield span
            if span:
                at = span.end
            elif _begins_word(view, start):
                at = trigger.end()  # what was judged not to be a token is skipped
            else:
                after = _NO_WORD.search(view, start + 1)
                at = after.start() if after else len(view)

    def _token_at(self, view: bytes, start: int) -> Span | None:
        if not _begins_word(view, start) or _HASH_OF.search(view, max(0, start - 7), start):
            return None
        for keyword, rule in self._by_first_byte[view[start]]:
            if not view.startswith(keyword, start):
                continue
            pattern = self._pattern(rule)
            match = pattern.match(view, start, start + _MOST_OF_TOKEN)
            if match is None:
                continue
            begin, end = match.span(1) if pattern.groups else match.span()
            body = view[begin if begin > start or rule.check == "pem64" else begin + len(keyword) : end]
            if not _is_token(rule.check, body[:_JUDGED]):
                continue
            if end == start + _MOST_OF_TOKEN:
                match = pattern.match(view, start) or match
                end = match.end(min(pattern.groups, 1))
            if _ends_word(view, start, end) and not _is_in_block(view, start):
                return Span(begin, end, rule.kind or rule.name)
        return None

    def _assigned(self, places: Places) -> Iterator[Span]:
        view = places.text
        for pattern in self._assignments:
            at, last_group = 0, pattern.groups
            while found := pattern.search(view, at):
                start, name_end = found.span(1)
                sign_end = max(found.end(2), found.end(last_group))
                if at_last := assignment.next_name(view, sign_end):
                    at = at_last
                    continue
                value = assignment.assigned_secret(places, start, name_end, sign_end)
                if value:
                    yield Span(value.start, value.end, kind_of(view[start:name_end]))
                at = value.end if value else name_end

    def _own_matches(self, rule: Rule, pattern: Pattern, view: bytes) -> Iterator[Span]:
        """Try a person's pattern piece by piece: one that reads far ahead at each place would be slow on long lines."""
        which = min(pattern.groups, 1)
        for at in range(0, max(1, len(view) - _OVERLAP), _PIECE - _OVERLAP):
            piece = view[at : at + _PIECE]
            is_last = at + len(piece) == len(view)
            for match in pattern.finditer(piece):
                begin, end = match.span()
                if at and begin == 0 and end <= _OVERLAP:
                    continue  # the piece before has the text in front of it
                if end < len(piece) or is_last:
                    yield from _judged(rule, at, match.span(which), view)
                elif begin < len(piece) - _OVERLAP:  # else the next piece has it whole
                    whole = pattern.match(view[at + begin : at + begin + _LONGEST])
                    if whole:
                        yield from _judged(rule, at + begin, whole.span(which), view)

    def _matches(self, rule: Rule, pattern: Pattern, view: bytes) -> Iterator[Span]:
        which = min(pattern.groups, 1)
        for match in pattern.finditer(view):
            yield from _judged(rule, 0, match.span(which), view)


def _judged(rule: Rule, offset: int, span: tuple[int, int], view: bytes) -> Iterator[Span]:
    """The secret or secrets in a match at `offset + span`."""
    start, end = offset + span[0], offset + span[1]
    if span[0] < 0:
        return
    if rule.check == "cookie":
        yield from _cookies(view, start, end)
        return
    # Quotes may belong to the JSON around the secret, and an end tag to the page.
    while start < end and view[start] == 0x22:
        start += 1
    for mark in (b'"', b"</"):
        mark_at = view.find(mark, start, end)
        end = end if mark_at < 0 else mark_at
    end = _without_tail(view, start, end)
    if start < end and BLANK not in view[start - 1 : end + 1] and _passes(rule.check, view[start:end], view):
        yield Span(start, end, rule.kind or rule.name)


def _own(rule: Rule) -> Rule:
    """A user's rule is always a secret, and its kind is written as marks write kinds."""
    return replace(rule, check="any", kind=re.sub(r"[^a-z0-9]", "_", (rule.kind or rule.name).lower()))


def _begins_word(view: bytes, start: int) -> bool:
    """Whether a token may start here: not inside a word, a kebab-name or a long run of base64."""
    if start == 0 or view[start] not in _WORD:
        return True
    before = view[start - 1]
    if before in _WORD:
        return view[start - 3 : start - 2] == b"%"
    if before == _NEWLINE and start > _BLOB_LENGTH and _is_blob_at(view, start - 1 - _BLOB_LENGTH):
        return False  # base64 on several lines
    if before == _HYPHEN and start > 1 and view[start - 2] in _WORD:
        return view[start - 3 : start - 1] == b"--"
    return before not in b"+/" or start < _BLOB_LENGTH or not _is_blob_at(view, start - _BLOB_LENGTH)


def _ends_word(view: bytes, start: int, end: int) -> bool:
    if end < len(view) and view[end] in _WORD and view[end - 1] in _WORD:
        return False
    return view[end : end + 1] not in (b"+", b"/") or not _is_blob_at(view, end)


def _is_in_block(view: bytes, at: int) -> bool:
    """Whether a line of base64 is as long as the one before or behind it, and begins otherwise: lines of one text."""
    line = _line_at(view, at)
    if not _FULL_LINE.match(line):
        return False
    start = view.rfind(b"\n", max(0, at - _LONGEST_LINE), at) + 1
    others = (_line_at(view, start - 2) if start > 1 else b""), _line_at(view, start + len(line) + 1)
    return any(len(other) == len(line) and _FULL_LINE.match(other) and other[:3] != line[:3] for other in others)


def _line_at(view: bytes, at: int) -> bytes:
    """Return the line around a place, or enough of it to see that it is a long one."""
    start = max(view.rfind(b"\n", max(0, at - _LONGEST_LINE), at) + 1, at - _LONGEST_LINE)
    end = view.find(b"\n", at, at + _LONGEST_LINE)
    return view[start : end if end >= 0 else at + _LONGEST_LINE].rstrip(b"\r")


def _is_blob_at(view: bytes, at: int) -> bool:
    blob = _BLOB.match(view, at, at + _BLOB_LENGTH)
    return blob is not None and is_blob(blob.group())


@lru_cache(maxsize=4096)
def _is_token(check: Check, body: bytes) -> bool:
    """Judge the beginning of a token's body. Tokens repeat, so answers are cached."""
    return _passes(check, body, body)


def _passes(check: Check, value: bytes, view: bytes) -> bool:
    """Whether a match is a secret by the rule's check; see `rules.Check`."""
    if check in ("pair", "pem64"):
        return _decodes_to(value, b":" if check == "pair" else b"PRIVATE KEY")
    if check == "jwk":
        return b'"kty"' in view
    if check == "any" or is_placeholder(value):
        return check == "any"
    if check == "fixed":
        return True
    if check == "token":
        return not is_wordlike(value) or len(value) - len(value.translate(None, _DIGITS)) > len(value) // 16
    if check == "session" and is_uuid(value):
        return False  # the agents' own sessions are named like this
    if is_name(value) and (check not in ("chosen", "set") or _OWN_NAME.search(value)):
        return False
    if check in ("generated", "session"):
        return looks_generated(value) and not is_reference(value)
    if check == "random":
        return _is_random(value)
    if check == "set" and is_wordlike(value) and not _DIGIT.search(value):
        return False  # `enable password authentication`
    if check == "told":
        return not is_reference(value) and _is_in_a_sentence(value)
    if check == "printed":
        return _DIGIT.search(value) is not None and _is_printed(value)
    return not is_reference(value) and _is_chosen(value)


def _is_chosen(value: bytes) -> bool:
    return (
        looks_chosen(value)
        or (len(value) >= 4 and not value.isalpha() and not value.isdigit())
        or (len(value) >= 8 and value.isalpha())
    )


def _is_in_a_sentence(value: bytes) -> bool:
    value = _TAG.sub(b"", value).strip(b"*_`()[]{}\"'<>,.;:")
    digits = sum(48 <= byte <= 57 for byte in value)
    letters = sum(65 <= byte <= 90 or 97 <= byte <= 122 for byte in value)
    if (_HEX.match(value) and len(value) <= 12) or b"/" in value or is_norm(value) or is_version(value):
        return False
    if not digits:
        return looks_generated(value, 10) and not reads_as_words(value, perhaps=True)
    if len(value) < 6 or letters < 3 or (_OWN_NAME.search(value) and is_wordlike(value)):
        return False
    return not _IDENTIFIER.match(value) and not is_test_name(value) and not is_name(value.replace(b"-", b"_"))


def _is_printed(value: bytes) -> bool:
    if (_IDENTIFIER.match(value) and b"=" not in value) or is_reference(value):
        return False
    return looks_generated(value, 10) or looks_chosen(value)


def _is_random(value: bytes) -> bool:
    if _HEX.match(value) or is_uuid(value) or is_cache_key(value) or is_reference(value) or b"/" in value[:2]:
        return False
    if is_name(value) or is_slug(value) or value.startswith(b"0x"):
        return False
    upper, lower = value.upper() != value, value.lower() != value
    return upper and lower and looks_generated(value, 24) and not is_wordlike(value)


def _decodes_to(value: bytes, needle: bytes) -> bool:
    padded = value.replace(b"-", b"+").replace(b"_", b"/")[:128]
    padded = padded.rstrip(b"=")
    padded = padded[: len(padded) // 4 * 4] if len(padded) % 4 == 1 else padded + b"=" * (-len(padded) % 4)
    try:
        plain = base64.b64decode(padded)
    except ValueError:
        return False
    return needle in plain and (needle != b":" or all(32 <= byte < 127 for byte in plain))


def _cookies(view: bytes, start: int, end: int) -> Iterator[Span]:
    for pair in _COOKIE.finditer(view, start, end):
        name, value = pair.groups()
        if looks_generated(value, 12) and not _NO_SESSION.match(name) and not _CODE.search(value):
            yield Span(*pair.span(2), "cookie")


def _without_tail(view: bytes, start: int, end: int) -> int:
    """Leave out the punctuation of the sentence around a secret."""
    while (
        end - start > 4
        and view[end - 1] in b".,;:!?)]}>"
        and not (view[end - 1] in b")]}>" and b"([{<"[b")]}>".index(view[end - 1])] in view[start:end])
    ):
        end -= 1
    return end


def _merged(found: list[Span]) -> list[Span]:
    """Sort spans and merge those that overlap. The first one gives the kind."""
    merged: list[Span] = []
    for span in sorted(found, key=lambda span: span.start):
        if merged and span.start < merged[-1].end:
            last = merged[-1]
            merged[-1] = Span(last.start, max(last.end, span.end), last.kind)
        else:
            merged.append(span)
    return merged


__all__ = ["Finder", "RuleError", "Span"]
