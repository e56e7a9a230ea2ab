"""docs/facts.md names every table and every column, and no table that is none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helix_assets.model.facts import FACTS
from helix_assets.store.fact_files import schema_of

TEXT = (Path(__file__).parents[2] / "docs" / "facts.md").read_text(encoding="utf-8")


def columns(text: str) -> set[str]:
    return {name for line in re.findall(r"^\| (`.*?) \|", text, re.M) for name in re.findall(r"`(\w+)`", line)}


def test_tables_are_those_of_the_code() -> None:
    assert re.findall(r"^## (\w+):", TEXT, re.M) == list(FACTS)


@pytest.mark.parametrize("fact", FACTS)
def test_every_column_is_explained(fact: str) -> None:
    (section,) = re.findall(rf"^## {fact}:.*?(?=^## )", TEXT, re.M | re.S)
    told = columns(section) | columns("## " + TEXT.split("## How they are kept")[1].split("\n## ")[0])
    assert set(schema_of(fact).names) - told == set()
    assert columns(section) <= set(schema_of(fact).names)
