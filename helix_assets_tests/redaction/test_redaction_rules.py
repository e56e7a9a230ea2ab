"""Each built-in rule finds the example made up for it, plain and inside JSON, three layers deep."""

import json
import re

import pytest

from helix_assets.redaction import Redactor, Rule
from helix_assets.redaction.rules import CONTEXTS, TOKENS
from helix_assets_tests.redaction.made_up import made_up

ALL = TOKENS + CONTEXTS
REDACTOR = Redactor(b"k" * 32)
SEEDS = range(6)


def test_rule_names_are_unique_and_fit_into_marks() -> None:
    names = [rule.name for rule in ALL]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_]+", rule.kind or rule.name) for rule in ALL)


def test_every_rule_says_why_it_exists() -> None:
    assert [rule.name for rule in ALL if not (rule.reason and rule.example and rule.pattern)] == []


def test_token_patterns_begin_with_their_keyword() -> None:
    assert [rule.name for rule in TOKENS if not rule.pattern.replace("\\", "").startswith(rule.keyword)] == []


@pytest.mark.parametrize("rule", TOKENS, ids=lambda rule: rule.name)
def test_token_is_found_and_named_in_a_sentence(rule: Rule) -> None:
    found = [REDACTOR.text(f"(use {made_up(rule.example, seed)}, please)").text for seed in SEEDS]
    kind = rule.kind or rule.name
    assert all(re.fullmatch(rf"\(use \[redacted:{kind}:[a-z2-7]{{7}}\], please\)", text) for text in found), found


@pytest.mark.parametrize("rule", ALL, ids=lambda rule: rule.name)
def test_example_is_found_plain_and_in_nested_json(rule: Rule) -> None:
    for seed in SEEDS:
        example = made_up(rule.example, seed)
        nested = f"first\n{example}\nlast"
        assert REDACTOR.text(example).hits
        for _ in range(3):
            nested = json.dumps({"output": nested})
            assert REDACTOR.text(nested).hits
