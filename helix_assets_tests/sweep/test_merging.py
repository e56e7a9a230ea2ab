"""A session that grows after its earlier part is gone for good, from store and disk, counts all of it once."""

from collections.abc import Iterator
from datetime import timedelta
from json import dumps
from pathlib import Path
from typing import Any

import pytest

from helix_assets.agents.codex.tokens import TokenMeter, after_spending
from helix_assets.keep import evict
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.model.event import Usage
from helix_assets.prove.promises import token_totals_add_up
from helix_assets.prove.verify import verify
from helix_assets.store.catalog import digests, meta
from helix_assets_tests.home import NOW, Memory, answer, conversation, prompt

UID = "claude:s"
COUNTED = (
    "tokens", "tool_histogram", "tool_calls", "tool_errors", "user_prompts", "assistant_messages", "record_count",
    "started_at", "ended_at", "models", "first_prompt", "last_assistant", "tests", "edits", "cost_usd", "outcome",
    "unparsed_lines",
)  # fmt: skip


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path)
    yield memory
    memory.close()


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The digest of a session of five turns that was never disturbed."""
    memory = Memory(tmp_path / "whole")
    memory.write("s", *conversation(5))
    memory.sweep()
    yield memory.digest(UID)
    memory.close()


def evict_all(memory: Memory) -> None:
    evict.apply(memory.store, clock=lambda: NOW, policy=RetentionPolicy(1, 1 << 40, 45, 1 << 40))


def evicted(memory: Memory, turns: int = 3) -> None:
    memory.write("s", *conversation(turns))
    memory.sweep()
    evict_all(memory)


def counted(digest: dict[str, Any]) -> dict[str, Any]:
    return {name: digest[name] for name in COUNTED}


def is_sound(memory: Memory) -> bool:
    return verify(memory.store) == [] and token_totals_add_up(memory.store).holds


def test_log_that_begins_anew_adds_what_is_new(memory: Memory, whole: dict[str, Any]) -> None:
    evicted(memory)
    memory.write("s", *conversation(2, start=3))
    report = memory.sweep()
    assert (report.problems, counted(memory.digest(UID))) == ([], counted(whole))
    assert memory.row(UID).is_partial
    assert is_sound(memory)


def test_rewritten_log_that_tells_some_again_adds_the_rest(memory: Memory, whole: dict[str, Any]) -> None:
    evicted(memory)
    memory.write("s", *conversation(5)[4:])
    memory.sweep()
    assert counted(memory.digest(UID)) == counted(whole)
    assert is_sound(memory)


def test_log_of_another_place_goes_on_where_the_first_ended(memory: Memory, whole: dict[str, Any]) -> None:
    evicted(memory)
    memory.path("s").unlink()
    memory.write("s", *conversation(4, start=1), project="-home-u-moved")
    memory.sweep()
    assert counted(memory.digest(UID)) == counted(whole)
    assert is_sound(memory)


def test_it_grows_on_and_on(memory: Memory, whole: dict[str, Any]) -> None:
    evicted(memory, 2)
    memory.write("s", *conversation(1, start=2))
    memory.sweep()
    memory.write("s", *conversation(1, start=3), append=True)
    memory.sweep()
    evict_all(memory)
    memory.write("s", *conversation(1, start=4), append=True)
    memory.sweep()
    assert counted(memory.digest(UID)) == counted(whole)
    assert is_sound(memory)


def test_only_what_is_new_is_stored(memory: Memory) -> None:
    evicted(memory)
    memory.write("s", *conversation(5)[4:])
    memory.sweep()
    assert memory.row(UID).record_count == 8
    assert memory.sweep().sessions_touched == 0


def test_a_log_with_nothing_new_brings_nothing_back(memory: Memory) -> None:
    evicted(memory)
    before = counted(memory.digest(UID))
    memory.write("s", *conversation(3)[4:])
    memory.sweep()
    assert counted(memory.digest(UID)) == before
    assert list(memory.store.raw.names()) == []
    assert is_sound(memory)


def test_a_message_told_in_parts_counts_once(memory: Memory) -> None:
    first = answer("a1", "10:00:05", "half", message="msg_long", output=10)
    memory.write("s", prompt("p", "10:00:00", "go"), first)
    memory.sweep()
    evict_all(memory)
    memory.write("s", answer("a2", "10:00:06", "whole", message="msg_long", output=10))
    memory.sweep()
    assert memory.digest(UID)["tokens"]["output"] == 10


def test_session_without_its_texts_keeps_its_rows(memory: Memory, whole: dict[str, Any]) -> None:
    memory.write("s", *conversation(3))
    memory.write("large", *conversation(9, session="l"))
    memory.sweep()
    usage = memory.raw_usage()
    evict.apply(memory.store, clock=lambda: NOW, policy=RetentionPolicy(usage - 9_000, 1 << 40, 45, 1 << 40))
    with memory.store.catalog.reading() as connection:
        assert UID in connection.column("SELECT session_uid FROM evictions")
    memory.write("s", *conversation(2, start=3))
    memory.sweep()
    assert counted(memory.digest(UID)) == counted(whole)
    assert verify(memory.store) == []


def codex(start: int, turns: int) -> bytes:
    lines: list[dict[str, Any]] = []
    for turn in range(start, start + turns):
        at = f"2026-06-05T10:{turn:02d}"
        usage = {"input_tokens": 100, "cached_input_tokens": 0, "output_tokens": 10, "total_tokens": 110}
        total = {name: count * (turn + 1) for name, count in usage.items()}
        info = {"last_token_usage": usage, "total_token_usage": total}
        lines += [
            {"timestamp": f"{at}:01.000Z", "type": "event_msg", "payload": {"type": "user_message", "message": "go"}},
            {"timestamp": f"{at}:05.000Z", "type": "event_msg", "payload": {"type": "token_count", "info": info}},
        ]
    return b"".join(dumps(line).encode() + b"\n" for line in lines)


def test_records_without_ids_are_told_apart_by_time(memory: Memory) -> None:
    name = "codex/sessions/2026/06/05/rollout-2026-06-05T10-00-00-019e0000-0000-7000-8000-000000000001.jsonl"
    about = {"id": "019e0000-0000-7000-8000-000000000001", "cwd": "/home/u/shop", "cli_version": "0.90.0"}
    meta = dumps({"timestamp": "2026-06-05T10:00:00.000Z", "type": "session_meta", "payload": about}).encode() + b"\n"
    memory.put(name, meta + codex(0, 3))
    memory.sweep()
    uid = f"codex:{about['id']}"
    before = memory.digest(uid)
    evict_all(memory)
    (memory.folder / "home" / name).unlink()
    memory.put(name, meta + codex(2, 3))
    memory.sweep()
    after = memory.digest(uid)
    assert (before["user_prompts"], after["user_prompts"]) == (3, 5)
    assert (before["tokens"]["output"], after["tokens"]["output"]) == (30, 50)
    assert verify(memory.store) == []


def test_new_digest_rules_leave_a_merged_digest_as_it_is(memory: Memory) -> None:
    evicted(memory)
    memory.write("s", *conversation(2, start=3))
    memory.sweep()
    before = memory.digest(UID)
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE sessions SET derivation_version = 0")
        meta.put(connection, "settled", "by older rules")
    memory.sweep()
    assert memory.digest(UID) == before
    assert evict.plan(memory.store, now=NOW, policy=RetentionPolicy(1, 1 << 40, 45, 1 << 40)).goes


def test_growth_waits_while_the_kept_digest_is_damaged(memory: Memory) -> None:
    evicted(memory)
    damage(memory, "abc")
    memory.write("s", *conversation(2, start=3))
    memory.write("other", *conversation(1, session="o"))
    report = memory.sweep()
    assert (report.sessions_failed, "claude:other" in report.touched, UID in report.touched) == (1, True, False)


def test_growth_is_stored_while_the_kept_facts_are_damaged(memory: Memory) -> None:
    evicted(memory)
    before = memory.digest(UID)
    file = memory.store.facts.path(memory.fact_files()[0].name)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + b"?")
    memory.write("s", *conversation(2, start=3))
    assert memory.sweep().digests_failed == 1
    assert memory.digest(UID) == before
    file.write_bytes(whole)
    memory.path("s").unlink()
    memory.now += timedelta(days=2)
    memory.sweep()
    assert (memory.digest(UID)["user_prompts"], verify(memory.store)) == (5, [])


def damage(memory: Memory, text: str) -> None:
    with memory.store.catalog.writing() as connection:
        digests.change(connection, UID, hash=text)


def test_a_total_that_codex_repeats_behind_the_cut_counts_once() -> None:
    told = {"input_tokens": 110, "cached_input_tokens": 40, "output_tokens": 9, "reasoning_output_tokens": 3}
    last = {"input_tokens": 50, "cached_input_tokens": 0, "output_tokens": 4}
    meter = TokenMeter(after_spending([70, 9, 40, 0, 3]))
    assert meter.count({"info": {"total_token_usage": told, "last_token_usage": last}}) is None
    grown = {**told, "input_tokens": 160, "output_tokens": 13}
    assert meter.count({"info": {"total_token_usage": grown, "last_token_usage": last}}) == Usage(50, 4, 0, 0, 0, 0)


def test_log_that_lies_there_as_a_copy_is_told_whole(memory: Memory, whole: dict[str, Any]) -> None:
    """As an editor or a restored home leaves it: nothing of the evicted part is gone from the disk."""
    evicted(memory)
    log = memory.path("s")
    log.rename(log.with_suffix(".old"))
    memory.write("s", *conversation(5))
    memory.sweep()
    assert memory.digest(UID)["cost"] == whole["cost"]
    assert not memory.row(UID).is_partial


def test_log_that_was_excluded_for_a_while_is_told_whole(tmp_path: Path, memory: Memory, whole: dict[str, Any]) -> None:
    evicted(memory)
    memory.write("s", *conversation(5))
    excluding = Memory(tmp_path, {"HELIX_EXCLUDE_PATHS": str(memory.projects)})
    assert excluding.sweep().files_excluded == 1
    excluding.close()
    memory.sweep()
    assert memory.digest(UID)["cost"] == whole["cost"]
    assert not memory.row(UID).is_partial


def test_records_that_only_the_store_still_had_count_on_after_its_eviction(
    memory: Memory, whole: dict[str, Any]
) -> None:
    """Their log was rewritten without them while they were stored; it begins as then, and is not all there was."""
    memory.write("s", *conversation(3))
    memory.sweep()
    memory.write("s", *conversation(2, start=1))
    memory.sweep()
    memory.write("s", *conversation(1, start=3), append=True)
    memory.sweep()
    evict_all(memory)
    memory.write("s", *conversation(1, start=4), append=True)
    memory.sweep()
    assert counted(memory.digest(UID)) == counted(whole)
    assert is_sound(memory)


def test_session_evicted_while_its_log_is_excluded_is_told_whole_later(
    tmp_path: Path, memory: Memory, whole: dict[str, Any]
) -> None:
    memory.write("s", *conversation(3))
    memory.sweep()
    memory.write("s", *conversation(2, start=3), append=True)
    excluding = Memory(tmp_path, {"HELIX_EXCLUDE_PATHS": str(memory.projects)})
    excluding.sweep()
    evict_all(excluding)
    excluding.close()
    memory.sweep()
    assert memory.digest(UID)["cost"] == whole["cost"]


def test_log_that_grew_after_it_was_moved_is_told_once(memory: Memory, whole: dict[str, Any]) -> None:
    """Where it lay before it was read less far: that is no measure any more."""
    memory.write("s", *conversation(2))
    memory.sweep()
    memory.write("s", *conversation(3), project="-home-u-moved")
    memory.path("s").unlink()
    memory.sweep()
    evict_all(memory)
    memory.write("s", *conversation(2, start=3), project="-home-u-moved", append=True)
    memory.sweep()
    assert counted(memory.digest(UID)) == counted(whole)
    assert not memory.row(UID).is_partial
    assert is_sound(memory)


def test_log_that_grew_under_a_newer_parser_still_tells_all(
    memory: Memory, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read on from its cursor then: that the stored rows tell more than was read says nothing against it."""
    memory.write("s", *conversation(2))
    memory.sweep()
    monkeypatch.setattr("helix_assets.agents.claude.adapter.ClaudeAdapter.version", 99)
    memory.write("s", *conversation(1, start=2), append=True)
    memory.sweep()
    evict_all(memory)
    memory.write("s", *conversation(2, start=3), append=True)
    memory.sweep()
    assert memory.digest(UID)["cost"] == whole["cost"]
    assert not memory.row(UID).is_partial
