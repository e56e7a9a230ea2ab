"""Facts lie beside the digests: a file per fact and partition, replaced as a whole, never doubled, never lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helix_assets.keep.evict import apply
from helix_assets.keep.forget import forget
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.prove.verify import verify
from helix_assets.store.catalog import live_files, meta
from helix_assets.store.fact_files import FactFile, FactFiles
from helix_assets.sweep import commit as commit_module
from helix_assets_tests.home import Memory, answer, call, conversation, prompt, result

UID = "claude:s1"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path)
    yield made
    made.close()


def rows(memory: Memory, fact: str, uid: str | None = None) -> list[dict[str, Any]]:
    """The live rows of a fact, of one session or all."""
    found: list[dict[str, Any]] = []
    for file in memory.fact_files():
        if file.fact == fact:
            found += memory.store.facts.read(file).to_pylist()
    return [row for row in found if uid in (None, row["session_uid"])]


def evict_all(memory: Memory) -> None:
    policy = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=1 << 40, max_age_days=400, distilled_cap_bytes=1 << 40)
    apply(memory.store, clock=lambda: memory.now, policy=policy)


def test_a_call_tells_its_program_outcome_and_error_class(memory: Memory) -> None:
    memory.write("s1", *conversation(2))
    memory.sweep()
    good, bad = rows(memory, "tool_calls", UID)
    assert (good["tool"], good["program"], good["status"], good["duration_ms"]) == ("Bash", "pytest", "ok", 5000)
    assert (bad["status"], bad["exit_code"], bad["error_class"]) == ("error", 1, "test_failure")


def test_facts_hold_no_transcript_text(memory: Memory) -> None:
    memory.write("s1", *conversation(3))
    memory.sweep()
    blobs = b"".join(memory.store.facts.path(name).read_bytes() for name in memory.store.facts.names())
    assert b"please do step" not in blobs
    assert b"is done" not in blobs
    assert b"pytest -q" not in blobs


def test_messages_tell_role_and_size_alone(memory: Memory) -> None:
    memory.write("s1", prompt("p", "10:00:00", "x" * 999), answer("a", "10:00:09", "yes", message="m"))
    memory.sweep()
    said = [(row["role"], row["size"], row["model"]) for row in rows(memory, "messages")]
    assert said == [("user", 999, None), ("assistant", 3, "claude-opus-4-5")]


def test_token_usage_counts_a_message_once(memory: Memory) -> None:
    lines = [answer("a", "10:00:09", "yes", message="m", output=n) for n in (1, 7)]
    memory.write("s1", prompt("p", "10:00:00", "go"), lines[0], lines[1].replace(b'"uuid": "', b'"uuid": "2', 1))
    memory.sweep()
    (usage,) = rows(memory, "token_usage")
    assert (usage["input"], usage["output"]) == (3, 7)


def test_file_operations_tell_kind_language_and_lines(memory: Memory) -> None:
    memory.write(
        "s1",
        call("c1", "10:00:01", "Read", "toolu_1", file_path="/home/u/shop/a.py"),
        result("r1", "10:00:02", "toolu_1", "text"),
        call("c2", "10:00:03", "Grep", "toolu_2", pattern="x", path="/home/u/shop"),
        result("r2", "10:00:04", "toolu_2", "none"),
    )
    memory.sweep()
    found = [(row["operation"], row["file_path"], row["language"]) for row in rows(memory, "file_operations")]
    assert found == [("read", "/home/u/shop/a.py", "python"), ("grep", "/home/u/shop", None)]


def test_grown_session_replaces_its_rows_and_carries_over_others(memory: Memory) -> None:
    memory.write("s1", *conversation(1))
    memory.write("s2", *conversation(2, session="b"))
    memory.sweep()
    other = rows(memory, "tool_calls", "claude:s2")
    memory.write("s1", *conversation(2, start=1), append=True)
    memory.sweep()
    assert rows(memory, "tool_calls", "claude:s2") == other
    assert [row["generation"] for row in rows(memory, "tool_calls", UID)] == [2, 2, 2]
    assert len([file for file in memory.fact_files() if file.fact == "tool_calls"]) == 1
    assert verify(memory.store) == []


def test_replaced_file_is_gone_from_disk(memory: Memory) -> None:
    memory.write("s1", *conversation(1))
    memory.sweep()
    memory.write("s1", *conversation(1, start=1), append=True)
    memory.sweep()
    assert set(memory.store.facts.names()) == {file.name for file in memory.fact_files()}


def test_old_files_are_read_only_for_other_sessions_rows(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = FactFiles.read
    monkeypatch.setattr(FactFiles, "read", lambda self, file: read.append(file.fact) or real(self, file))
    memory.write("s1", *conversation(1))
    memory.write("s2", *conversation(1, session="b"))
    memory.sweep()
    memory.write("s1", *conversation(1, start=1), append=True)
    memory.write("s2", *conversation(1, start=1, session="b"), append=True)
    memory.sweep()
    assert not read
    memory.write("s1", *conversation(1, start=2), append=True)
    memory.sweep()
    assert "tool_calls" in read
    assert len(rows(memory, "tool_calls", "claude:s2")) == 2


def test_facts_outlive_the_raw_bytes(memory: Memory) -> None:
    memory.write("s1", *conversation(2))
    memory.sweep()
    before = rows(memory, "tool_calls")
    evict_all(memory)
    assert list(memory.store.raw.names()) == []
    assert rows(memory, "tool_calls") == before
    assert verify(memory.store) == []


def test_evicted_session_that_grows_keeps_its_facts(memory: Memory) -> None:
    memory.write("s1", *conversation(2))
    memory.sweep()
    evict_all(memory)
    memory.write("s1", *conversation(1, start=2), append=True)
    memory.sweep()
    assert len(rows(memory, "tool_calls", UID)) == 3
    assert verify(memory.store) == []


def test_evicted_session_that_cannot_be_told_keeps_its_old_facts(memory: Memory) -> None:
    path = memory.write("s1", *conversation(2))
    memory.sweep()
    evict_all(memory)
    path.unlink()
    memory.sweep()
    memory.write("s2", *conversation(1, session="b"))
    memory.sweep()
    assert len(rows(memory, "tool_calls", UID)) == 2


def test_failed_derivation_keeps_the_old_facts(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.write("s1", *conversation(1))
    memory.sweep()
    before = rows(memory, "tool_calls")
    monkeypatch.setattr("helix_assets.derive.fact_builder.FactBuilder.finish", lambda *_: 1 / 0)
    memory.write("s1", *conversation(1, start=1), append=True)
    report = memory.sweep()
    assert report.digests_failed == 1
    assert rows(memory, "tool_calls") == before
    assert memory.row(UID).failure == "ZeroDivisionError while the digest was built"


def test_damaged_fact_file_sets_its_sessions_aside_and_stops_no_other(memory: Memory) -> None:
    memory.write("s1", *conversation(1))
    memory.write("s3", *conversation(1, session="c"))
    memory.sweep()
    (name,) = (file.name for file in memory.fact_files() if file.fact == "tool_calls")
    memory.store.facts.path(name).write_bytes(b"?")
    other = [line.replace(b"2026-06-05", b"2026-06-06") for line in conversation(1, session="b")]
    memory.write("s1", *conversation(1, start=1), append=True)
    memory.write("s2", *other)
    report = memory.sweep()
    assert (report.digests_failed, report.digests_written) == (1, 1)
    assert "facts cannot be kept" in memory.row(UID).failure
    found = [(v.check, v.session_uid, v.path) for v in verify(memory.store)]
    assert found == [
        ("fact_file", None, name), ("facts_of_digest", UID, name), ("facts_of_digest", "claude:s3", name)
    ]  # fmt: skip


def test_damaged_fact_file_names_the_sessions_that_have_rows_in_it_and_no_others(memory: Memory) -> None:
    memory.write("s1", *conversation(2))
    memory.write("s2", *conversation(1, session="b"))
    memory.write("s3", prompt("q", "10:00:00", "no tool was called"))
    memory.sweep()
    (name,) = (file.name for file in memory.fact_files() if file.fact == "tool_calls")
    memory.store.facts.path(name).write_bytes(b"?")
    hit = {v.session_uid: v.what for v in verify(memory.store) if v.check == "facts_of_digest"}
    assert hit == {
        "claude:s1": "its rows of tool_calls cannot be read (2)",
        "claude:s2": "its rows of tool_calls cannot be read (1)",
    }


class Killed(BaseException):
    """What a kill looks like from inside."""


@pytest.mark.parametrize("at", ["before_commit", "before_unlink"])
def test_kill_neither_doubles_nor_loses(memory: Memory, monkeypatch: pytest.MonkeyPatch, at: str) -> None:
    memory.write("s1", *conversation(1))
    memory.sweep()
    memory.write("s1", *conversation(1, start=1), append=True)

    def kill(*_: Any, **__: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        if at == "before_commit":
            patch.setattr(live_files, "put_fact_files", kill)
        else:
            patch.setattr(commit_module, "_committed", kill)
            patch.setattr("helix_assets.store.fact_files.FactFiles.remove", lambda *_: None)
        with pytest.raises(Killed):
            memory.sweep()
    (memory.store.data_dir / "lock").write_text("a writer that was killed")
    memory.sweep()
    assert len(rows(memory, "tool_calls", UID)) == 2
    assert set(memory.store.facts.names()) == {file.name for file in memory.fact_files()}
    assert verify(memory.store) == []


def test_facts_are_the_same_whatever_the_splitting(memory: Memory, tmp_path: Path) -> None:
    twin = Memory(tmp_path / "twin")
    memory.write("s1", *conversation(3))
    memory.sweep()
    for turn in range(3):
        twin.write("s1", *conversation(1, start=turn), append=True)
        twin.sweep()
    hidden = {"generation", "record_key"}
    for fact in ("tool_calls", "token_usage", "messages", "test_runs"):
        ours, theirs = (
            [{k: v for k, v in row.items() if k not in hidden} for row in rows(one, fact)] for one in (memory, twin)
        )
        assert ours == theirs
    twin.close()


def test_facts_of_an_older_version_are_carried_over_without_their_new_columns(memory: Memory) -> None:
    memory.write("s1", *conversation(1))
    memory.sweep()
    evict_all(memory)
    (file,) = (file for file in memory.fact_files() if file.fact == "tool_calls")
    old = memory.store.facts.write("tool_calls", (file.flavor, file.day), 9, read_without(memory, file, "language"))
    with memory.store.catalog.writing() as connection:
        live_files.put_fact_files(connection, [old], [])
    memory.store.facts.remove(file.name)
    memory.write("s2", *conversation(1, session="b"))
    memory.sweep()
    assert [row["language"] for row in rows(memory, "tool_calls")] == [None, None]
    assert verify(memory.store) == []


def read_without(memory: Memory, file: FactFile, column: str) -> Any:
    return memory.store.facts.read(file).drop_columns([column])


@pytest.fixture
def growing(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """A session that grew, in a partition where so few facts count as many."""
    monkeypatch.setattr("helix_assets.store.fact_merge.SETTLED_BYTES", 1)
    memory.write("s1", *conversation(20))
    memory.sweep()
    memory.write("s1", *conversation(1, start=20), append=True)
    memory.sweep()
    return memory


def settled_and_recent(memory: Memory, fact: str) -> tuple[FactFile, FactFile | None]:
    settled, *recent = (file for file in memory.fact_files() if file.fact == fact)
    return settled, recent[0] if recent else None


def test_facts_of_a_turn_leave_the_settled_file_as_it_is(growing: Memory, tmp_path: Path) -> None:
    settled, recent = settled_and_recent(growing, "tool_calls")
    assert recent is not None
    assert (settled.version, settled.row_count, recent.row_count) == (1, 20, 1)
    growing.write("s1", *conversation(1, start=21), append=True)
    growing.sweep()
    after, recent = settled_and_recent(growing, "tool_calls")
    assert recent is not None
    assert (after, recent.row_count) == (settled, 2)
    whole = Memory(tmp_path / "whole")
    whole.write("s1", *conversation(22))
    whole.sweep()
    own = {"generation": 0, "record_key": 0}  # these depend on the store
    both = ([row | own for row in rows(memory, "tool_calls")] for memory in (growing, whole))
    assert next(both) == next(both)
    assert verify(growing.store) == []


def test_a_settled_fact_that_changes_rewrites_its_file(growing: Memory) -> None:
    growing.write("s1", call("late", "11:00:00", "Bash", "late_call", command="ls"), append=True)
    growing.sweep()
    with growing.store.catalog.writing() as connection:
        connection.execute("DELETE FROM day_marks")
    growing.sweep()  # the first of a day joins both files
    settled, recent = settled_and_recent(growing, "tool_calls")
    assert (settled.row_count, recent) == (22, None)
    growing.write("s1", result("done", "11:00:05", "late_call", "ok"), append=True)
    growing.sweep()
    settled, recent = settled_and_recent(growing, "tool_calls")
    assert recent is not None
    assert (settled.row_count, recent.row_count) == (21, 1)
    assert sorted(growing.store.facts.names()) == sorted(file.name for file in growing.fact_files())
    assert verify(growing.store) == []


def test_many_recent_facts_are_settled(growing: Memory) -> None:
    for turn in range(21, 45):
        growing.write("s1", *conversation(1, start=turn), append=True)
        growing.sweep()
    settled, recent = settled_and_recent(growing, "tool_calls")
    assert settled.row_count > 20
    assert settled.row_count + (recent.row_count if recent else 0) == 45
    assert verify(growing.store) == []


def test_no_file_of_facts_names_a_forgotten_session_that_grew(growing: Memory) -> None:
    growing.write("s2", *conversation(2, session="b"))
    growing.sweep()
    forget(growing.store, ["claude:s1"], now=growing.now)
    assert {row["session_uid"] for fact in ("tool_calls", "messages") for row in rows(growing, fact)} == {"claude:s2"}
    assert verify(growing.store) == []


def test_stale_digest_version_makes_facts_anew(memory: Memory) -> None:
    memory.write("s1", *conversation(1))
    memory.sweep()
    (file,) = (file for file in memory.fact_files() if file.fact == "tool_calls")
    old = memory.store.facts.write("tool_calls", (file.flavor, file.day), 9, read_without(memory, file, "tool"))
    with memory.store.catalog.writing() as connection:
        live_files.put_fact_files(connection, [old], [])
    memory.store.facts.remove(file.name)
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE sessions SET derivation_version = 1")
        meta.put(connection, "settled", "by older rules")
    memory.sweep()
    assert [(row["generation"], row["tool"]) for row in rows(memory, "tool_calls")] == [(2, "Bash")]
    assert verify(memory.store) == []
