"""Which words a text has by its hashes, and which beginnings."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from helix_assets.ask.query import clean, parse_query
from helix_assets.store.words import hashing
from helix_assets.store.words.hashing import WordHasher

HASHER = WordHasher(b"k" * 32)


def has(text: str | bytes, word: str) -> bool:
    hashing = HASHER.words(text.encode() if isinstance(text, str) else text)
    return HASHER.word(word) in hashing.hashes


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("foo bar", "foo"),
        ("foo bar", "bar"),
        ("x", "x"),
        ("Foo_BAR", "bar"),
        ('{"a":"one\\ntwo\\tthree"}', "two"),
        ('{"a":"one\\ntwo\\tthree"}', "three"),
        ('{"a":"{\\\\nnested"}', "nested"),
        ('{"a":"C:\\\\new"}', "new"),
        ('{"a":"\\u001b[31mred\\u001b[39;49m"}', "red"),
        ('{"a":"caf\\u00e9"}', "café"),
        ("“quoted”—dashed…", "quoted"),
        ("“quoted”—dashed…", "dashed"),
        ("→right✓", "right"),
        ("日本語abc", "本"),
        ("日本語abc", "abc"),
        ("straße über", "über"),
        ("привет", "привет"),
        ("averyveryverylongwordindeedyes x", "averyveryverylongwordindeedyes"),
        ("a" * 300 + " b", "b"),
        ('{"usage":{"note":"usage"}}', "usage"),
        ('[true, "true"]', "true"),
    ],
)
def test_word_is_found(text: str, word: str) -> None:
    assert has(text, word)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("foo bar", "fo"),
        ("foobar", "foo"),
        ('{"a":"one\\ntwo"}', "ntwo"),
        ('{"timestamp":"x"}', "timestamp"),
        ('{"input_tokens": 12}', "input"),
        ('{"a": false, "b":null, "c":123}', "false"),
        ('{"a": false, "b":null, "c":123}', "123"),
        ("", "x"),
    ],
)
def test_what_is_no_word_of_the_text_is_not(text: str, word: str) -> None:
    assert not has(text, word)


def test_packed_data_has_no_words_and_what_stands_beside_it_has() -> None:
    picture = "iVBORw0KGgo/AAAANSUhEUgAA+" * 40 + "".join(chr(97 + number % 26) * 140 for number in range(3))
    hashing = HASHER.words(f'{{"text":"look","data":"{picture}","more":"here"}}'.encode())
    assert hashing.size == 2
    assert {HASHER.word("look"), HASHER.word("here")} <= set(hashing.hashes.tolist())


def test_words_are_counted() -> None:
    hashing = HASHER.words(b"no No yes " + b"often " * 300)
    counts = dict(zip(hashing.hashes.tolist(), hashing.counts.tolist(), strict=True))
    assert [counts[HASHER.word(word)] for word in ("no", "yes", "often")] == [2, 1, 255]
    assert hashing.size == 303


@pytest.mark.parametrize("prefix", ["depe", "depend", "dependen", "dependenc", "dependency", "Depen"])
def test_beginning_is_found(prefix: str) -> None:
    hashes = set(HASHER.words(b"the dependency").hashes.tolist())
    assert hashes & set(HASHER.prefix(prefix) or ())


def test_beginning_of_another_word_is_not() -> None:
    hashes = set(HASHER.words(b"the dependency").hashes.tolist())
    assert not hashes & set(HASHER.prefix("depx") or ())


def test_word_as_long_as_the_prefix_has_it() -> None:
    assert set(HASHER.prefix("abcdefgh") or ()) & set(HASHER.words(b"abcdefgh").hashes.tolist())


def test_too_short_a_beginning_has_no_hash() -> None:
    assert HASHER.prefix("abc") is None


def test_another_key_gives_other_hashes() -> None:
    assert HASHER.word("secret") != WordHasher(b"j" * 32).word("secret")


def test_long_text_is_cut_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helix_assets.store.words.hashing._SLICE", 50)
    text = " ".join(f"word{number}" for number in range(100))
    assert all(has(text, f"word{number}") for number in range(100))


_TEXTS = st.text(st.sampled_from('ab Ü日"\\n{}:,\x1b[1m…_-/ñ'), max_size=60)


@example("\x1b[1")
@example("\x1b[1ñ b")
@given(
    st.recursive(_TEXTS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("k"), inner), max_leaves=6)
)
def test_every_word_that_a_query_finds_in_a_value_is_in_the_index(value: Any) -> None:
    line = json.dumps({"v": value}, ensure_ascii=False).encode()
    hashes = set(HASHER.words(line).hashes.tolist())
    for text in map(clean, _texts(value)):
        for word in re.findall(r"[^\W_]+", text):
            for term in parse_query(word):
                if term.search(text):
                    assert all(
                        any(HASHER.word(case) in hashes for case in (w, w.lower(), w.upper())) for w in term.words
                    ), (text, term.words)


_PIECES = [*'"\\nu0[{}: _+é日…\n\0', "\\\\", "001b", "null", "node", "modules", "a" * 40]


@example(b'{"trackedFileBackups": {"\\\\node_modules": null}}')
@example(b'{"a": "b", "\\\\n": 1}\n{"\\\\node": 2}')
@given(
    st.lists(st.sampled_from(_PIECES), max_size=40).map(lambda pieces: "".join(pieces).encode())
    | st.binary(max_size=80)
)
def test_every_word_lies_within_its_text(text: bytes) -> None:
    data, starts, sizes = hashing._words(text)
    assert ((sizes > 0) & (starts >= 0) & (starts + sizes <= len(data) - hashing._PAD)).all()
    assert HASHER.words(text).size == len(starts)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value
    return [text for item in items for text in _texts(item)]


def test_query_takes_for_words_what_the_index_does() -> None:
    codes = [
        *range(0xA1, 0x3100, 17),
        *range(0x3100, 0xD800, 997),
        *range(0xE000, 0x10000, 61),
        *range(0x10000, 0x110000, 9973),
    ]
    texts = [f"ab{chr(code)}cd" for code in codes]
    (term,) = parse_query(f'"{" x ".join(texts)}"')
    in_query = " ".join(term.words).split(" x ")
    in_index = [HASHER.words(text.encode()).size for text in texts]
    assert [text for text, one, size in zip(texts, in_query, in_index, strict=True) if len(one.split()) != size] == []


@pytest.mark.parametrize("word", ["नमस्ते", "สวัสดี", "বাংলা", "cafe\u0301", "x²", "ab𠀀cd"])
def test_words_of_any_alphabet_are_found(word: str) -> None:
    text = f"say {word}, twice"
    assert all(has(text, part) for term in parse_query(word) for part in term.words)
    assert all(term.search(text) for term in parse_query(word))
