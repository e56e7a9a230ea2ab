"""The read API: digests, events and facts as relations, proven, by the rules in force."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from helix_assets import Memory
from helix_assets.keep.evict import apply
from helix_assets.model.errors import NotFoundError, SettingsError, StoreError, WithheldError
from helix_assets.store.catalog import meta, sessions
from helix_assets_tests.home import Memory as Home
from helix_assets_tests.home import conversation


@pytest.fixture
def home_of_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    home = Home(tmp_path)
    home.write("s1", *conversation(2, session="a"))
    home.write("s2", *conversation(3, session="b"))
    home.sweep()
    monkeypatch.setenv("HELIX_STORE_DB", str(home.store.settings.catalog_path))
    return home


@pytest.fixture
def opened(home_of_logs: Home) -> Iterator[Memory]:
    with Memory() as memory:
        yield memory
    home_of_logs.close()


def test_digests_are_rows_with_their_json(opened: Memory) -> None:
    frame = opened.digests().project("session_uid, repo, (digest->>'tool_calls')::int as calls").df()
    assert frame.to_dict("records") == [
        {"session_uid": "claude:s1", "repo": "shop", "calls": 2},
        {"session_uid": "claude:s2", "repo": "shop", "calls": 3},
    ]


def test_one_digest_is_plain_data(opened: Memory) -> None:
    assert opened.digest("claude:s1")["tool_histogram"] == {"Bash": 2}
    with pytest.raises(NotFoundError, match="claude:s9"):
        opened.digest("claude:s9")


def test_events_are_those_of_one_session_or_of_all(opened: Memory) -> None:
    one, both = (opened.events(uid).aggregate("count(*)").fetchall()[0][0] for uid in ("claude:s1", None))
    assert 0 < one < both
    assert "raw" not in opened.events().columns


def test_relations_have_the_columns_of_the_views(opened: Memory) -> None:
    for name, relation in (("digests", opened.digests()), ("events", opened.events()),
                           ("tool_calls", opened.facts("tool_calls"))):  # fmt: skip
        assert tuple(relation.columns) == opened.sql(f"select * from {name}").columns
        assert set(relation.fetchall()) == set(opened.sql(f"select * from {name}").rows)


def test_a_relation_outlives_the_files_that_it_was_made_of(home_of_logs: Home) -> None:
    with Memory() as memory:
        events = memory.events("claude:s1")
        before = events.aggregate("count(*)").fetchall()
        for file in (home_of_logs.store.data_dir / "raw").rglob("*.parquet"):
            file.unlink()
        assert events.aggregate("count(*)").fetchall() == before
        with pytest.raises(StoreError, match="claude:s1"):
            memory.events("claude:s1")
    home_of_logs.close()


def test_a_session_that_is_not_there_has_no_events(opened: Memory) -> None:
    with pytest.raises(NotFoundError, match="claude:s9"):
        opened.events("claude:s9")


def test_facts_can_be_joined_with_digests(opened: Memory) -> None:
    calls, digests = opened.facts("tool_calls"), opened.digests()
    joined = calls.set_alias("c").join(digests.set_alias("d"), "session_uid").aggregate("d.repo, count(*) as n")
    assert joined.fetchall() == [("shop", 5)]


def test_times_of_hooks_are_told_with_their_calls(home_of_logs: Home) -> None:
    row = {
        "session_uid": "claude:s1",
        "at": "2026-06-05T10:00:07.000000Z",
        "event": "PreToolUse",
        "call_id": "toolu_a0",
    }
    with home_of_logs.store.catalog.writing() as connection:
        connection.insert("hook_events", [row, row | {"event": "Stop", "call_id": ""}])
    with Memory() as memory:
        rows = memory.hook_events().project("session_uid, epoch(ts)::bigint, event, call_id").fetchall()
    assert rows == [("claude:s1", 1780653607, "PreToolUse", "toolu_a0"), ("claude:s1", 1780653607, "Stop", None)]
    home_of_logs.close()


def test_sql_and_search_answer_as_their_commands_do(opened: Memory) -> None:
    ((count,),) = opened.sql("select count(*) from sessions").rows
    assert count == len({hit.session_uid for hit in opened.search("step").hits})


def test_an_unknown_fact_is_refused_by_naming_the_others(opened: Memory) -> None:
    with pytest.raises(NotFoundError, match="tool_calls"):
        opened.facts("tool_cals")


def test_evicted_sessions_keep_digest_and_facts(home_of_logs: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    store = home_of_logs.store
    tight = replace(store.settings.retention, raw_soft_cap_bytes=1, raw_hard_cap_bytes=1)
    apply(
        replace(store, settings=replace(store.settings, retention=tight)),
        clock=lambda: home_of_logs.now,
        analyze=lambda: None,
    )
    with Memory() as memory:
        assert memory.events().fetchall() == []
        assert memory.facts("tool_calls").aggregate("count(*)").fetchall() == [(5,)]
        assert memory.digest("claude:s2")["tool_calls"] == 3
    home_of_logs.close()


def test_damage_is_named_and_can_be_left_out(home_of_logs: Home) -> None:
    path = home_of_logs.store.settings.catalog_path
    home_of_logs.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("update digests set digest = digest || ' ' where session_uid = 'claude:s1'")
    with Memory(path) as memory:
        with pytest.raises(StoreError, match="claude:s1"):
            memory.digests()
        assert [row[0] for row in memory.digests(skip_damaged=True).project("session_uid").fetchall()] == ["claude:s2"]


def test_events_that_new_rules_have_not_reached_are_refused_by_name_and_else_left_out_with_a_warning(
    home_of_logs: Home,
) -> None:
    with home_of_logs.store.catalog.writing() as connection:
        sessions.change(connection, 1, redaction_version="older")
    home_of_logs.close()
    with Memory() as memory:
        with pytest.raises(WithheldError, match=r"texts of claude:s1 are withheld.*helix sweep"):
            memory.events("claude:s1")
        with pytest.warns(UserWarning, match="withheld, because the redaction rules changed: 1"):
            uids = {row[0] for row in memory.events().project("session_uid").fetchall()}
        assert "claude:s1" not in uids
        assert memory.digest("claude:s1")["session_uid"] == "claude:s1"


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="helix sweep"):
        Memory(tmp_path / "none" / "helix.db")
    assert not (tmp_path / "none").exists()


def test_a_file_of_another_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"helix\.db"):
        Memory(tmp_path / "mem.db")


def test_a_store_newer_than_the_reader_is_left_alone(home_of_logs: Home) -> None:
    with home_of_logs.store.catalog.writing() as connection:
        meta.put(connection, "catalog_version", "999")
    home_of_logs.close()
    with pytest.raises(StoreError, match="upgrade helix_assets"):
        Memory()


def test_a_closed_memory_says_so(home_of_logs: Home) -> None:
    memory = Memory()
    memory.search("step")
    memory.digests()
    memory.close()
    for use in (
        memory.digests,
        memory.events,
        memory.hook_events,
        lambda: memory.facts("tool_calls"),
        lambda: memory.digest("claude:s1"),
        lambda: memory.sql("select 1 from digests"),
        lambda: memory.search("step"),
        lambda: memory.frame("digests"),
        lambda: memory.report("usage_report"),
    ):
        with pytest.raises(StoreError, match="the memory is closed"):
            use()
    memory.close()
