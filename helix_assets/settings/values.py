"""What the value of a setting may look like, in helix.toml and in the environment.

A kind turns a raw value into a checked one or raises ValueError with the reason. Not here: which setting is of which
kind (`model`), and in which file or variable the value is (`load`).
"""

import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

_UNITS = {"b": 1} | {
    f"{prefix}{suffix}": base**power
    for suffix, base in (("b", 1000), ("ib", 1024))
    for power, prefix in enumerate("kmgt", start=1)
}
_SIZE = re.compile(r"(-?\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_AGENT_NAME = re.compile(r"[a-z][a-z0-9_-]{0,29}")
_RULE_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
PRICE_FIELDS = ("input", "output", "cache_read", "cache_write", "cache_write_1h")


@dataclass(frozen=True, slots=True)
class RedactionRule:
    """A pattern of the user's own; `keyword`, if given, must occur in a line before the pattern is tried."""

    name: str
    pattern: str
    keyword: str | None = None


class ItemError(ValueError):
    """What is wrong with one item of a list: `place` is its number, and the wrong key if there is one."""

    def __init__(self, reason: str, *place: str) -> None:
        super().__init__(reason)
        self.place = place


class Kind(NamedTuple):
    """How to read one kind of value: from its text in a variable, then from its TOML value."""

    from_env: Callable[[str], object]
    parse: Callable[[object], object]


def parse_size(value: object) -> int:
    """Bytes from a number or a text such as "4GiB" or "500MB", above zero."""
    if isinstance(value, str):
        value = _size_from_text(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not a size: use a number of bytes, or a text like '4GiB' or '500MB'")
    return _above_zero(value)


def _size_from_text(text: str) -> int:
    if not text.strip():
        raise ValueError("is empty: use a size like '4GiB', or leave the setting out")
    found = _SIZE.fullmatch(text.strip())
    if found is None or (found[2] or "b").lower() not in _UNITS:
        raise ValueError(f"{text!r} is not a size: use a number of bytes, or a text like '4GiB' or '500MB'")
    return int(Decimal(found[1]) * _UNITS[(found[2] or "b").lower()])


def _above_zero(value: int) -> int:
    if value <= 0:
        raise ValueError(f"must be greater than zero, not {value}")
    return value


def _int_from_env(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        return text


def parse_count(value: object) -> int:
    """A whole number above zero."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not a whole number")
    return _above_zero(value)


def parse_yes(value: object) -> bool:
    """true or false; in a variable these words."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _yes_from_env(text: str) -> object:
    return {"true": True, "false": False}.get(text.strip().lower(), text)


def parse_port(value: object) -> int:
    """A TCP port."""
    port = parse_count(value)
    if port > 65535:
        raise ValueError(f"{port} is not a port: use 1 to 65535")
    return port


def parse_text(value: object) -> str:
    """A text that is not blank."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text: put it in quotes")
    if not value.strip():
        raise ValueError("is empty: give a value, or leave the setting out")
    return value


def parse_texts(value: object) -> tuple[str, ...]:
    """A list of texts, none of them blank."""
    if not isinstance(value, list):
        raise ValueError(f"{value!r} is not a list: write it as ['one', 'two']")
    return tuple(parse_text(item) for item in value)


def _texts_from_env(text: str) -> object:
    if text.lstrip().startswith("["):
        return _toml_value(text)
    return [part.strip() for part in text.split(",") if part.strip()]


def _toml_value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError as exc:
        raise ValueError(f"is not a TOML value: {exc}") from exc


def parse_agents(value: object) -> tuple[str, ...]:
    """A list of agents' names, each once. Whether these agents exist is checked when all settings are known."""
    words = parse_texts(value)
    for word in words:
        _check_agent(word)
    return tuple(dict.fromkeys(words))


def _check_agent(name: str) -> None:
    if not _AGENT_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not a name of an agent: use lower-case letters, digits, '-' and '_', at most 30")


def parse_agent_roots(value: object) -> Mapping[str, str]:
    """A table from an agent's name to its folder."""
    roots = parse_names(value)
    for name in roots:
        _check_agent(name)
    return roots


def one_of(*choices: str) -> Kind:
    """One word of a fixed set."""

    def parse(value: object) -> str:
        if value not in choices:
            raise ValueError(f"{value!r} is not one of {', '.join(choices)}")
        return str(value)

    return Kind(str, parse)


def parse_patterns(value: object) -> tuple[str, ...]:
    """A list of regular expressions that compile."""
    patterns = parse_texts(value)
    for pattern in patterns:
        _check_pattern(pattern)
    return patterns


def _check_pattern(pattern: str) -> None:
    try:
        re.compile(pattern)
    except re.error as exc:
        raise ValueError(f"{pattern!r} is not a regular expression: {exc}") from exc


def parse_names(value: object) -> Mapping[str, str]:
    """A table from text to text."""
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a table")
    return {str(key): parse_text(item) for key, item in value.items()}


def parse_rules(value: object) -> tuple[RedactionRule, ...]:
    """Redaction rules: tables of name, pattern and perhaps keyword, each name once."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("must be a list of tables: write each rule under [[redaction.rules]]")
    rules: list[RedactionRule] = []
    for number, item in enumerate(value):
        rule = _parse_rule(item, str(number))
        if any(rule.name == other.name for other in rules):
            raise ItemError(f"rule {rule.name!r} is defined twice", str(number), "name")
        rules.append(rule)
    return tuple(rules)


def _parse_rule(table: dict[str, object], number: str) -> RedactionRule:
    from helix_assets.redaction.engine import compile_user_pattern  # loads re2, which few users need

    for key in table:
        if key not in ("name", "pattern", "keyword"):
            raise ItemError(f"a redaction rule has no key {key!r}: it has name, pattern and keyword", number, key)
    for key in ("name", "pattern"):
        if key not in table:
            raise ItemError(f"a redaction rule needs a {key!r}", number)
    texts = {}
    for key, value in table.items():
        try:
            texts[key] = parse_text(value)
        except ValueError as exc:
            raise ItemError(f"{key} of a redaction rule {exc}", number, key) from exc
    name = texts["name"]
    if not _RULE_NAME.fullmatch(name):
        reason = "is not a name for a rule: use lower-case letters, digits and '-', at most 40"
        raise ItemError(f"{name!r} {reason}", number, "name")
    try:
        compile_user_pattern(name, texts["pattern"])
    except ValueError as exc:
        raise ItemError(str(exc), number, "pattern") from exc
    return RedactionRule(name, texts["pattern"], texts.get("keyword"))


def parse_prices(value: object) -> Mapping[str, Mapping[str, float]]:
    """Prices by model glob, in US dollars per million tokens."""
    if not isinstance(value, dict):
        raise ValueError(f"{value!r} is not a table")
    return {str(model): _parse_price(str(model), price) for model, price in value.items()}


def _parse_price(model: str, price: object) -> Mapping[str, float]:
    if not isinstance(price, dict):
        raise ValueError(f"the price of {model!r} must be a table with {', '.join(PRICE_FIELDS)}")
    for field, dollars in price.items():
        if field not in PRICE_FIELDS:
            raise ValueError(f"the price of {model!r} has no field {field!r}: it has {', '.join(PRICE_FIELDS)}")
        if isinstance(dollars, bool) or not isinstance(dollars, int | float) or not 0 <= dollars < math.inf:
            raise ValueError(f"the {field} price of {model!r} must be dollars per million tokens, not {dollars!r}")
    if missing := [field for field in ("input", "output") if field not in price]:
        raise ValueError(f"the price of {model!r} lacks {' and '.join(missing)}, which would then cost nothing")
    return {field: float(dollars) for field, dollars in price.items()}


SIZE = Kind(str, parse_size)
COUNT = Kind(_int_from_env, parse_count)
YES = Kind(_yes_from_env, parse_yes)
PORT = Kind(_int_from_env, parse_port)
TEXT = Kind(str, parse_text)
TEXTS = Kind(_texts_from_env, parse_texts)
PATTERNS = Kind(_texts_from_env, parse_patterns)
NAMES = Kind(_toml_value, parse_names)
RULES = Kind(_toml_value, parse_rules)
AGENT_LIST = Kind(_texts_from_env, parse_agents)
AGENT_ROOTS = Kind(_toml_value, parse_agent_roots)
PRICES = Kind(_toml_value, parse_prices)
