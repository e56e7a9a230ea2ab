"""Lines worth a look are the same ones for each engine; reading much changes the speed only."""

import base64
import json
import random
import sys

import pytest

from helix_assets.redaction import Redactor, Rule, engine
from helix_assets.redaction.rules import CONTEXTS, TOKENS
from helix_assets.redaction.trigger import Trigger
from helix_assets_tests.redaction.made_up import made_up, password

pytest.importorskip("hyperscan", reason="it has no wheel for this platform")
BLOB = base64.b64encode(random.Random(5).randbytes(3000)).decode()
TEXTS = [made_up(rule.example, 3) for rule in TOKENS + CONTEXTS]
CHUNK = "".join(json.dumps({"text": text}) + '\n{"clean": true}\n' for text in TEXTS).encode()
SHORT = f'{{"text":"DB_PASSWORD={password(1)}"}}\n'.encode()


def prepared(*own_rules: Rule) -> Trigger:
    trigger = Trigger(own_rules)
    trigger.prepare()
    return trigger


def ready() -> Redactor:
    redactor = Redactor(b"k")
    redactor.prepare()
    return redactor


BUILT = ready().built() or b""


def test_line_of_each_rule_is_worth_a_look_for_both_engines() -> None:
    lines = list(prepared().lines_hit(CHUNK))
    assert lines == list(Trigger(()).lines_hit(CHUNK))
    assert len(lines) == len(TEXTS)


def test_clean_lines_are_passed_over() -> None:
    assert not list(prepared().lines_hit(b'{"commit":"0d8cf9d6","max_tokens":4096}\n' * 3))


def test_hit_inside_an_image_is_chance_but_one_behind_it_counts() -> None:
    token = made_up("ghp_{an36}", 1)
    inside = f'{{"image":"{BLOB[:1000]}{token}{BLOB[1000:]}"}}\n'.encode()
    behind = f'{{"image":"{BLOB}","text":"{token}"}}\n'.encode()
    for trigger in (prepared(), Trigger(())):
        assert list(trigger.lines_hit(inside + behind)) == [(len(inside), len(inside + behind) - 1)]


def test_key_that_is_known_by_its_end_is_no_image() -> None:
    key = made_up("{an76}AZDO{an4}", 1).encode()
    for redactor in (Redactor(b"k"), ready()):
        assert key not in redactor.lines(b'{"text":"%s"}' % key).data


def test_far_too_many_hits_hide_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_MOST_HITS", 3)
    assert list(prepared().lines_hit(CHUNK)) == list(Trigger(()).lines_hit(CHUNK))


def test_own_rule_counts_by_its_keyword_and_else_by_its_pattern() -> None:
    chunk = b'{"a":1}\n{"b":"Badge-123456"}\n'
    for rule in (Rule("badge", "BADGE", r"\d{6}"), Rule("badge", "", r"Badge-\d{6}")):
        assert list(prepared(rule).lines_hit(chunk)) == [(8, len(chunk) - 1)]


def test_much_reading_finds_the_same_without_hyperscan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hyperscan", None)
    slow, quick = Redactor(b"k"), Redactor(b"k")
    slow.prepare()
    text = f"DB_PASSWORD={password(1)}"
    assert slow.lines(CHUNK) == quick.lines(CHUNK)
    assert slow.text(text) == quick.text(text)


def test_filter_that_another_process_built_finds_the_same_from_the_first_byte() -> None:
    reader = Redactor(b"k", kept=lambda: BUILT)
    assert reader.lines(CHUNK) == Redactor(b"k").lines(CHUNK)
    assert reader.built() is None
    reader.prepare()
    assert reader.built() is None


def test_nothing_is_built_for_little() -> None:
    redactor = Redactor(b"k")
    redactor.lines(SHORT)
    assert redactor.built() is None


@pytest.mark.parametrize(
    "kept",
    [
        None,
        b"",
        BUILT[:31],
        BUILT[:32],
        BUILT[:5000],
        BUILT[:-1],
        BUILT[:9000] + bytes([BUILT[9000] ^ 1]) + BUILT[9001:],
        bytes(40),
        BUILT[32:],
    ],
)
def test_filter_that_is_damaged_is_not_used(kept: bytes | None) -> None:
    redactor = Redactor(b"k", kept=lambda: kept)
    assert redactor.lines(SHORT).hits == 1
    assert redactor.built() is None
    redactor.prepare()
    assert redactor.built() == BUILT


def test_filter_of_other_rules_or_another_store_is_not_used() -> None:
    own = Redactor(b"k", [Rule("badge", "BADGE", r"Badge-\d{6}")], kept=lambda: BUILT)
    assert own.text("BADGE, Badge-123456").hits == 1
    for redactor in (own, Redactor(b"other", kept=lambda: BUILT)):
        redactor.prepare()
        assert redactor.built() not in (None, BUILT)


def test_filter_that_the_processor_refuses_is_rebuilt(monkeypatch: pytest.MonkeyPatch) -> None:
    import hyperscan

    def refuse(*_: object) -> None:
        raise hyperscan.DatabasePlatformError

    monkeypatch.setattr(hyperscan, "loadb", refuse)
    redactor = Redactor(b"k", kept=lambda: BUILT)
    assert redactor.lines(SHORT).hits == 1
    assert redactor.built() == BUILT


def test_hits_are_the_same_with_far_too_many_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join(TEXTS)
    whole = ready().text(text)
    monkeypatch.setattr(engine, "_MOST_HITS", 3)
    assert ready().text(text) == whole
    assert whole.hits > 300
