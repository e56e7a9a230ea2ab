"""What docs/kaizen.md shows works as it stands there."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from helix_assets_tests.conftest import CHECKOUT
from helix_assets_tests.home import Memory, conversation

PAGE = (CHECKOUT / "docs" / "kaizen.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(autouse=True)
def store_db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(2))
    memory.sweep()
    memory.close()
    path = memory.store.settings.catalog_path
    monkeypatch.setenv("HELIX_STORE_DB", str(path))
    return path


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_run(example: str) -> None:
    exec(compile(example, "docs/kaizen.md", "exec"), {})


def test_the_documented_columns_are_there(store_db: Path) -> None:
    table = PAGE.partition("| column | what |")[2].partition("\n\n")[0]
    named = [name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    with closing(sqlite3.connect(store_db)) as connection, connection:
        there = {row[1] for row in connection.execute("pragma table_info(digests)")}
    assert named
    assert set(named) <= there


def test_the_sqlite_example_runs(store_db: Path) -> None:
    found = re.search(r'sqlite3 -readonly "\$HELIX_STORE_DB" "(.*)"', PAGE)
    assert found
    with closing(sqlite3.connect(store_db)) as connection, connection:
        assert connection.execute(found[1]).fetchall() == [("claude:s1", "fail", 31)]
