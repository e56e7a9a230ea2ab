"""Reading a query, and finding it in a text."""

from __future__ import annotations

import pytest

from helix_assets.ask.query import parse_query, snippet
from helix_assets.model.errors import QueryError


@pytest.mark.parametrize(
    ("query", "words", "prefixes"),
    [
        ("one two", [("one",), ("two",)], [False, False]),
        ('"one two" three', [("one", "two"), ("three",)], [False, False]),
        ("retr*", [("retr",)], [True]),
        ('"run retr"*', [("run", "retr")], [True]),
        ("src/app.py", [("src", "app", "py")], [False]),
        ("snake_case", [("snake", "case")], [False]),
        ("- one --", [("one",)], [False]),
        ("日本", [("日", "本")], [False]),
    ],
)
def test_terms(query: str, words: list[tuple[str, ...]], prefixes: list[bool]) -> None:
    terms = parse_query(query)
    assert [term.words for term in terms] == words
    assert [term.is_prefix for term in terms] == prefixes


@pytest.mark.parametrize(
    ("query", "told"),
    [("", "no word"), ("*** !!", "no word"), ('""', "no word"), ('one "two', "not closed"), ("a*", "too short"),
     ("x " * 40, "40 terms"), ("a\udcff", "UTF-8")],
)  # fmt: skip
def test_query_that_cannot_be_read_says_why(query: str, told: str) -> None:
    with pytest.raises(QueryError, match=told):
        parse_query(query)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("one", "one"),
        ("ONE", "say One!"),
        ("one", "x_one_y"),
        ("one", r"print\none"),
        ("retr*", "it retries"),
        ('"one two"', "one, two"),
        ('"one two"', "one\n\ttwo"),
        ('"one two"', r"one\ntwo"),
        ("src/app.py", "src/app.py:3"),
        ("über", "Über uns"),
        ("日本", "日本語"),
        ("abc", "日abc語"),
    ],
)
def test_term_is_found(query: str, text: str) -> None:
    (term,) = parse_query(query)
    assert term.search(text)


@pytest.mark.parametrize(
    ("query", "text"),
    [("one", "ones"), ("one", "none"), ("retr*", "uretre"), ('"one two"', "two one"), ('"one two"', "one or two"),
     ("日本", "日語本")],
)  # fmt: skip
def test_something_like_it_is_not(query: str, text: str) -> None:
    (term,) = parse_query(query)
    assert not term.search(text)


def test_snippet_is_one_short_line_around_the_first_term_with_all_terms_marked() -> None:
    found = snippet("lorem " * 100 + "here\nis  the word and another " + "ipsum " * 100, parse_query("word anoth*"))
    assert len(found.text) < 200
    assert "here is the word and another" in found.text
    assert [found.text[start:end] for start, end in found.marks] == ["word", "anoth"]
