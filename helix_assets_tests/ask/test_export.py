"""The export is the same for the same logs, whatever the store's key, and tells nothing that is only the store's."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helix_assets.ask.export import export, session_figures, shown_path, strip
from helix_assets.model.errors import StoreError
from helix_assets_tests.home import Memory, call, conversation, prompt, result

TOKEN = "ghp_" + "A1b2C3d4" * 4 + "E5f6"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path)
    yield made
    made.close()


def lines_of(memory: Memory) -> list[dict[str, Any]]:
    return [json.loads(line) for line in memory.exported().splitlines()]


def test_two_stores_of_one_home_export_the_same_bytes(memory: Memory, tmp_path: Path) -> None:
    failure = result("r9", "09:00:20", "toolu_9", f"fatal: token {TOKEN} is refused", failed=True)
    lines = [prompt("p0", "09:00:00", f"use {TOKEN} please"), call("c9", "09:00:10", "Bash", "toolu_9", command="push")]
    lines += [failure, *conversation(3)]
    memory.write("s1", *lines)
    memory.sweep()
    twin = Memory(tmp_path / "twin")
    twin.write("s1", *lines)
    twin.sweep()
    assert memory.store.key != twin.store.key
    assert memory.exported() == twin.exported()
    twin.close()


def test_secret_is_exported_as_a_mark_without_a_tag(memory: Memory) -> None:
    memory.write("s1", prompt("p0", "09:00:00", f"use {TOKEN} please"))
    memory.sweep()
    (_, row) = lines_of(memory)
    assert TOKEN not in row["raw"]
    assert row["summary"] == "use [redacted:github] please"


def test_mark_cut_at_the_end_of_a_summary_loses_its_tag() -> None:
    assert strip("key [redacted:aws_key:ab2…") == strip("key [redacted:aws_key:xy7…") == "key [redacted:aws_key…"


def test_session_comes_before_its_rows_in_order(memory: Memory) -> None:
    memory.write("s2", *conversation(1, session="b"))
    memory.write("s1", *conversation(1))
    memory.sweep()
    found = lines_of(memory)
    heads = [line["session_uid"] for line in found if "digest" in line]
    assert heads == ["claude:s1", "claude:s2"]
    assert [line["seq"] for line in found if line["session_uid"] == "claude:s2" and "seq" in line] == [0, 1, 2, 3, 4]
    assert found[0]["files"] == ["s1.jsonl"]


def test_nothing_of_the_store_itself_is_told(memory: Memory) -> None:
    memory.write("s1", *conversation(1))
    memory.sweep()
    text = memory.exported().decode()
    assert str(memory.folder) not in text
    assert not {"record_key", "input_hash", "generation", "ingested_at", "day"} & {
        k for x in lines_of(memory) for k in x
    }
    assert "generation" not in json.loads(text.splitlines()[0])["digest"]["coverage"]


def test_hash_is_that_of_the_bytes(memory: Memory) -> None:
    memory.write("s1", *conversation(2))
    memory.sweep()
    out = io.BytesIO()
    done = export(memory.store, out)
    assert (done.sessions, done.lines, done.bytes) == (1, len(out.getvalue().splitlines()), len(out.getvalue()))
    assert export(memory.store, io.BytesIO()).sha256 == done.sha256


def test_damaged_file_is_no_silently_shorter_export(memory: Memory) -> None:
    memory.write("s1", *conversation(1))
    memory.sweep()
    (name,) = memory.store.raw.names()
    path = memory.store.raw.path(name)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(StoreError, match="claude:s1 is damaged"):
        memory.exported()


def test_session_evicted_meanwhile_is_read_whole(memory: Memory) -> None:
    from helix_assets.ask.reading import open_session

    memory.write("s1", *conversation(2))
    memory.sweep()
    with open_session(memory.store, "claude:s1") as session:
        for name in list(memory.store.raw.names()):
            memory.store.raw.remove(name)
        assert sum(1 for row in session.rows(raw=True) if row.raw) == 8


def test_session_on_its_way_out_counts_as_gone(memory: Memory) -> None:
    """Its files may be unlinked already while the catalog still names them."""
    memory.write("s1", *conversation(1))
    memory.sweep()
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE sessions SET evicting_at = '2026-07-01T00:00:00.000Z'")
    for name in list(memory.store.raw.names()):
        memory.store.raw.remove(name)
    (head,) = lines_of(memory)
    assert head["is_evicted"]


def test_evicted_session_is_exported_by_its_digest(memory: Memory) -> None:
    memory.write("s1", *conversation(1))
    memory.sweep()
    with memory.store.catalog.writing() as connection:
        connection.execute("DELETE FROM raw_files")
    (head,) = lines_of(memory)
    assert head["digest"]["user_prompts"] == 1


def test_figures_name_the_files_by_their_agent(memory: Memory) -> None:
    memory.write("s1", *conversation(2))
    memory.sweep()
    (figures,) = session_figures(memory.store).values()
    assert figures.files == ("claude/projects/-home-u-shop/s1.jsonl",)


def test_file_outside_the_known_folders_goes_by_its_name(memory: Memory) -> None:
    assert shown_path(memory.store.settings, "claude", "/gone/away/s1.jsonl") == "claude/s1.jsonl"
