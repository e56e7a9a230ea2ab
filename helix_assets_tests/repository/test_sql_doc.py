"""docs/sql.md names every view and column with its type, and its examples run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from helix_assets.ask.sql import ask
from helix_assets.ask.views import VIEWS
from helix_assets_tests.home import Memory, conversation

TEXT = (Path(__file__).parents[2] / "docs" / "sql.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    made = Memory(tmp_path_factory.mktemp("memory"), {"HELIX_AGENTS": "claude"})
    made.write("s1", *conversation(3))
    made.sweep()
    yield made
    made.close()


def section(view: str) -> str:
    (found,) = re.findall(rf"^## {view}:.*?(?=^## |\Z)", TEXT, re.M | re.S)
    return str(found)


def test_views_are_those_of_the_code() -> None:
    assert re.findall(r"^## (\w+):", TEXT, re.M) == list(VIEWS)


@pytest.mark.parametrize("view", VIEWS)
def test_every_column_is_documented_with_its_type(memory: Memory, view: str) -> None:
    rows = re.findall(r"^\| (`.*?) \| (\w+) \|", section(view), re.M)
    told = {name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)}
    columns = {name: kind.split(" ")[0] for name, kind, *_ in ask(memory.store, f"describe {view}").rows}
    assert told == columns


@pytest.mark.parametrize("view", VIEWS)
def test_example_runs(memory: Memory, view: str) -> None:
    (example,) = re.findall(r"```sql\n(.*?)```", section(view), re.S)
    assert view in example
    assert ask(memory.store, example).columns
