"""Values that are accepted, and those that are refused whatever the setting."""

import pytest

from helix_assets.settings.values import YES, RedactionRule, parse_prices, parse_rules, parse_size


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        (1, 1),
        ("1", 1),
        ("1B", 1),
        ("4GiB", 4_294_967_296),
        ("4 gib", 4_294_967_296),
        ("500MB", 500_000_000),
        ("1.5KiB", 1536),
        ("2TB", 2_000_000_000_000),
    ],
)
def test_size_is_read(text: object, size_bytes: int) -> None:
    assert parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["4G", "4 GiB more", "GiB", "1e9", "", " ", 0, -1, "0", "0.1B", True, 1.5, None, [1]])
def test_what_is_no_size_is_refused(text: object) -> None:
    with pytest.raises(ValueError, match=r"is not a size|is empty|greater than zero"):
        parse_size(text)


@pytest.mark.parametrize(("text", "value"), [("true", True), ("False", False), (" true ", True)])
def test_yes_and_no_are_read_from_a_variable(text: str, value: bool) -> None:
    assert YES.parse(YES.from_env(text)) is value


@pytest.mark.parametrize("value", ["true", "", 1, 0, "yes", None])
def test_anything_but_true_and_false_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="neither true nor false"):
        YES.parse(value)


def test_redaction_rule_is_read() -> None:
    rules = parse_rules([{"name": "badge", "pattern": r"B-\d{6}", "keyword": "B-"}])
    assert rules == (RedactionRule("badge", r"B-\d{6}", "B-"),)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ([{"name": "a"}], "needs a 'pattern'"),
        ([{"name": "a", "pattern": "["}], "bad pattern at position 0: unterminated character set"),
        ([{"name": "a", "pattern": "x*"}], "matches the empty text"),
        ([{"name": "A b", "pattern": "x"}], "is not a name for a rule"),
        ([{"name": "a", "pattern": "x", "colour": "red"}], "has no key 'colour'"),
        ([{"name": "a", "pattern": "x"}, {"name": "a", "pattern": "y"}], "is defined twice"),
        ({"name": "a", "pattern": "x"}, "must be a list of tables"),
    ],
)
def test_bad_redaction_rule_is_refused(rules: object, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        parse_rules(rules)


@pytest.mark.parametrize("dollars", [-1, "3", True, float("inf"), float("nan")])
def test_bad_price_is_refused(dollars: object) -> None:
    with pytest.raises(ValueError, match="must be dollars per million tokens"):
        parse_prices({"model": {"input": dollars}})


def test_price_without_output_is_refused() -> None:
    with pytest.raises(ValueError, match="lacks output"):
        parse_prices({"model": {"input": 1}})


def test_unknown_price_field_is_refused() -> None:
    with pytest.raises(ValueError, match="has no field 'out'"):
        parse_prices({"model": {"out": 1}})
