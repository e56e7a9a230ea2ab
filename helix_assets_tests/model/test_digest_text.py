"""A digest's text becomes the digest, whatever version wrote it, and the digest its text."""

from dataclasses import FrozenInstanceError
from pathlib import Path

import orjson
import pytest
from pydantic import TypeAdapter

from helix_assets.model.digest import Digest
from helix_assets.model.digest_text import parsed_digest, whole_digest, written_digest, wrong_fields
from helix_assets_tests.home import Memory, call, conversation, result


@pytest.fixture
def text(tmp_path: Path) -> str:
    """The digest of a session with an error, so that all of its lists contain something."""
    memory = Memory(tmp_path)
    for number in range(3):
        memory.write("s1", *conversation(1, start=number), append=True)
        memory.write("s1", call(f"c{number}", "11:00:00", "Edit", f"e{number}", file_path="/home/u/shop/a.py"),
                     result(f"r{number}", "11:00:01", f"e{number}", "String to replace not found", failed=True),
                     append=True)  # fmt: skip
    memory.sweep()
    found = memory.digest_text("claude:s1")
    memory.close()
    return found


def test_each_field_has_the_type_that_its_class_names(text: str) -> None:
    digest = whole_digest(text)
    assert digest.error_snippets
    assert digest.signals
    assert digest.coverage.ranges
    assert digest == TypeAdapter(Digest).validate_json(text)
    assert written_digest(digest) == text


def test_a_digest_of_an_older_version_gets_the_defaults_and_one_of_a_newer_keeps_what_is_known(text: str) -> None:
    content = parsed_digest(text)
    del content["edits"], content["coverage"]["facts"]
    content["a_later_field"] = content["cost"]["another"] = 1
    digest = whole_digest(orjson.dumps(content))
    assert (digest.edits.count, digest.coverage.facts, digest.title) == (0, {}, content["title"])


def test_a_digest_cannot_be_changed(text: str) -> None:
    with pytest.raises(FrozenInstanceError):
        whole_digest(text).outcome = "success"  # type: ignore[misc]


def test_a_field_is_an_item_too(text: str) -> None:
    digest = whole_digest(text)
    assert digest["cost"]["turns"] == digest.cost.turns
    with pytest.raises(KeyError, match="no_such_field"):
        digest["no_such_field"]


def test_fields_that_are_missing_or_of_another_type_are_named(text: str) -> None:
    content = parsed_digest(text)
    del content["cost"]
    content["models"], content["tool_histogram"] = "gpt", {"Bash": "twice"}
    assert wrong_fields(text) == ()
    assert wrong_fields(orjson.dumps(content)) == ["cost", "models", "tool_histogram"]
