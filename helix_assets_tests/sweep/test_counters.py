"""What a sweep says it did is what it did, to the line: nothing without news, and of news no more than that."""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path

import pytest

from helix_assets.model.event import DIGEST_VERSION
from helix_assets.sweep.sweep_report import SweepReport
from helix_assets_tests.home import Memory, conversation, cut, prompt, statements_of

LINES_OF_A_TURN = 4
ASKED = {"first": (38, 10), "new": (37, 9), "append": (41, 9), "nothing": (12, 4)}
"""Statements and openings of a sweep, as docs/PERFORMANCE.md has them."""
FINE_TO_WALK_OVER = {
    "SCAN sources USING COVERING INDEX sources_by_state",  # compared with what lies on the disk
    "SCAN raw_files",  # sums of bytes
    "SCAN fact_files",
    "SCAN ledger",  # whether there is any
    "SCAN ledger_news",  # a few thousand keys at most
    "SCAN shared_keys USING COVERING INDEX sqlite_autoindex_shared_keys_1",  # whether there is any
    "SCAN sources USING INDEX sources_not_fine",  # these hold what went wrong alone, and what was forgotten
    "SCAN problems USING COVERING INDEX sqlite_autoindex_problems_1",
    "SCAN forgotten",
    "SCAN forgotten USING COVERING INDEX sqlite_autoindex_forgotten_1",
    "SCAN retries",
    "SCAN day_marks",
    "SCAN meta",  # a dozen rows
    "SCAN CONSTANT ROW",  # no table
}
_listening: list[set[str]] = []


def _note_open(event: str, arguments: tuple[object, ...]) -> None:
    if event == "open" and _listening and isinstance(arguments[0], str | bytes):
        _listening[-1].add(os.fsdecode(arguments[0]))


sys.addaudithook(_note_open)  # for good, there is no way to take it back; silent but in `logs_opened`


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Ten swept sessions of two turns each."""
    made = Memory(tmp_path)
    for number in range(10):
        made.write(f"s{number}", *conversation(2, session=f"s{number}-"))
    made.sweep()
    yield made
    made.close()


def logs_opened(memory: Memory) -> tuple[SweepReport, set[str]]:
    """A sweep, and the logs that the process opened in it as the interpreter tells."""
    opened = set[str]()
    _listening.append(opened)
    try:
        report = memory.sweep()
    finally:
        _listening.remove(opened)
    return report, {Path(path).stem for path in opened if path.endswith(".jsonl")}


def did(report: SweepReport) -> dict[str, int]:
    """The counters of work."""
    names = ("files_opened", "lines_read", "bytes_read", "rows_rederived", "digests_written", "sessions_touched")
    return {name: getattr(report, name) for name in names}


def stored_rows(memory: Memory, name: str) -> int:
    return int(memory.row(f"claude:{name}").row_count)


def test_first_sweep_reads_every_line_once(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    paths = [memory.write(f"s{number}", *conversation(2, session=f"s{number}-")) for number in range(10)]
    report, opened = logs_opened(memory)
    memory.close()
    assert did(report) == {
        "files_opened": 10,
        "lines_read": 10 * 2 * LINES_OF_A_TURN,
        "bytes_read": sum(path.stat().st_size for path in paths),
        "rows_rederived": 0,
        "digests_written": 10,
        "sessions_touched": 10,
    }
    assert len(opened) == 10
    assert report.files_seen == report.files_changed == 10


def test_second_sweep_opens_no_log_and_writes_nothing(memory: Memory) -> None:
    before = {path: path.stat().st_mtime_ns for path in memory.store.data_dir.rglob("*.*") if path.is_file()}
    report, opened = logs_opened(memory)
    assert set(did(report).values()) == {0}
    assert opened == set()
    assert (report.files_seen, report.bytes_written) == (10, 0)
    after = {path: path.stat().st_mtime_ns for path in memory.store.data_dir.rglob("*.*") if path.is_file()}
    assert {path.name for path in after if after[path] != before.get(path)} <= {"helix.db-wal", "helix.db-shm"}


def test_append_reads_just_its_lines(memory: Memory) -> None:
    rows = stored_rows(memory, "s3")
    line = prompt("more", "11:00:00", "and now the rest")
    memory.write("s3", line, append=True)
    report, opened = logs_opened(memory)
    assert did(report) == {
        "files_opened": 1,
        "lines_read": 1,
        "bytes_read": len(line),
        "rows_rederived": rows,
        "digests_written": 1,
        "sessions_touched": 1,
    }
    assert opened == {"s3"}


def test_append_writes_a_part_with_what_is_new_and_no_more(memory: Memory) -> None:
    memory.write("s3", prompt("more", "11:00:00", "and now the rest"), append=True)
    report = memory.sweep()
    _, second = memory.parts("claude:s3")
    assert (second.record_count, second.row_count) == (1, 1)
    assert report.bytes_written == second.bytes == memory.store.raw.path(second.name).stat().st_size


def test_line_that_is_not_finished_is_read_when_it_is(memory: Memory) -> None:
    half, rest = cut(prompt("more", "11:00:00", "and now the rest"), [30])
    memory.write("s3", half, append=True)
    assert memory.sweep().lines_read == 0
    memory.write("s3", rest, append=True)
    assert memory.sweep().lines_read == 1


def test_rewritten_log_is_read_whole_and_alone(memory: Memory) -> None:
    rows = stored_rows(memory, "s3")
    path = memory.write("s3", prompt("new", "09:00:00", "from the beginning"), *conversation(2, session="s3-"))
    report, opened = logs_opened(memory)
    assert did(report) == {
        "files_opened": 1,
        "lines_read": 1 + 2 * LINES_OF_A_TURN,
        "bytes_read": path.stat().st_size,
        "rows_rederived": rows,
        "digests_written": 1,
        "sessions_touched": 1,
    }
    assert opened == {"s3"}


def test_newer_rules_derive_every_stored_row_again_and_read_no_log(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = sum(stored_rows(memory, f"s{number}") for number in range(10))
    for module in ("ask.coverage", "sweep.commit", "sweep.rounds"):
        monkeypatch.setattr(f"helix_assets.{module}.DIGEST_VERSION", DIGEST_VERSION + 1)
    report, opened = logs_opened(memory)
    assert did(report) == {
        "files_opened": 0,
        "lines_read": 0,
        "bytes_read": 0,
        "rows_rederived": rows,
        "digests_written": 10,
        "sessions_touched": 10,
    }
    assert opened == set()


def test_touched_log_is_opened_and_nothing_in_it_is_read(memory: Memory) -> None:
    os.utime(memory.path("s3"), ns=(1, 1))
    report, opened = logs_opened(memory)
    assert (report.files_opened, report.lines_read, report.bytes_read) == (1, 0, 0)
    assert opened == {"s3"}


def test_append_walks_over_no_table_that_grows_with_the_memory(tmp_path: Path) -> None:
    memory = Memory(tmp_path, {"HELIX_SEARCH_INDEX": "off"})  # the index is brought up to date by comparing all names
    memory.write("s1", *conversation(2))
    memory.sweep()
    memory.write("s1", prompt("more", "11:00:00", "and now the rest"), append=True)
    with statements_of(memory.store.catalog) as asked:
        assert memory.sweep().lines_read == 1
    walked = set[str]()
    with closing(sqlite3.connect(memory.store.catalog.path)) as catalog:
        for statement in asked:
            if statement.startswith(("SELECT", "UPDATE", "DELETE")):
                plan = catalog.execute(f"EXPLAIN QUERY PLAN {statement}").fetchall()
                walked |= {step[3] for step in plan if step[3].startswith("SCAN")}
    memory.close()
    assert walked <= FINE_TO_WALK_OVER


def statements(asked: Sequence[str]) -> int:
    """How many statements there were; one that is run for many rows counts once."""
    return len([key for key, _ in groupby(asked, lambda text: re.split("VALUES|WHERE|COMMIT", text)[0])])


def swept(memory: Memory, sessions: int) -> tuple[int, int]:
    """The statements and openings of a sweep that takes in so many sessions."""
    with statements_of(memory.store.catalog) as asked:
        assert memory.sweep().sessions_touched == sessions
    queries = [text for text in asked if not text.startswith(("PRAGMA", "BEGIN", "COMMIT", "ROLLBACK"))]
    return statements(queries), sum(text.startswith("BEGIN") for text in asked)


def test_statements_and_openings_are_few(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(2))
    asked = {"first": swept(memory, 1)}
    memory.write("s1", prompt("more", "11:00:00", "and now the rest"), append=True)
    asked |= {"append": swept(memory, 1), "nothing": swept(memory, 0)}
    memory.close()
    assert asked == {name: ASKED[name] for name in asked}


def test_statements_and_openings_do_not_grow_with_the_sessions(memory: Memory) -> None:
    asked = []
    for first, last in ((10, 11), (11, 40)):
        for number in range(first, last):
            memory.write(f"s{number}", *conversation(1, session=f"s{number}-"))
        asked.append(swept(memory, last - first))
    assert asked[0] == asked[1] == ASKED["new"]


def test_counters_are_kept_with_the_sweep(memory: Memory) -> None:
    memory.write("s3", prompt("more", "11:00:00", "and now the rest"), append=True)
    counters = memory.sweep().counters()
    assert (counters["files_opened"], counters["lines_read"], counters["digests_written"]) == (1, 1, 1)
