"""A search query: words in all their forms, exact ones in quotes, phrases, and beginnings of words with a star.

Belongs here: parsing a query, and finding it in a text. Not here: which texts are searched (`ask.search`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from helix_assets.ask.stems import forms
from helix_assets.model.errors import QueryError

MAX_TERMS = 32
_SIGNS = "\u3040-\udfff"
"""Chinese, Japanese, Korean: every sign is a word."""
# Words end at exactly those characters that the index (`words.hashing`) does not count as part of one. The classes are
# case-sensitive and have few ranges, because others take a millisecond to compile.
_LETTER = r"(?-i:[0-9A-Za-z\xc0-\u060b]|[\u0620-\u093f\u0980-\u1fff]|[\ue000-\ufdff\U00040000-\U0010ffff])"
_OTHER = r"(?-i:[\0-/:-@\[-`{-\xbf]|[\u060c-\u061f\u0940-\u097f]|[\u2000-\u303f\ufe00-\uffff]|[\U00010000-\U0003ffff])"
_TERM = re.compile(r'"([^"]*)"(\*?)|(\S+)')
_WORD = re.compile(rf"[{_SIGNS}]|(?:{_LETTER})+")
_BETWEEN = rf"(?:{_OTHER}|\\[bfnrt])"
_HALF = re.compile("[\ud800-\udfff]")
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]?")
_SNIPPET = 160


class Term(NamedTuple):
    """Words that follow each other; if `is_prefix`, the last is only the beginning of a word.

    A term of one word without quotes or a star may have several `forms`: any of them will do. One of `begins` is in
    every text with the term, but for the case of letters.
    """

    words: tuple[str, ...]
    is_prefix: bool
    forms: frozenset[str]
    begins: tuple[str, ...]
    pattern: re.Pattern[str]

    def search(self, text: str) -> re.Match[str] | None:
        """The first match in a text. Searches for the letters first, because a pattern takes ten times as long."""
        lower = text.lower()
        if len(lower) != len(text):  # a letter whose lower case is two
            return self.pattern.search(text)
        if self.forms:
            found = [match for begin in self.begins if (match := self._first(text, lower, begin))]
            return min(found, key=lambda match: match.start(), default=None)
        words = [word.lower() for word in self.words]
        if any(word not in lower for word in words):
            return None
        return self._first(text, lower, words[0]) if len(words) == 1 else self.pattern.search(text)

    def _first(self, text: str, lower: str, begin: str) -> re.Match[str] | None:
        at = lower.find(begin)
        while at >= 0:
            if match := self.pattern.match(text, at):
                return match
            at = lower.find(begin, at + 1)
        return None


@dataclass(frozen=True)
class Snippet:
    """A piece of a text, on one line, and the positions of the terms in it."""

    text: str
    marks: tuple[tuple[int, int], ...]


def is_utf8(text: str) -> bool:
    """Whether a text from a command line is UTF-8: Python passes other bytes on as surrogates."""
    return text.isascii() or not _HALF.search(text)


def parse_query(text: str, known: Callable[[Sequence[str]], Iterable[str]] = lambda forms: forms) -> tuple[Term, ...]:
    """The terms of a query, all of which have to be found. QueryError if it cannot be parsed.

    Only those forms of a word are looked for that are known, that is, in the index; and the word itself.
    """
    if not is_utf8(text):
        raise QueryError("the query contains a byte that is not UTF-8")
    if text.count('"') % 2:
        raise QueryError('a quote is not closed: write a phrase as "two words"')
    terms: list[Term] = []
    for phrase, star, word in _TERM.findall(text):
        given = word.rstrip("*") if word else phrase
        words = tuple(_WORD.findall(given))
        if not words:
            continue
        is_prefix = bool(star or word.endswith("*"))
        if is_prefix and len(words[-1]) < 2 and words[-1].isascii():
            raise QueryError(f"{words[-1]}* is too short: give at least two letters")
        is_exact = bool(phrase) or is_prefix or len(words) > 1
        more = frozenset[str]() if is_exact else _forms(words[0].lower(), known)
        begins = _begins(more) if more else (max(words, key=len),)
        terms.append(Term(words, is_prefix, more, begins, _pattern(words, is_prefix, more)))
    if not terms:
        raise QueryError('there is no word in the query: give words, a "phrase", or begin* with a star')
    if len(terms) > MAX_TERMS:
        raise QueryError(f"the query has {len(terms)} terms; at most {MAX_TERMS} are allowed")
    return tuple(terms)


def _forms(word: str, known: Callable[[Sequence[str]], Iterable[str]]) -> frozenset[str]:
    """A word and its known forms; empty if there are no others."""
    others = sorted(forms(word) - {word})
    return frozenset((word, *found)) if others and (found := [*known(others)]) else frozenset()


def _begins(forms: Collection[str]) -> tuple[str, ...]:
    """The forms that do not begin with another."""
    begins: list[str] = []
    for form in sorted(forms):
        if not begins or not form.startswith(begins[-1]):
            begins.append(form)
    return tuple(begins)


def _pattern(words: Sequence[str], is_prefix: bool, forms: Collection[str]) -> re.Pattern[str]:
    """A pattern for the words in a text, or for any form of a single one.

    Between them, and before the first, may be an escape of JSON within JSON.
    """
    is_sign = [bool(re.fullmatch(f"[{_SIGNS}]", word)) for word in words]
    pattern = "" if is_sign[0] else rf"(?:(?<!{_LETTER})|(?<=\\[bfnrt]))"
    for place, word in enumerate(words):
        if place:
            pattern += _BETWEEN + ("*" if is_sign[place] or is_sign[place - 1] else "+")
        pattern += _any_of(forms) if forms else re.escape(word)
    if not is_prefix and not is_sign[-1]:
        pattern += f"(?!{_LETTER})"
    return re.compile(pattern, re.IGNORECASE)


def _any_of(forms: Collection[str]) -> str:
    """A pattern of one of these, the longest that fits."""
    return f"(?:{'|'.join(map(re.escape, sorted(forms, key=len, reverse=True)))})"


def clean(text: str) -> str:
    """The text without terminal colours."""
    return _COLOUR.sub(" ", text) if "\x1b" in text else text


def snippet(text: str, terms: Sequence[Term]) -> Snippet:
    """The text around the first term found, with all terms in it marked."""
    first = min((match.span() for term in terms if (match := term.search(text))), default=(0, 0))
    start = max(0, first[0] - _SNIPPET // 3)
    end = min(len(text), max(first[1], start + _SNIPPET))
    line = " ".join(text[start:end].split())
    line = ("…" if start else "") + line + ("…" if end < len(text) else "")
    marks = sorted({match.span() for term in terms for match in term.pattern.finditer(line)})
    return Snippet(line, tuple(marks))
