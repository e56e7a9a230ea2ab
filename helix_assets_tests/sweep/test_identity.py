"""A record counts if and only if its key is new to its session, whatever its log went through."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest

from helix_assets.derive.digest_builder import DigestBuilder
from helix_assets.keep import evict
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.prove import doctor
from helix_assets.prove.verify import verify
from helix_assets.settings import load_settings
from helix_assets.store.catalog import digests, live_files
from helix_assets.store.catalog.catalog import index_bytes
from helix_assets.store.catalog.schema import upgrade
from helix_assets.store.catalog.session_keys import drop_keys, keys_of
from helix_assets.store.key import text_hash
from helix_assets.store.store import open_store
from helix_assets.sweep import read, source
from helix_assets_tests.faults.step_sequences import KINDS, Kind
from helix_assets_tests.home import NOW, Memory, answer, ask, conversation, cut, line, prompt

UID = "claude:s"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path)
    yield made
    made.close()


def answers(count: int, start: int = 0) -> list[bytes]:
    return [
        answer(f"a{n}", f"10:{n:02d}:00", f"answer {n}", message=f"msg_{n}_", output=100)
        for n in range(start, start + count)
    ]


def evict_all(memory: Memory) -> None:
    evict.apply(memory.store, clock=lambda: NOW, policy=RetentionPolicy(1, 1 << 40, 45, 1 << 40))


def counts(memory: Memory) -> tuple[int, int]:
    digest = memory.digest(UID)
    return digest["record_count"], digest["tokens"]["output"]


def is_partial(memory: Memory) -> bool:
    return bool(memory.row(UID).is_partial)


def checks(memory: Memory) -> set[str]:
    return {violation.check for violation in verify(memory.store)}


# -- logs that shrink ------------------------------------------------------------------------------------------------


def test_log_that_was_shorter_for_a_while_counts_once(memory: Memory) -> None:
    for times in range(3):
        memory.write("s", *answers(10))
        memory.sweep()
        assert (times, counts(memory)) == (times, (10, 1000))
        evict_all(memory)
        memory.write("s", *answers(4))
        memory.sweep()
        assert (times, counts(memory), is_partial(memory)) == (times, (10, 1000), False)
    memory.write("s", *answers(12))
    memory.sweep()
    assert (counts(memory), is_partial(memory), checks(memory)) == ((12, 1200), False, set())


@pytest.mark.parametrize("left", [0, 4, 10])
def test_log_that_was_cut_before_its_eviction_counts_once(memory: Memory, left: int) -> None:
    memory.write("s", *answers(10))
    memory.sweep()
    memory.write("s", *answers(left))
    evict_all(memory)
    memory.sweep()
    memory.write("s", *answers(12))
    memory.sweep()
    assert (counts(memory), is_partial(memory), checks(memory)) == ((12, 1200), False, set())


def test_what_came_after_the_cut_counts_once_when_it_is_cut_in_turn(memory: Memory) -> None:
    memory.write("s", *answers(10))
    memory.sweep()
    evict_all(memory)
    memory.write("s", *answers(14))
    memory.sweep()
    memory.write("s", *answers(11))
    memory.sweep()
    memory.write("s", *answers(14))
    memory.sweep()
    assert (counts(memory), checks(memory)) == ((14, 1400), set())


def test_session_whose_log_is_whole_again_is_rebuilt_and_no_longer_partial(memory: Memory) -> None:
    lines = conversation(5)
    memory.write("s", *lines[:12])
    memory.sweep()
    evict_all(memory)
    memory.write("s", *lines[16:])
    memory.sweep()
    assert is_partial(memory)
    memory.write("s", *lines)
    memory.sweep()
    rebuilt = memory.digest(UID)
    assert (is_partial(memory), checks(memory)) == (False, set())
    other = Memory(memory.folder / "other")
    other.write("s", *lines)
    other.sweep()
    whole = other.digest(UID)
    other.close()
    made = ("coverage", "signals", "source_path")  # generation, keys and place, which are a store's own
    assert {k: v for k, v in rebuilt.items() if k not in made} == {k: v for k, v in whole.items() if k not in made}


def test_line_changed_amid_a_log_counts_with_what_was_appended(memory: Memory) -> None:
    filler = [prompt(f"p{n}", f"09:{n:02d}:00", "x" * 900) for n in range(20)]
    memory.write("s", *filler, *answers(1))
    memory.sweep()
    path = memory.path("s")
    data = path.read_bytes()
    old, new = (prompt(name, "09:10:00", "x" * 900) for name in ("p10", "other"))
    assert len(old) == len(new)
    assert data.index(old) > 4096
    assert len(data) - data.index(old) > 8192
    path.write_bytes(data.replace(old, new) + answers(1, 1)[0])
    memory.sweep()
    assert memory.digest(UID)["record_count"] == 23
    assert checks(memory) == set()


def test_message_whose_lines_lie_on_both_sides_of_a_cut_counts_its_last_line(memory: Memory) -> None:
    first = answer("a1", "10:00:05", "half", message="msg_long", output=10)
    memory.write("s", prompt("p", "10:00:00", "go"), first)
    memory.sweep()
    evict_all(memory)
    memory.write("s", answer("a2", "10:00:06", "whole", message="msg_long", output=70))
    memory.sweep()
    digest = memory.digest(UID)
    assert (digest["tokens"]["output"], digest["cost"]["output_tokens"], digest["assistant_messages"]) == (70, 70, 1)
    assert checks(memory) == set()


def test_bad_line_counts_once_however_often_its_log_is_cut(memory: Memory) -> None:
    bad = b'{"torn": \n'
    memory.write("s", *answers(3), bad, *answers(3, 3))
    memory.sweep()
    evict_all(memory)
    for lines in ([*answers(3), bad, *answers(1, 9)], [*answers(2)], [bad, *answers(1, 9)]):
        memory.write("s", *lines)
        memory.sweep()
        assert (memory.digest(UID)["unparsed_lines"], counts(memory)[0], checks(memory)) == (1, 7, set())


def test_ids_that_newer_rules_hide_are_still_the_same_records(memory: Memory) -> None:
    memory.write("s", *answers(6))
    memory.sweep()
    evict_all(memory)
    memory.write("s", *answers(7))
    hidden = orjson.loads(answers(6)[3])["uuid"]
    environ = {**memory.environ, "HELIX_REDACTION_RULES": f"[{{name = 'own-id', pattern = '{hidden}'}}]"}
    memory.close()
    ruled = Memory(memory.folder, environ)
    ruled.sweep()
    assert (counts(ruled), is_partial(ruled), checks(ruled)) == ((7, 700), False, set())
    assert hidden.encode() not in ruled.exported()
    ruled.close()
    memory.store = open_store(load_settings({"HOME": str(memory.folder), "HELIX_DATA_DIR": str(memory.folder / "x")}))


# -- logs that change while they are read ----------------------------------------------------------------------------


def test_log_rewritten_while_it_is_read_is_no_failure(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    path = memory.write("s", *answers(6))
    swap = iter([answers(6, 10), answers(6, 20), answers(6, 30), answers(6, 40)])
    refuse = source.Source._refuse_rewritten

    def rewritten(self: Any, *args: Any) -> None:
        path.write_bytes(b"".join(next(swap)))
        os.utime(path, ns=(0, 1))
        refuse(self, *args)

    monkeypatch.setattr(source.Source, "_refuse_rewritten", rewritten)
    assert memory.sweep().sessions_failed == 0
    monkeypatch.undo()
    memory.sweep()
    assert counts(memory) == (6, 600)


def test_log_that_is_restored_while_it_is_read_is_whole(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.write("s", *answers(6))
    memory.sweep()
    evict_all(memory)
    memory.write("s", *answers(3), *answers(1, 8))
    as_merge = read._as_merge

    def restored(*args: Any) -> Any:
        memory.write("s", *answers(9))
        return as_merge(*args)

    monkeypatch.setattr(read, "_as_merge", restored)
    memory.sweep()
    assert (counts(memory), is_partial(memory), checks(memory)) == ((9, 900), False, set())


def test_log_cut_while_it_is_read_is_looked_at_again_whatever_it_is_then(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = memory.write("s", *answers(6))
    data, info = path.read_bytes(), path.stat()
    opened = source.open_source

    def cut_when_opened(name: str) -> int:
        fd = opened(name)
        os.truncate(path, len(data) // 2)
        os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
        return fd

    fstat = os.fstat
    monkeypatch.setattr(source, "open_source", cut_when_opened)
    monkeypatch.setattr(source.os, "fstat", lambda fd: info if fstat(fd).st_ino == info.st_ino else fstat(fd))
    memory.sweep()
    monkeypatch.undo()
    path.write_bytes(data)
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
    memory.sweep()
    assert counts(memory) == (6, 600)


# -- history that several sessions have ------------------------------------------------------------------------------


def test_session_that_is_whole_again_owns_what_it_began(memory: Memory) -> None:
    original, fork = conversation(4), [*conversation(4), *conversation(1, start=30, session="fork")]
    memory.write("s", *original[:12])
    memory.sweep()
    evict_all(memory)
    memory.write("s", *original[7:15])
    memory.sweep()
    assert is_partial(memory)
    memory.write("s", *original)
    memory.write("fork", *fork)
    memory.sweep()
    assert (is_partial(memory), checks(memory)) == (False, set())
    assert (counts(memory)[0], memory.digest("claude:fork")["record_count"]) == (16, 4)


# -- digests that could not be made ----------------------------------------------------------------------------------


def sweep_without_digests(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep that stores records and cannot digest them; the next one tries again."""
    with monkeypatch.context() as patch:
        patch.setattr(DigestBuilder, "add", lambda *_: 1 / 0)
        memory.sweep()
    memory.now += timedelta(days=10)


def test_message_whose_first_digest_failed_counts_once(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.write("s", *answers(3), answer("b1", "11:00:00", "half", message="msg_long", output=10))
    sweep_without_digests(memory, monkeypatch)
    memory.sweep()
    evict_all(memory)
    memory.write("s", answer("b2", "11:00:01", "whole", message="msg_long", output=70))
    memory.sweep()
    assert (counts(memory), checks(memory)) == ((5, 370), set())


def test_records_stored_without_a_digest_count_where_they_come_before_evicted_ones(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = memory.write("s", *answers(4))
    memory.sweep()
    evict_all(memory)
    earlier = [answer(f"e{n}", f"08:00:0{n}", "earlier", message=f"msg_e{n}", output=10) for n in range(3)]
    beside = memory.put("claude/projects/-home-u-shop/s/subagents/agent-1.jsonl", b"".join(earlier))
    sweep_without_digests(memory, monkeypatch)
    for path in (log, beside):
        path.unlink()
    memory.sweep()
    assert (counts(memory), checks(memory)) == ((7, 430), set())


def test_share_given_up_while_no_digest_could_be_made_is_counted_no_more(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = conversation(2)
    memory.write("fork", *history, *conversation(1, start=3, session="fork"))
    memory.sweep()
    memory.write("s", *history, *conversation(1, start=2))
    sweep_without_digests(memory, monkeypatch)
    memory.sweep()
    assert memory.digest("claude:fork")["record_count"] == 4
    assert checks(memory) == set()


def test_records_lost_without_a_digest_count_when_their_log_is_read_again(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.write("s", *answers(3))
    memory.sweep()
    evict_all(memory)
    memory.write("s", *answers(6))
    sweep_without_digests(memory, monkeypatch)
    evict.apply(memory.store, clock=lambda: NOW, policy=RetentionPolicy(1, 1, 45, 1 << 40), analyze=lambda: None)
    assert (counts(memory), checks(memory)) == ((3, 300), set())
    memory.write("s", *answers(8, start=4))
    memory.sweep()
    assert (counts(memory), checks(memory)) == ((11, 1100), set())


# -- what proves it --------------------------------------------------------------------------------------------------


def plant_in_digest(memory: Memory, **changes: Any) -> None:
    """Change a digest as if it had been written so."""
    with memory.store.catalog.writing() as connection:
        text = orjson.dumps({**orjson.loads(memory.digest_text(UID)), **changes}).decode()
        digests.change(connection, UID, digest=text, hash=text_hash(memory.store.key, text.encode()))


def plant_twice(memory: Memory, fact: str) -> None:
    """Have the first row of a fact file twice, as if it had been written so."""
    store = memory.store
    file = next(file for file in ask(store, live_files.fact_files) if file.fact == fact)
    table = store.facts.read(file)
    made = store.facts.write(fact, (file.flavor, file.day), file.version + 1, pa.concat_tables([table, table[:1]]))
    with store.catalog.writing() as connection:
        live_files.put_fact_files(connection, [made], [])
    store.facts.remove(file.name)


@pytest.mark.parametrize("evicted", [False, True])
@pytest.mark.parametrize(
    ("fact", "check"),
    [("token_usage", "counted_once"), ("tool_calls", "calls_add_up"), ("messages", "messages_add_up")],
)
def test_fact_that_counts_twice_is_named_though_its_digest_was_planted_to_fit(
    memory: Memory, evicted: bool, fact: str, check: str
) -> None:
    memory.write("s", *conversation(3))
    memory.sweep()
    if evicted:
        evict_all(memory)
    digest = memory.digest(UID)
    (first,) = [file for file in memory.fact_files() if file.fact == fact]
    row = memory.store.facts.read(first)[:1].to_pylist()[0]
    plant_twice(memory, fact)
    digest["coverage"]["facts"][fact] += 1
    if fact == "token_usage":
        for name in ("input", "output"):
            digest["tokens"][name] += row[name]
            digest["cost"][f"{name}_tokens"] += row[name]
    if fact == "tool_calls":
        digest["tool_calls"] += 1
    plant_in_digest(memory, **digest)
    assert check in checks(memory)


def test_session_whose_counted_records_are_not_recorded_or_cut_is_named(memory: Memory) -> None:
    memory.write("s", *conversation(3))
    memory.sweep()
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE session_keys SET records = x'313233'")
    assert {"catalog_readable", "catalog_integrity"} <= checks(memory)
    found = doctor.examine(memory.now, memory.variables)
    assert [finding.state for finding in found if finding.what.startswith("the catalog is damaged")] == ["wrong"]
    with memory.store.catalog.writing() as connection:
        drop_keys(connection, [1])
    assert checks(memory) == {"counted_once"}


@pytest.mark.parametrize("evicted", [False, True])
def test_double_count_in_the_catalog_is_named(memory: Memory, evicted: bool) -> None:
    memory.write("s", *conversation(3))
    memory.sweep()
    if evicted:
        evict_all(memory)
    assert checks(memory) == set()
    digest = memory.digest(UID)
    for planted, check in (
        ({"record_count": digest["record_count"] + 3}, "counted_once"),
        ({"tokens": {**digest["tokens"], "output": 2 * digest["tokens"]["output"]}}, "tokens_add_up"),
        ({"tool_calls": 2 * digest["tool_calls"]}, "calls_add_up"),
        ({"event_count": 2 * digest["event_count"]}, "events_add_up"),
        ({"kind_counts": {**digest["kind_counts"], "tool_call": 6}}, "calls_add_up"),
        ({"cost": {**digest["cost"], "output_tokens": 1}}, "tokens_add_up"),
    ):
        plant_in_digest(memory, **{**digest, **planted})
        assert check in checks(memory)


@pytest.mark.parametrize("fact", ["token_usage", "tool_calls"])
def test_double_count_in_the_facts_is_named(memory: Memory, fact: str) -> None:
    memory.write("s", *conversation(3))
    memory.sweep()
    evict_all(memory)
    plant_twice(memory, fact)
    coverage = memory.digest(UID)["coverage"]
    coverage["facts"][fact] += 1
    plant_in_digest(memory, coverage=coverage)
    assert {"token_usage": "tokens_add_up", "tool_calls": "calls_add_up"}[fact] in checks(memory)


def test_stored_record_that_is_not_recorded_is_named(memory: Memory) -> None:
    memory.write("s", *answers(3))
    memory.sweep()
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE session_keys SET records = x''")
    assert {"records_are_recorded", "counted_once"} <= checks(memory)


def test_record_that_says_the_same_thing_twice_is_no_double_count(memory: Memory) -> None:
    memory.write("s", *answers(3))
    memory.sweep()
    evict_all(memory)
    same = [{"type": "text", "text": "same"}, {"type": "text", "text": "same"}]
    memory.write("s", line("assistant", "twice", "11:00:00", message={"model": "claude-opus-4-5", "content": same}))
    memory.sweep()
    assert (is_partial(memory), checks(memory)) == (True, set())


def test_many_appends_leave_few_chunks_of_keys(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helix_assets.store.catalog.session_keys.MAX_CHUNKS", 4)
    memory.write("s", *answers(1))
    memory.sweep()
    for n in range(1, 10):
        memory.write("s", *answers(1, n), append=True)
        memory.sweep()
    with memory.store.catalog.reading() as connection:
        keys = keys_of(connection, memory.row(UID).id)
        chunks = connection.value("SELECT count(*) FROM session_keys")
    assert keys is not None
    assert (len(keys.records), chunks <= 4, len(memory.parts(UID)) > 4, checks(memory)) == (10, True, True, set())


# -- stores of earlier versions --------------------------------------------------------------------------------------


def as_version_nine(memory: Memory, *, rewritten: bool = False) -> None:
    """Take back what the tenth step of the catalog's upgrade added, and take it.

    Of a log that was rewritten nothing had been evicted, as far as its places told.
    """
    with memory.store.catalog.writing() as connection:
        drop_keys(connection, connection.column("SELECT id FROM sessions"))
        connection.execute("ALTER TABLE sources ADD COLUMN evicted_offset BIGINT NOT NULL DEFAULT 0")
        connection.execute("ALTER TABLE sources ADD COLUMN dropped_offset BIGINT NOT NULL DEFAULT 0")
        if not rewritten:
            gone = "SELECT id FROM sessions WHERE evicted_records > 0"
            connection.execute(f'UPDATE sources SET evicted_offset = "offset" WHERE session_id IN ({gone})')
        connection.execute("UPDATE sources SET read_hash = NULL")
        connection.execute("UPDATE sessions SET evicted_records = 0, light_records = 0")
        upgrade(connection, 9)


def doubled(memory: Memory, lines: list[bytes]) -> None:
    """A session that an earlier version counted twice, in digest and facts, for its log was cut and restored."""
    memory.write("s", *lines)
    memory.sweep()
    evict_all(memory)
    digest = memory.digest(UID)
    for fact in ("token_usage", "messages"):
        plant_twice(memory, fact)
        digest["coverage"]["facts"][fact] += 1
    digest["tokens"]["output"] += 100
    plant_in_digest(memory, **{**digest, "record_count": digest["record_count"] + 1})
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE sessions SET is_partial = true")
    as_version_nine(memory)


def test_session_counted_twice_by_an_earlier_version_is_named_and_repaired(memory: Memory) -> None:
    doubled(memory, answers(6))
    assert "counted_once" in checks(memory)
    memory.sweep()
    assert (counts(memory), is_partial(memory), checks(memory)) == ((6, 600), False, set())


def test_session_counted_twice_whose_log_is_gone_stays_named(memory: Memory) -> None:
    doubled(memory, answers(6))
    memory.path("s").unlink()
    memory.sweep()
    assert "counted_once" in checks(memory)


def test_session_counted_twice_whose_log_was_cut_stays_named_until_it_is_whole(memory: Memory) -> None:
    doubled(memory, answers(6))
    memory.write("s", *answers(3))
    memory.sweep()
    assert "counted_once" in checks(memory)
    memory.write("s", *answers(8))
    memory.sweep()
    assert (counts(memory), is_partial(memory), checks(memory)) == ((8, 800), False, set())


@pytest.mark.parametrize("cut_to", [2, 6])
def test_session_evicted_by_an_earlier_version_grows_without_counting_twice(memory: Memory, cut_to: int) -> None:
    lines = conversation(3)
    memory.write("s", *lines)
    memory.sweep()
    evict_all(memory)
    as_version_nine(memory)
    memory.write("s", *lines[:cut_to], *conversation(1, start=3))
    memory.sweep()
    digest = memory.digest(UID)
    assert (digest["record_count"], digest["tool_calls"], digest["user_prompts"]) == (16, 4, 4)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.agent)
@pytest.mark.parametrize("half", [0, 1])
def test_half_a_log_of_a_session_evicted_by_an_earlier_version_adds_nothing(
    memory: Memory, kind: Kind, half: int
) -> None:
    kind.lay_out(memory.folder / "home")
    lines = kind.lines
    memory.put(kind.places[0], b"".join(lines))
    memory.sweep()
    evict_all(memory)
    before = memory.digest(kind.uid)
    as_version_nine(memory)
    middle = len(lines) // 2
    memory.put(kind.places[0], b"".join(lines[middle:] if half else lines[:middle]))
    memory.sweep()
    after = memory.digest(kind.uid)
    assert {name for name in before if before[name] != after[name]} <= {"coverage"}


def test_session_whose_log_was_rewritten_under_an_earlier_version_keeps_what_it_counts(memory: Memory) -> None:
    memory.write("s", *answers(6))
    memory.sweep()
    evict_all(memory)
    memory.write("s", *answers(2, 6))
    memory.sweep()
    as_version_nine(memory, rewritten=True)
    memory.sweep()
    assert (counts(memory), is_partial(memory)) == ((8, 800), True)


def test_session_without_texts_whose_log_was_rewritten_under_an_earlier_version_keeps_its_rows(memory: Memory) -> None:
    memory.write("s", *answers(6))
    memory.sweep()
    usage = memory.raw_usage() + index_bytes(memory.store.data_dir)
    policy = RetentionPolicy(usage - 1, 1 << 40, 45, 1 << 40)
    evict.apply(memory.store, clock=lambda: NOW, policy=policy)
    assert memory.row(UID).light_records == 6
    memory.write("s", *answers(2))
    as_version_nine(memory, rewritten=True)
    memory.sweep()
    assert (counts(memory), checks(memory)) == ((6, 600), set())


def test_session_stored_by_an_earlier_version_is_recorded_when_it_is_evicted(memory: Memory) -> None:
    memory.write("s", *answers(6))
    memory.sweep()
    as_version_nine(memory)
    evict_all(memory)
    memory.write("s", *answers(3), *answers(1, 6))
    memory.sweep()
    assert (counts(memory), checks(memory)) == ((7, 700), set())


def test_session_stored_by_an_earlier_version_grows(memory: Memory) -> None:
    memory.write("s", *answers(6))
    memory.sweep()
    as_version_nine(memory)
    memory.write("s", *answers(2, 6), append=True)
    memory.sweep()
    assert (counts(memory), checks(memory)) == ((8, 800), set())


# -- packed and cut at any place -------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [1, 500, 1500, 2700, 3300])
def test_log_cut_at_any_byte_and_restored_counts_once(memory: Memory, place: int) -> None:
    data = b"".join(answers(8))
    first, _ = cut(data, [place])
    path = memory.write("s", data)
    memory.sweep()
    evict_all(memory)
    path.write_bytes(first)
    memory.sweep()
    path.write_bytes(data)
    memory.sweep()
    with memory.store.catalog.reading() as connection:
        stored = connection.column("SELECT name FROM raw_files")
    assert (counts(memory), stored, checks(memory)) == ((8, 800), [], set())


def test_records_that_a_log_repeats_later_keep_their_places(tmp_path: Path) -> None:
    """A resumed session writes what it copied once more; read on or read whole, the first of two equal ones counts."""
    memory, fresh = Memory(tmp_path / "grown"), Memory(tmp_path / "fresh")
    lines = conversation(2)
    memory.write("s", *lines)
    memory.sweep()
    memory.write("s", *lines[:3], append=True)
    fresh.write("s", *lines, *lines[:3])
    for one in (memory, fresh):
        one.sweep()
    assert memory.digest(UID)["cost"] == fresh.digest(UID)["cost"]
    places = [[orjson.loads(row)["line"] for row in one.exported().splitlines()[1:]] for one in (memory, fresh)]
    assert places[0] == places[1]
    memory.close()
    fresh.close()


@pytest.mark.parametrize("left", [slice(0, 12), slice(10, 16)])
def test_session_of_an_earlier_version_that_is_evicted_before_its_first_sweep_counts_once(
    memory: Memory, left: slice
) -> None:
    """Part of it was evicted by the earlier version: the keys of its stored rows are not all that it counts."""
    lines = answers(16)
    memory.write("s", *lines[:10])
    memory.sweep()
    evict_all(memory)
    memory.write("s", *lines[10:14], append=True)
    memory.sweep()
    as_version_nine(memory)
    evict_all(memory)
    memory.write("s", *lines[left])
    memory.sweep()
    assert memory.digest(UID)["record_count"] == max(14, left.stop)
    memory.write("s", *lines)
    memory.sweep()
    assert memory.digest(UID)["record_count"] == 16
    assert verify(memory.store) == []
