"""The view `patterns` over swept sessions: what it finds, where that is to be seen, and that it outlives raw bytes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from helix_assets.ask.reports.all_reports import make_report
from helix_assets.ask.reports.frame import Span
from helix_assets.ask.sql import ask
from helix_assets.keep.evict import apply
from helix_assets.keep.forget import forget
from helix_assets.keep.retention import RetentionPolicy
from helix_assets_tests.home import NOW, Memory, answer, call, prompt, result

TINY = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=2, max_age_days=1, distilled_cap_bytes=10**9)
TEXT = 'Exit code 1\npsycopg2.OperationalError: role "ledger_rw" does not exist on replica {}'


def failing(name: str, text: str) -> list[bytes]:
    """A session whose one call fails."""
    return [
        prompt(f"p{name}", "10:00:00", "please migrate"),
        call(f"c{name}", "10:00:10", "Bash", f"toolu_{name}", command=f"./migrate {name}"),
        result(f"r{name}", "10:00:20", f"toolu_{name}", text, failed=True),
        answer(f"a{name}", "10:00:30", "It failed.", message=f"msg_{name}"),
    ]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Three sessions with the same specific error, four with a generic one."""
    made = Memory(tmp_path, {"HELIX_AGENTS": "claude"})
    for number in range(3):
        made.write(f"s{number}", *failing(f"s{number}", TEXT.format(number)))
    for number in range(3, 7):
        made.write(f"s{number}", *failing(f"s{number}", "Exit code 1"))
    made.sweep()
    yield made
    made.close()


def patterns(memory: Memory) -> list[tuple[object, ...]]:
    return ask(memory.store, "select kind, sessions, repos, snippet from patterns").rows


def test_a_specific_error_in_three_sessions_is_the_only_pattern(memory: Memory) -> None:
    (pattern,) = patterns(memory)
    assert pattern[:3] == ("error", 3, 1)
    assert 'role "ledger_rw" does not exist' in str(pattern[3])


def test_the_report_names_the_one_repository_it_was_seen_in(memory: Memory) -> None:
    report = make_report(memory.store, "patterns", Span(), today=NOW.date())
    assert [row["repo"] for row in report.table("patterns").rows] == ["shop"]


def test_its_evidence_is_the_record_that_shows_it(memory: Memory) -> None:
    (row,) = ask(memory.store, "select evidence from patterns").rows
    for seen in orjson.loads(row[0]):
        wanted = f"session_uid = '{seen['session_uid']}' and record_key = {seen['record_keys'][0]}"
        (record,) = ask(memory.store, f"select raw from records where {wanted}").rows
        assert "ledger_rw" in record[0]


def test_it_stays_readable_when_the_raw_bytes_went(memory: Memory) -> None:
    before = ask(memory.store, "from patterns").rows
    apply(memory.store, clock=lambda: NOW, policy=TINY, analyze=memory.sweep)
    assert not ask(memory.store, "from records").rows
    assert ask(memory.store, "from patterns").rows == before


def test_a_forgotten_session_is_no_part_of_it(memory: Memory) -> None:
    forget(memory.store, {"claude:s1"}, now=NOW)
    assert patterns(memory) == []


def test_a_damaged_digest_is_left_out_and_named(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute(
            "update digests set digest = replace(digest, 'ledger', 'ladder') where session_uid = 'claude:s1'"
        )
    answer = ask(memory.store, "select sessions from patterns")
    assert (answer.rows, answer.left_out) == ([], ("claude:s1",))
