"""Reading a query, and finding it in a text."""

from __future__ import annotations

import pytest

from helix_assets.ask.query import parse_query, snippet
from helix_assets.ask.stems import forms
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
        ("test", "it was TESTED"),
        ("Testing", "a test"),
        ("retries", "retrying"),
        ("hoping", "some hope"),
        ("planned", "a plan"),
        ("caches", "the cache"),
        ("configured", "its configuration"),
        ("happy", "happiness"),
        ("sensible", "sensibilities"),
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
    [('"one"', "ones"), ("one", "none"), ("one", "onerous"), ("tests", "testament"),
     ("src/test", "src/tests"), ("retr*", "uretre"), ('"one two"', "two one"), ('"one two"', "one or two"),
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


def test_only_forms_that_are_known_are_looked_for() -> None:
    (term,) = parse_query("testing", {"tested", "test"}.intersection)
    assert term.forms == {"testing", "tested", "test"}
    assert term.begins == ("test",)
    assert not parse_query("testing", lambda forms: ())[0].forms


@pytest.mark.parametrize("word", ["ab", "x86", "über", "日"])
def test_what_is_no_english_word_has_no_other_forms(word: str) -> None:
    assert forms(word) == {word}


def test_all_forms_have_one_stem_and_find_each_other() -> None:
    for word in ("test", "deploy", "retry", "running", "migration", "cache", "failed", "analyses"):
        assert all(forms(form) == forms(word) for form in ("".join(one) for one in forms(word)) if len(form) > 2)
