"""What a query may be, and that its answer is the store as it is: whole, redacted by the rules in force, proven."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from helix_assets.ask import snapshot, sql
from helix_assets.ask.sql import admit, ask
from helix_assets.keep import evict
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.model.errors import QueryError, WithheldError
from helix_assets.store.catalog import sessions
from helix_assets_tests.home import Memory, call, conversation, prompt, result
from helix_assets_tests.sweep.test_live_sessions import put_turn
from helix_assets_tests.sweep.test_rescan import WORD, with_new_rules

TINY = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=2, max_age_days=1, distilled_cap_bytes=10**9)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path, {"HELIX_AGENTS": "claude"})
    made.write("s1", prompt("p1", "09:00:00", f"the word is {WORD}"), *conversation(3))
    made.write("s2", *conversation(2, session="b"))
    made.sweep()
    yield made
    made.close()


def one(memory: Memory, query: str) -> object:
    ((value,),) = ask(memory.store, query).rows
    return value


# -- what may be asked -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "select 1",
        "from sessions",
        "values (1)",
        "with a as (select * from events) select count(*) from a",
        "with recursive n as (select 1 as i union all select i + 1 from n where i < 3) select * from n",
        "with a as (select 1 as i), b as (select * from a) select (with c as (select * from B) select i from c) from a",
        "with sessions as (select * from sessions limit 1) select * from sessions",
        "select * from sessions union all select * from sessions",
        "select * from SESSIONS s join digests using (session_uid), unnest([1, 2])",
        "describe losses",
        "summarize tool_calls",
        "select * from (pivot_it) pivot_it pivot (count(*) for i in (1, 2))".replace("(pivot_it)", "(select 1 as i)"),
        "select (select count(*) from signals) + row_number() over () from range(2);",
    ],
)
def test_select_is_admitted(query: str) -> None:
    admit(query)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "-- nothing",
        "select 1; select 2",
        "select 1; drop view sessions",
        "selec 1",
        "insert into sessions values (1)",
        "update sessions set repo = 'x'",
        "delete from sessions",
        "merge into sessions using digests on true when matched then delete",
        "truncate sessions",
        "create table t (i int)",
        "create or replace view sessions as select 1",
        "create macro m() as 1",
        "create secret (type s3)",
        "alter table _sessions add column i int",
        "drop view sessions",
        "with a as (insert into _sessions values (1) returning *) select * from a",
        "copy sessions to '/tmp/out.csv'",
        "copy (select 1) to '/tmp/out.parquet'",
        "copy _sessions from '/etc/passwd'",
        "export database '/tmp/out'",
        "import database '/tmp/out'",
        "attach '/tmp/other.db' as other",
        "detach memory",
        "use memory",
        "install httpfs",
        "load httpfs",
        "update extensions",
        "pragma database_list",
        "pragma memory_limit = '100GB'",
        "set memory_limit = '100GB'",
        "reset memory_limit",
        "set variable x = 1",
        "call duckdb_settings()",
        "prepare p as select 1",
        "execute p",
        "deallocate p",
        "begin",
        "commit",
        "checkpoint",
        "vacuum",
        "analyze",
        "explain analyze select 1",
        "show tables",
        "show databases",
        "pivot sessions on flavor",
        "select * from _sessions",
        "select * from _no_events",
        "select * from information_schema.tables",
        "select * from main.sessions",
        "select * from sqlite_master",
        "select * from duckdb_settings()",
        "select * from pragma_table_info('sessions')",
        "select * from query('select 1')",
        "select * from query_table('sessions')",
        "select * from '/etc/passwd'",
        "select * from 'key.parquet'",
        "select * from read_csv('/etc/passwd')",
        "select * from read_csv_auto('/etc/passwd')",
        "select * from READ_TEXT('/etc/passwd')",
        "select * from read_blob('/etc/passwd')",
        "select * from read_json('/etc/passwd')",
        "select * from read_json_auto('/etc/passwd')",
        "select * from read_ndjson('/etc/passwd')",
        "select * from read_json_objects('/etc/passwd')",
        "select * from read_parquet('a.parquet')",
        "select * from parquet_scan('a.parquet')",
        "select * from parquet_metadata('a.parquet')",
        "select * from parquet_schema('a.parquet')",
        "select * from read_duckdb('a.db')",
        "select * from read_single_csv_file('/etc/passwd')",
        "select * from sniff_csv('/etc/passwd')",
        "select * from glob('/*')",
        "select * from arrow_scan(0, 0, 0)",
        "select * from json_execute_serialized_sql('{}')",
        "select * from enable_logging()",
        "select * from sessions where exists (select * from read_text('/etc/passwd'))",
        "select (select content from read_text('/etc/passwd'))",
        "with a as (from glob('*')) select * from sessions, a",
        "select * from 'a.parquet', (with \"a.parquet\" as (select 1) select 1)",
        "with _sessions as (select * from _sessions) select * from _sessions, sessions",
        "with a as (select * from pg_settings), pg_settings as (select 1) select * from a",
        "select '\udcff'",
        "select getenv('HOME')",
        "select current_setting('allowed_paths')",
        "select getvariable('x')",
        "select nextval('s')",
        "select setval('s', 1)",
        "select write_log('x')",
        "select sleep_ms(10)",
        "select pg_sleep(10)",
    ],
)
def test_everything_else_is_refused(query: str) -> None:
    with pytest.raises(QueryError):
        admit(query)


def test_what_slips_through_meets_a_closed_engine(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    key = memory.store.data_dir / "key"
    out = memory.folder / "out.csv"
    part = next(memory.store.raw.root.glob("*/*/*.parquet"))
    monkeypatch.setattr(sql, "admit", lambda _: frozenset({"sessions"}))
    for query in (
        f"select * from read_blob('{key}')",
        f"copy (select 1) to '{out}'",
        f"copy (select 1) to '{part}'",
        f"attach '{memory.folder}/other.db' as other",
        "install httpfs",
        "set memory_limit = '100GB'",
        "set enable_external_access = true",
    ):
        with pytest.raises(QueryError):
            ask(memory.store, query)
    assert not out.exists()


def test_unknown_column_is_named_with_those_that_are_meant(memory: Memory) -> None:
    with pytest.raises(QueryError, match=r'"flavour" not found(.|\n)*flavor'):
        ask(memory.store, "select flavour from sessions")


def test_unknown_view_is_told_which_there_are() -> None:
    with pytest.raises(QueryError, match="no view 'session'; there are sessions, digests"):
        admit("select * from session")


def test_pivot_without_values_is_told_what_it_lacks() -> None:
    with pytest.raises(QueryError, match="give PIVOT its values"):
        admit("pivot sessions on flavor using count(*)")


def test_query_without_end_is_stopped(memory: Memory) -> None:
    with pytest.raises(QueryError, match=r"longer than 0\.5 s"):
        ask(memory.store, "select count(*) from range(1000000000) a, range(1000000) b", seconds=0.5)
    assert not [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


def test_query_that_needs_too_much_memory_is_stopped(memory: Memory) -> None:
    with pytest.raises(QueryError, match="more than 64MiB of memory"):
        ask(memory.store, "select list(range) from range(100000000)", memory="64MiB")


def test_long_answer_is_cut_and_says_so(memory: Memory) -> None:
    answer = ask(memory.store, "select * from range(20)", rows=10)
    assert (len(answer.rows), answer.is_cut) == (10, True)


# -- what the views say ----------------------------------------------------------------------------------------------


def test_views_agree_with_the_catalog(memory: Memory) -> None:
    assert ask(memory.store, "select session_uid, records from sessions order by 1").rows == [
        ("claude:s1", 13), ("claude:s2", 8),
    ]  # fmt: skip
    assert one(memory, "select count(*) from records") == 21
    assert one(memory, "select count(*) from events") == one(memory, "select sum(events) from digests")
    assert one(memory, "select sum(input_tokens) from sessions") == one(memory, "select sum(input) from token_usage")


def test_document_stored_again_with_each_part_counts_once(tmp_path: Path) -> None:
    grok = Memory(tmp_path / "grok", {"HELIX_AGENTS": "grok"})
    for number in range(3):
        put_turn(grok, number)
        grok.sweep()
    assert len(list(grok.store.raw.names())) == 3
    rows = ask(grok.store, "select raw from records where native_type = 'document' order by raw").rows
    grok.close()
    assert [("Title after turn 2" in raw, "2000" in raw) for (raw,) in rows] == [(False, True), (True, False)]


def test_records_name_where_their_line_stands(memory: Memory) -> None:
    path, line, raw = ask(
        memory.store, "select source_file, line, raw from records where session_uid = 'claude:s2' order by line limit 1"
    ).rows[0]
    assert Path(path).read_text().splitlines()[line - 1] == raw


def test_evicted_session_keeps_its_facts_and_loses_its_rows(memory: Memory) -> None:
    before = ask(memory.store, "select * from tool_calls order by all").rows
    evict.apply(memory.store, clock=lambda: memory.now, policy=TINY)
    assert one(memory, "select count(*) from events") == one(memory, "select count(*) from records") == 0
    assert ask(memory.store, "select * from tool_calls order by all").rows == before


def test_file_that_the_catalog_does_not_name_is_not_read(memory: Memory) -> None:
    part = next(memory.store.raw.root.glob("*/*/*.parquet"))
    part.with_name("f" * 20 + ".1.0.parquet").write_bytes(part.read_bytes())
    assert one(memory, "select count(*) from records") == 21


def test_session_evicted_while_the_query_starts_is_whole_or_gone(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, calls = snapshot._from_catalog, []

    def and_then_it_goes(*args: object) -> snapshot.Snapshot:
        seen = taken(*args)  # type: ignore[arg-type]
        if not calls:
            evict.apply(memory.store, clock=lambda: memory.now, policy=TINY)
        calls.append(seen)
        return seen

    monkeypatch.setattr(snapshot, "_from_catalog", and_then_it_goes)
    answer = ask(memory.store, "select count(*) from records")
    assert (answer.rows, answer.left_out, len(calls)) == ([(0,)], (), 2)


@pytest.mark.parametrize(("view", "left"), [("records", 8), ("tool_calls", 0)])
def test_damaged_file_is_left_out_and_named(memory: Memory, view: str, left: int) -> None:
    if view == "records":
        ((name,),) = _names(memory, "raw_files", "session_id = 1")
        path, owner = memory.store.raw.path(name), "claude:s1"
    else:
        ((name,),) = _names(memory, "fact_files", "fact = 'tool_calls'")
        path, owner = memory.store.facts.path(name), name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    answer = ask(memory.store, f"select count(*) from {view}")
    assert (answer.rows, answer.left_out) == ([(left,)], (owner,))


def test_damaged_digest_is_left_out_and_named(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute("update digests set digest = replace(digest, '1', '2') where session_uid = 'claude:s1'")
    answer = ask(memory.store, "select count(*), count(events) from sessions")
    assert (answer.rows, answer.left_out) == ([(2, 1)], ("claude:s1",))


def test_missing_digest_is_named(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute("delete from digests where session_uid = 'claude:s1'")
    answer = ask(memory.store, "select count(*), count(events) from sessions")
    assert (answer.rows, answer.left_out) == ([(2, 1)], ("claude:s1",))


def _names(memory: Memory, table: str, where: str) -> list[tuple[str]]:
    with memory.store.catalog.reading() as connection:
        return connection.tuples(f"select name from {table} where {where}")


@pytest.mark.parametrize(
    ("view", "left", "withheld"),
    [("sessions", 2, 0), ("digests", 2, 0), ("messages", 11, 0), ("events", 11, 1), ("records", 8, 1)],
)
def test_rows_of_a_session_that_new_rules_have_not_reached_are_left_out_and_counted(
    memory: Memory, view: str, left: int, withheld: int
) -> None:
    with memory.store.catalog.writing() as connection:
        sessions.change(connection, 1, redaction_version="older")
    answer = ask(memory.store, f"select count(*) from {view}")
    assert (answer.rows, answer.withheld) == ([(left,)], withheld)


def test_nothing_is_answered_between_new_rules_and_their_sweep(memory: Memory) -> None:
    with_new_rules(memory)
    with pytest.raises(WithheldError, match="helix sweep"):
        ask(memory.store, "select count(*) from sessions")
    memory.sweep()
    assert one(memory, "select count(*) from sessions") == 2


# -- the analytics queries of code-o11y, with today's names ----------------------------------------------------------


@pytest.fixture
def week(tmp_path: Path) -> Iterator[Memory]:
    """One session: two edits of Python (one denied), one of Go, two failing shell calls of three, two test runs."""
    made = Memory(tmp_path / "week", {"HELIX_AGENTS": "claude"})
    denied = "The user doesn't want to proceed with this tool use. The tool use was rejected"
    turns = [
        ("Edit", {"file_path": "/home/u/shop/a.py", "old_string": "x", "new_string": "y\nz"}, "ok", False),
        ("Edit", {"file_path": "/home/u/shop/a.py", "old_string": "y", "new_string": "w"}, denied, True),
        ("Edit", {"file_path": "/home/u/shop/b.go", "old_string": "x", "new_string": "y"}, "ok", False),
        ("Bash", {"command": "pytest -q"}, "Exit code 1\n1 failed, 3 passed in 0.10s", True),
        ("Bash", {"command": "pytest -q"}, "4 passed in 0.10s", False),
        ("Bash", {"command": "ls nowhere"}, "Exit code 2\nls: cannot access 'nowhere'", True),
    ]
    lines = [prompt("w", "08:00:00", "make it so")]
    for number, (tool, arguments, text, failed) in enumerate(turns):
        lines.append(call(f"wc{number}", f"08:0{number}:05", tool, f"toolu_w{number}", **arguments))
        lines.append(result(f"wr{number}", f"08:0{number}:10", f"toolu_w{number}", text, failed=failed))
    made.write("week", *lines)
    made.sweep()
    yield made
    made.close()


SINCE = "timestamp '2026-06-08' - interval 7 days"


def test_sessions_by_agent(week: Memory) -> None:
    query = f"select flavor, count(*) as count from sessions where started_at > {SINCE} group by flavor"
    assert ask(week.store, query).rows == [("claude", 1)]


def test_total_token_usage(week: Memory) -> None:
    query = f"""select sum(input_tokens) as total_input, sum(output_tokens) as total_output, sum(cost_usd) as total_cost
        from sessions where started_at > {SINCE}"""
    ((total_input, total_output, total_cost),) = ask(week.store, query).rows
    assert (total_input, total_output) == (6, 30)
    assert total_cost == pytest.approx((6 * 5 + 30 * 25) / 1e6)


def test_tool_success_rate(week: Memory) -> None:
    query = f"""select tool, count(*) as total, sum(case when status = 'ok' then 1 else 0 end) as succeeded,
            round(100.0 * sum(case when status = 'ok' then 1 else 0 end) / count(*), 1) as success_rate
        from tool_calls where ts > {SINCE} group by tool order by tool"""
    assert ask(week.store, query).rows == [("Bash", 3, 1, 33.3), ("Edit", 3, 2, 66.7)]


def test_file_heatmap(week: Memory) -> None:
    query = """select file_path, count(*) as modifications, sum(case when accepted then 1 else 0 end) as accepted_count
        from file_operations where file_path is not null group by file_path order by modifications desc limit 50"""
    assert ask(week.store, query).rows == [("/home/u/shop/a.py", 2, 1), ("/home/u/shop/b.go", 1, 1)]


def test_edit_acceptance_rate(week: Memory) -> None:
    query = """select language, count(*) as total, sum(case when accepted then 1 else 0 end) as accepted,
            round(100.0 * sum(case when accepted then 1 else 0 end) / count(*), 1) as acceptance_rate
        from file_operations where operation = 'edit' group by language order by total desc"""
    assert ask(week.store, query).rows == [("python", 2, 1, 50.0), ("go", 1, 1, 100.0)]


def test_test_pass_rate(week: Memory) -> None:
    query = f"""select framework, count(*) as runs, sum(case when success then 1 else 0 end) as passed_runs,
            sum(passed) as total_passed, sum(failed) as total_failed,
            round(100.0 * sum(passed) / nullif(sum(passed) + sum(failed), 0), 1) as pass_rate
        from test_runs where ts > {SINCE} group by framework"""
    assert ask(week.store, query).rows == [("pytest", 2, 1, 7, 1, 87.5)]
