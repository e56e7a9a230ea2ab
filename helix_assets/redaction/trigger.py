"""Which texts and lines are worth a look: one scan of raw bytes for the heads of all rules.

Belongs here: what to look for in raw bytes, where escapes and colours may be between and around the words, and with
which engine. Not here: what is a secret (`finder.py`, on the plain view). False alarms only cost time.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from hashlib import blake2b
from typing import NamedTuple

from helix_assets.redaction import assignment, blocks, manifests, numbers, tables
from helix_assets.redaction.engine import Multiple, Pattern, PatternSet, compile_pattern
from helix_assets.redaction.judge import is_blob
from helix_assets.redaction.rules import CONTEXTS, TOKENS, Rule

# Lines that hide text from the heads (colours, escaped or encoded letters) are always worth a look.
_VEILS = (
    r"(?:\x1b|u001[bB]|x1[bB]|\\033|\\e)[\[\]]",
    # JSON has to escape neither letters, digits nor these signs: -./:@_
    r"\\+u00(?:2[d-fD-F]|3[0-9aA]|4[0-9a-fA-F]|5[0-9aAfF]|6[1-9a-fA-F]|7[0-9aA])",
    r"&\#(?:x[0-9a-fA-F]{2}|[0-9]{2,3});",
)
_RULES = (*TOKENS, *CONTEXTS)
_BLOCKS = f"{blocks.TRIGGER}|{manifests.TRIGGER}"
_REPEAT = re.compile(r"\{(\d+),?\d*\}")
_CLASS = re.compile(r"\\.|\[[^\]]*\]")
_GROUP = re.compile(r"\([^()]*\)")
_OPTIONAL = re.compile(r".(?:[?*]|\{\d*,?\d*\})")
_ATOM = re.compile(r"\\x..|\\[0-7]+|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
# Other characters may be escaped; the veils catch these.
_UNESCAPED = re.compile(r"[A-Za-z0-9_:@-]{2,}")
_SHORTEST_WORD = 3
_LINE = re.compile(rb"[^\n]+")
_ENDLESS = re.compile(r"[+*]|,\}")
# This much base64 before a hit is more than any key has before its recognizable part.
_BLOB = re.compile(rb"[A-Za-z0-9+/_=-]{128,}")
# A hit in base64 is never longer than this.
_LONGEST_IN_BLOB = 80
# After reading more than this the line filter is used even if it has to be built. Text read closely counts as more.
_MUCH = 8 << 20
_CLOSELY = 8
_PROOF = 32
Kept = Callable[[], bytes | None]
"""Returns what `Trigger.built` returned in another process."""


class Worth(NamedTuple):
    """Which secrets a text may contain. If none are listed, there may still be an assignment or a user's own rule."""

    tokens: Pattern | None
    """Finds where a token may begin."""
    contexts: Sequence[Rule]
    blocks: bool
    tables: bool


class Trigger:
    """Finds what is worth a look. Patterns are compiled when first needed."""

    def __init__(self, own_rules: Sequence[Rule], key: bytes = b"", kept: Kept | None = None) -> None:
        self._own = [own_word(rule) for rule in own_rules]
        self._reads_all = not all(self._own)
        self._key = key
        self._kept = kept
        self._read = 0

    @cached_property
    def _patterns(self) -> list[str]:
        own = [f"(?i:{re.escape(word)})" for word in self._own if word]
        return [*self._heads, *assignment.TRIGGERS, _BLOCKS, *tables.TRIGGERS, *own, *numbers.TRIGGERS, *_VEILS]

    @cached_property
    def _heads(self) -> dict[str, list[int]]:
        """Head -> the indexes of its rules among all."""
        places: dict[str, list[int]] = {}
        for place, rule in enumerate(_RULES):
            for head in heads(rule):
                places.setdefault(head, []).append(place)
        return places

    @cached_property
    def _places(self) -> list[list[int]]:
        return list(self._heads.values())

    @cached_property
    def _all_tokens(self) -> Pattern | None:
        return _tokens(tuple(range(len(TOKENS))))

    @cached_property
    def _contexts(self) -> PatternSet:
        return PatternSet([union(heads(rule)) for rule in CONTEXTS])

    @cached_property
    def _shapes(self) -> tuple[Pattern, Pattern]:
        """Patterns that find where a block or a table may begin."""
        return compile_pattern(_BLOCKS, never_capture=True), compile_pattern(union(tables.TRIGGERS), never_capture=True)

    @cached_property
    def _anywhere(self) -> Pattern:
        return compile_pattern(union(self._patterns), never_capture=True)

    @cached_property
    def _loaded(self) -> bytes | None:
        """The line filter that another process built, if it is for the same patterns."""
        kept = self._kept() if self._kept else None
        return kept[_PROOF:] if kept and kept[:_PROOF] == self._proof(kept[_PROOF:]) else None

    @cached_property
    def _multiple(self) -> Multiple | None:
        return Multiple.of(self._patterns, self._loaded)

    def _proof(self, built: bytes) -> bytes:
        return blake2b(repr(self._patterns).encode() + built, digest_size=_PROOF, key=self._key).digest()

    def prepare(self) -> None:
        """Build now what is needed to read much text, so that forked processes share it."""
        self._read = _MUCH
        self._quick(b" ")

    def built(self) -> bytes | None:
        """The line filter to save for other processes, if this one had to build it."""
        multiple = self.__dict__.get("_multiple")
        if multiple is None or not multiple.is_new:
            return None
        built: bytes = multiple.dump()
        return self._proof(built) + built

    def occurs_in(self, text: bytes) -> bool:
        """Whether a text is worth a look."""
        if self._reads_all:
            return True
        quick = self._quick(text)
        return quick.occurs_in(text) if quick else self._anywhere.search(text) is not None

    def worth(self, text: bytes) -> Worth | None:
        """Return which secrets a text may contain, or None if it is not worth a look."""
        self._read += _CLOSELY * len(text)
        quick = self._quick(text)
        if quick is None:
            if not self._reads_all and not self._anywhere.search(text):
                return None
            contexts = [CONTEXTS[index] for index in self._contexts.occurring(text)]
            return Worth(self._all_tokens, contexts, *(bool(pattern.search(text)) for pattern in self._shapes))
        found = quick.occurring(text)
        last = len(self._patterns) - len(numbers.TRIGGERS) - len(_VEILS)  # in the view nothing is veiled
        if not self._reads_all and all(at >= last for at in found):
            return None
        places = sorted({place for head in found if head < len(self._places) for place in self._places[head]})
        first = bisect_left(places, len(TOKENS))
        blocks_at = len(self._places) + len(assignment.TRIGGERS)
        has_table = any(at in found for at in range(blocks_at + 1, blocks_at + 1 + len(tables.TRIGGERS)))
        contexts = [_RULES[place] for place in places[first:]]
        return Worth(_tokens(tuple(places[:first])), contexts, blocks_at in found, has_table)

    def lines_hit(self, chunk: bytes) -> Iterator[tuple[int, int]]:
        """Yield the spans of the lines that are worth a look, in order."""
        if self._reads_all:
            yield from (line.span() for line in _LINE.finditer(chunk))
            return
        quick = self._quick(chunk)
        hits = quick.hits(chunk) if quick else None
        yield from self._searched(chunk) if hits is None else _lines_of(hits, chunk)

    def _quick(self, text: bytes) -> Multiple | None:
        self._read += len(text)
        return self._multiple if self._read > _MUCH or self._loaded else None

    def _searched(self, chunk: bytes) -> Iterator[tuple[int, int]]:
        at = 0
        while at < len(chunk) and (found := self._anywhere.search(chunk, at)):
            if _inside_blob(chunk, found.start(), found.start()):
                at = found.start() + 1
                continue
            start, end = _line_around(chunk, found.start())
            if start < end:
                yield start, end
            at = end + 1


@lru_cache(maxsize=256)
def _tokens(places: tuple[int, ...]) -> Pattern | None:
    """A pattern that finds where a token of some rules may begin. For the few rules of one text it is built quickly."""
    if not places:
        return None
    return compile_pattern(union(begin for place in places for begin in _beginnings(TOKENS[place])), never_capture=True)


def _lines_of(hits: Sequence[int], chunk: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    for hit in hits:
        # A hit may end with the end of its line.
        place = hit - 2 if chunk.startswith(b"\n", hit - 1) else hit - 1
        if place >= at and not _inside_blob(chunk, max(at, hit - _LONGEST_IN_BLOB), hit):
            start, at = _line_around(chunk, place)
            yield start, at


def _line_around(chunk: bytes, place: int) -> tuple[int, int]:
    end = chunk.find(b"\n", place)
    return chunk.rfind(b"\n", 0, place + 1) + 1, len(chunk) if end < 0 else end


def union(patterns: Iterable[str]) -> str:
    """One pattern for all. Sorted, the engine folds common prefixes, which keeps its automaton small."""
    return "|".join(f"(?:{pattern})" for pattern in sorted(patterns))


def heads(rule: Rule) -> tuple[str, ...]:
    """Return the distinctive part of a rule for the first scan: its triggers, or its pattern up to a long repeat."""
    if rule.trigger:
        return (rule.trigger,) if isinstance(rule.trigger, str) else rule.trigger
    limit = 24 if len(rule.keyword) <= 3 else 10
    for repeat in _REPEAT.finditer(rule.pattern):
        before = rule.pattern[: repeat.start()]
        if int(repeat.group(1)) >= 10 and before.count("(") == before.count(")"):
            return (f"{before}{{{min(int(repeat.group(1)), limit)}}}",)
    return (rule.pattern,)


def _beginnings(rule: Rule) -> Iterable[str]:
    """Return the heads, or the keyword if a head is unbounded: each of many in a row would be read to the last one."""
    return (
        heads(rule)
        if not any(_ENDLESS.search(_CLASS.sub("", head)) for head in heads(rule))
        else [re.escape(rule.keyword)]
    )


def own_word(rule: Rule) -> str:
    """Return what a line must contain, however it is escaped, for a user's rule to be tried; "" if that is unknown.

    The longest piece of its keyword, or of its pattern outside groups, that JSON never escapes and is not optional.
    """
    if rule.keyword:
        return max(_UNESCAPED.findall(rule.keyword), key=len, default="")
    pattern = _ATOM.sub("\0", rule.pattern)
    while (simpler := _GROUP.sub("\0", pattern)) != pattern:
        pattern = simpler
    words = [] if "|" in pattern else _UNESCAPED.findall(_OPTIONAL.sub("\0", pattern))
    return max((word for word in words if len(word) >= _SHORTEST_WORD), key=len, default="")


def _inside_blob(chunk: bytes, start: int, end: int) -> bool:
    """Whether a hit is deep inside base64, as in images, where it can only be chance."""
    before = _BLOB.match(chunk, max(0, start - 128), end)
    return before is not None and before.end() == end and is_blob(before.group())
