"""The published JSON Schema is the digest's, holds for real digests, and keeps every field of the stable shape.

`python -m helix_assets_tests.model.test_digest_schema` writes both copies anew after a field was added.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from helix_assets.ask.digest_lookup import schema
from helix_assets.model.digest import Digest
from helix_assets_tests.conftest import CHECKOUT
from helix_assets_tests.home import Memory, conversation

COPIES = (CHECKOUT / "helix_assets" / "model" / "digest.schema.json", CHECKOUT / "docs" / "digest.schema.json")
# What programs that we do not control rely on: name and JSON types, as the first design of the memory promised them.
STABLE: dict[str, set[str]] = {
    "session_uid": {"string"},
    "flavor": {"string"},
    "repo": {"string", "null"},
    "domain": {"string", "null"},
    "model": {"string", "null"},
    "started_at": {"string", "null"},
    "ended_at": {"string", "null"},
    "outcome": {"string"},
    "cost": {"object"},
    "tool_histogram": {"object"},
    "event_count": {"integer"},
    "kind_counts": {"object"},
    "markers": {"object"},
    "first_prompt": {"string", "null"},
    "last_assistant": {"string", "null"},
    "error_snippets": {"array"},
    "schema_version": {"integer"},
}
COST = {"input_tokens", "output_tokens", "cache_tokens", "wall_clock_s", "turns", "retries"}
SNIPPET = {"fingerprint", "sample", "count", "tool"}


def as_published() -> str:
    about = {"$schema": "https://json-schema.org/draft/2020-12/schema", **TypeAdapter(Digest).json_schema()}
    return json.dumps(about, indent=2, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("copy", COPIES, ids=["package", "docs"])
def test_published_schema_is_the_digests(copy: Path) -> None:
    assert copy.read_text(encoding="utf-8") == as_published(), (
        "run: python -m helix_assets_tests.model.test_digest_schema"
    )


def test_the_package_ships_the_schema() -> None:
    assert json.loads(schema())["title"] == "Digest"


def _types(spec: dict[str, Any]) -> set[str]:
    if "$ref" in spec:
        return {"object"}
    return {spec["type"]} if "type" in spec else {kind for part in spec["anyOf"] for kind in _types(part)}


def test_every_field_of_the_stable_shape_is_there_with_its_type() -> None:
    published = json.loads(schema())
    assert {name: _types(published["properties"][name]) for name in STABLE} == STABLE
    assert published["$defs"]["Cost"]["properties"].keys() >= COST
    assert published["$defs"]["ErrorSnippet"]["properties"].keys() >= SNIPPET


def test_a_real_digest_is_valid_and_has_the_stable_shape(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(3))
    memory.sweep()
    digest = memory.digest("claude:s1")
    memory.close()
    Draft202012Validator(json.loads(schema())).validate(digest)
    assert digest.keys() >= STABLE.keys()
    assert digest["cost"].keys() >= COST
    assert all(snippet.keys() >= SNIPPET for snippet in digest["error_snippets"])


if __name__ == "__main__":
    for place in COPIES:
        place.write_text(as_published(), encoding="utf-8")
