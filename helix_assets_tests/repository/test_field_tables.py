"""The tables of docs/sql.md and docs/facts.md that explain fields are made of the fields themselves.

`python -m helix_assets_tests.repository.test_field_tables` writes them again after a field was added or changed.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from helix_assets.ask.sql import ask
from helix_assets.ask.view_columns import columns_of
from helix_assets.ask.views import ROW_VIEWS
from helix_assets.model.facts import FACTS, fields_of_fact
from helix_assets_tests.conftest import CHECKOUT
from helix_assets_tests.home import Memory

SQL, FACTS_PAGE = CHECKOUT / "docs" / "sql.md", CHECKOUT / "docs" / "facts.md"


def with_table(page: str, heading: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The page with another first table under a heading."""
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    lines.insert(1, "|---" * len(head) + "|")
    table = re.compile(rf"(^## {heading}.*?\n\n)(?:\|[^\n]*\n)+", re.M | re.S)
    page, count = table.subn(lambda found: found[1] + "\n".join(lines) + "\n", page, count=1)
    assert count == 1, f"there is no table under {heading!r}"
    return page


def sql_page(folder: Path) -> str:
    memory, page = Memory(folder), SQL.read_text(encoding="utf-8")
    for view in (*ROW_VIEWS, *FACTS):
        types = {name: kind for name, kind, *_ in ask(memory.store, f"describe {view}").rows}
        rows = [(f"`{column.name}`", types[column.name], column.meaning) for column in columns_of(view)]
        page = with_table(page, f"{view}:", ("column", "type", "what it says"), rows)
    memory.close()
    return page


def facts_page() -> str:
    page = FACTS_PAGE.read_text(encoding="utf-8")
    fields = {fact: fields_of_fact(fact) for fact in FACTS}
    common = [
        field for field in fields["messages"] if all(field in fields[fact] for fact in FACTS if fact != "signals")
    ]
    for heading, told in [
        ("How they are kept", common),
        *((f"{fact}:", [field for field in fields[fact] if field not in common]) for fact in FACTS),
    ]:
        page = with_table(
            page, heading, ("column", "what it says"), [(f"`{field.name}`", field.meaning) for field in told]
        )
    return page


def test_the_tables_of_views_are_those_of_the_fields(tmp_path: Path) -> None:
    assert sql_page(tmp_path) == SQL.read_text(encoding="utf-8"), f"run: python -m {__name__}"


def test_the_tables_of_facts_are_those_of_the_fields() -> None:
    assert facts_page() == FACTS_PAGE.read_text(encoding="utf-8"), f"run: python -m {__name__}"


def test_the_page_of_facts_names_no_other_table() -> None:
    assert re.findall(r"^## (\w+):", FACTS_PAGE.read_text(encoding="utf-8"), re.M) == list(FACTS)


def test_a_page_without_a_table_is_refused() -> None:
    with pytest.raises(AssertionError, match="there is no table"):
        with_table("## events: what\n\nprose\n", "events:", ("column",), [])


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        SQL.write_text(sql_page(Path(folder)), encoding="utf-8")
    FACTS_PAGE.write_text(facts_page(), encoding="utf-8")
