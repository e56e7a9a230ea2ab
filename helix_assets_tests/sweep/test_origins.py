"""Where a session's main log was and when the session was first stored outlive log, rows and later sweeps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from helix_assets.agents.roles import main_log
from helix_assets.ask.sql import ask
from helix_assets.keep.evict import apply
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.model.event import DIGEST_VERSION, SCHEMA_VERSION
from helix_assets.model.time import iso, microseconds
from helix_assets.prove.verify import verify
from helix_assets.redaction import Redactor
from helix_assets.redaction.again import digest_again
from helix_assets.store.catalog import sources
from helix_assets_tests.home import NOW, Memory, conversation, prompt
from helix_assets_tests.home import ask as ask_catalog

UID = "claude:s1"
FIRST_SEEN = iso(microseconds(NOW))


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A session with a subagent, swept once."""
    made = Memory(tmp_path, {"HELIX_AGENTS": "claude"})
    made.write("s1", *conversation(2))
    made.put("claude/projects/-home-u-shop/s1/subagents/agent-a1.jsonl",
             prompt("sub", "10:00:01", "look", isSidechain=True, agentId="a1"))  # fmt: skip
    made.sweep()
    yield made
    made.close()


def origins(memory: Memory) -> set[tuple[Any, ...]]:
    """What digest, `sessions` and `digests` say of the session's origin: one answer, if they agree."""
    columns = "source_path, strftime(discovered_at, '%Y-%m-%dT%H:%M:%S.%gZ')"
    digest = memory.digest(UID)
    found = {(digest["source_path"], digest["discovered_at"])}
    for view in ("sessions", "digests"):
        found |= set(ask(memory.store, f"select {columns} from {view} where session_uid = '{UID}'").rows)
    return found


def main_path(memory: Memory) -> str:
    (path,) = [row.path for row in ask_catalog(memory.store, sources.with_sessions) if row.role == "main"]
    return str(path)


def test_main_log_and_first_sweep_are_named(memory: Memory) -> None:
    assert main_path(memory).endswith("/claude/projects/-home-u-shop/s1.jsonl")
    assert origins(memory) == {(main_path(memory), FIRST_SEEN)}


def test_later_turns_change_neither(memory: Memory) -> None:
    before = origins(memory)
    memory.now += timedelta(hours=1)
    memory.write("s1", prompt("more", "12:00:00", "and now"), append=True)
    memory.sweep()
    assert (memory.digest(UID)["user_prompts"], origins(memory)) == (3, before)


def test_both_outlive_the_log_and_the_rows(memory: Memory) -> None:
    before = origins(memory)
    memory.path("s1").unlink()
    memory.sweep()
    policy = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=1 << 40, max_age_days=400, distilled_cap_bytes=1 << 40)
    apply(memory.store, clock=lambda: memory.now, policy=policy)
    memory.sweep()
    assert memory.row(UID).evicted_at is not None
    assert (origins(memory), verify(memory.store)) == (before, [])


def test_log_that_was_moved_is_named_where_it_is(memory: Memory) -> None:
    memory.path("s1").rename(memory.path("s1", "-home-u-elsewhere"))
    memory.write("s1", prompt("more", "12:00:00", "and now"), project="-home-u-elsewhere", append=True)
    memory.sweep()
    ((path, found_at),) = origins(memory)
    assert (path, found_at) == (main_path(memory), FIRST_SEEN)
    assert "-home-u-elsewhere/s1.jsonl" in path


def test_secret_that_the_path_encodes_is_redacted_in_the_digest() -> None:
    token = "ghp_" + "A1b2C3d4" * 4 + "E5f6"
    encoded = "".join(f"%{ord(sign):02x}" for sign in token)
    digest = {"source_path": f"/home/u/{encoded}/s1.jsonl", "discovered_at": FIRST_SEEN, "error_snippets": []}
    clean = digest_again(Redactor(bytes(32)), digest)
    assert encoded not in clean["source_path"]
    assert clean["source_path"].startswith("/home/u/")
    assert clean["discovered_at"] == FIRST_SEEN


@pytest.mark.parametrize(
    ("files", "path"),
    [
        ([("subagent", 1, "a"), ("main", 9, "b")], "b"),
        ([("main", 5, "a"), ("main", 4, "b")], "b"),
        ([("about", 1, "a"), ("fallback", 9, "b")], "b"),
        ([("about", 1, "a")], "a"),
        ([], None),
    ],
)
def test_main_log_is_the_sessions_own(files: list[tuple[str, int, str]], path: str | None) -> None:
    assert main_log(files) == path


def test_export_has_neither(memory: Memory) -> None:
    head = json.loads(memory.exported().splitlines()[0])
    assert head["digest"]["schema_version"] == DIGEST_VERSION
    assert not {"source_path", "discovered_at"} & head["digest"].keys()


def test_versions_of_all_that_is_stored_are_a_view(memory: Memory) -> None:
    row = memory.row(UID)
    made = (row.parser_version, row.redaction_version, DIGEST_VERSION, DIGEST_VERSION, SCHEMA_VERSION)
    columns = "parser_version, redaction_version, derivation_version, digest_schema_version, row_schema_version"
    query = f"select {columns} from schema_versions where session_uid = '{UID}'"
    assert ask(memory.store, query).rows == [made]
    with memory.store.catalog.writing() as connection:
        connection.execute("DELETE FROM digests")
    assert ask(memory.store, query).rows == [(*made[:3], None, SCHEMA_VERSION)]


def test_view_of_sessions_has_the_shape_of_their_rows(memory: Memory) -> None:
    assert ask(memory.store, "select schema_version from sessions").rows == [(SCHEMA_VERSION,)]
