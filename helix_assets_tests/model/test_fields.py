"""A field is written once, in its row class: a text that is added there is known and redacted everywhere."""

import json
import os
import shutil
import subprocess
import sys
from typing import Annotated, Any, NamedTuple

import pytest

from helix_assets.model.event import ROW_FIELDS, Row
from helix_assets.model.fields import JSON, LINES, TEXT, About, Field, fields_of
from helix_assets_tests.conftest import CHECKOUT
from helix_assets_tests.sweep.test_rescan import WORD

REMARK = '    remark: Annotated[str | None, About("what was remarked")]\n'
# Where the copy gets its text from, and the line of each table before which it stands.
EDITS = {
    "model/event.py": ("    native_type: Annotated[", REMARK + "    native_type: Annotated["),
    "model/facts.py": ("    program: Annotated[", REMARK + "    program: Annotated["),
    "derive/link.py": ("detail, size, native_type,", "detail, size, summary and f'remarked: {summary}', native_type,"),
    "derive/fact_builder.py": ("        program=_name(", "        remark=row.remark,\n        program=_name("),
}
HIDDEN = "[redacted:house_word"


class Sample(NamedTuple):
    number: Annotated[int, About("a number")]
    text: Annotated[str | None, About("a text")]
    word: Annotated[str, About("a word of ours", is_ours=True)]
    value: Annotated[str | None, About("a value", is_json=True)]
    source: Annotated[bytes | None, About("a line", views=("records",), is_exported=False)]


def test_the_fields_of_a_row_are_read_off_its_class() -> None:
    assert fields_of(Sample) == (
        Field("number", int, None, "a number", ("events",)),
        Field("text", str, TEXT, "a text", ("events",)),
        Field("word", str, None, "a word of ours", ("events",)),
        Field("value", str, JSON, "a value", ("events",)),
        Field("source", bytes, LINES, "a line", ("records",), False),
    )


def test_every_string_of_a_row_but_its_kind_is_a_text() -> None:
    assert [field.name for field in ROW_FIELDS] == list(Row._fields)
    assert [field.name for field in ROW_FIELDS if field.type in (str, bytes) and not field.is_text] == ["kind"]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What a copy of the package with one more text in its rows and calls says of it."""
    folder = tmp_path_factory.mktemp("copy")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(CHECKOUT / "helix_assets", folder / "helix_assets", ignore=ignored)
    for name, (old, new) in EDITS.items():
        path = folder / "helix_assets" / name
        text = path.read_text(encoding="utf-8")
        assert text.count(old) == 1, name
        path.write_text(text.replace(old, new), encoding="utf-8")
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(CHECKOUT)])}
    command = [sys.executable, "-m", "helix_assets_tests.model.new_field", str(folder)]
    done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_a_new_text_has_a_column_everywhere(told: Any) -> None:
    assert "remark" in told["schema"]
    assert told["dagster"]["remark"] == "what was remarked"
    assert told["docs"].count("| `remark` | VARCHAR | what was remarked |") == 2
    assert told["docs"].count("| `remark` | what was remarked |") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "reader",
    ["sql: events", "sql: records", "sql: tool_calls", "export", "show", "show --payload", "search", "Memory"],
)
def test_after_a_sweep_every_reader_hides_in_a_new_text_what_new_rules_hide(told: Any, reader: str) -> None:
    before, now = told["before"][reader], told["after"][reader]
    assert WORD in before
    assert WORD not in now
    assert HIDDEN in now
    assert before.count("remarked: ") == now.count("remarked: ")
    assert ("remarked: " in now) is (reader not in ("sql: records", "show --payload", "search"))


@pytest.mark.slow
def test_a_sweep_redacts_a_new_text_wherever_it_is_stored(told: Any) -> None:
    facts = [f"facts of claude:{name}" for name in ("evicted", "gone", "whole")]
    assert sorted(told["stored"]) == [*facts, "rows of claude:gone", "rows of claude:whole"]
    for text in told["stored"].values():
        assert "remarked: " in text
        assert HIDDEN in text
        assert WORD not in text


@pytest.mark.slow
def test_the_search_for_surviving_secrets_reads_a_new_text(told: Any) -> None:
    assert told["survivors"] > 0
    assert told["left"] == []
