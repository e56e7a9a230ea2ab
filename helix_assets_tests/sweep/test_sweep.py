"""The sweep is exact: whatever the order, the splitting and the repeats, the same logs give the same memory."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix_assets.ask.export import session_figures
from helix_assets.keep import evict
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.prove.verify import verify
from helix_assets.store.catalog import sessions
from helix_assets.sweep.sweep import sweep
from helix_assets_tests.conftest import SWEEPING
from helix_assets_tests.home import Memory, answer, ask, call, conversation, cut, line, prompt, result


@pytest.fixture
def memory(tmp_path: Path):
    made = Memory(tmp_path)
    yield made
    made.close()


def in_one_go(folder: Path, *sessions: tuple[str, list[bytes]]) -> bytes:
    """The export of a fresh memory that met all files at once."""
    fresh = Memory(folder)
    for name, lines in sessions:
        fresh.write(name, *lines)
    fresh.sweep()
    exported = fresh.exported()
    fresh.close()
    return exported


def test_second_sweep_reads_no_line(memory: Memory):
    memory.write("s1", *conversation(3))
    assert memory.sweep().lines_read == 12
    again = memory.sweep()
    assert (again.files_changed, again.lines_read, again.bytes_written) == (0, 0, 0)


def test_append_reads_just_its_lines(memory: Memory, tmp_path: Path):
    memory.write("s1", *conversation(3))
    memory.sweep()
    memory.write("s1", *conversation(2, start=3), append=True)
    assert memory.sweep().lines_read == 8
    assert memory.exported() == in_one_go(tmp_path / "once", ("s1", conversation(5)))


@SWEEPING
@given(places=st.lists(st.integers(0, 10_000), max_size=6), repeats=st.integers(0, 1))
def test_any_splitting_of_an_append_gives_the_same_memory(places: list[int], repeats: int):
    with tempfile.TemporaryDirectory() as folder:
        lines = conversation(6)
        data = b"".join(lines)
        memory = Memory(Path(folder) / "split")
        for piece in cut(data, places):
            memory.write("s1", piece, append=True)
            for _ in range(repeats + 1):
                memory.sweep()
        assert memory.exported() == in_one_go(Path(folder) / "once", ("s1", lines))
        assert not verify(memory.store)
        memory.close()


def red_then_green() -> list[bytes]:
    """A session whose tests fail, are repeated at once, then run twice in one command."""
    return [
        prompt("p", "10:00:00", "make it green"),
        call("c1", "10:00:01", "Bash", "toolu_t1", command="uv run pytest -q"),
        result("r1", "10:00:05", "toolu_t1", "Exit code 1\n2 failed, 3 passed in 0.31s", failed=True),
        call("c2", "10:00:06", "Bash", "toolu_t2", command="uv run pytest -q"),
        result("r2", "10:00:09", "toolu_t2", "5 passed, 1 skipped in 0.30s"),
        call("c3", "10:00:10", "Bash", "toolu_t3", command="make test"),
        result("r3", "10:00:19", "toolu_t3", "4 passed in 0.20s\nTests:       7 passed, 7 total\nTime:        1.2 s"),
        answer("a", "10:00:20", "all is green", message="msg_a"),
    ]


@SWEEPING
@given(places=st.lists(st.integers(0, 10_000), min_size=1, max_size=5))
def test_test_runs_do_not_depend_on_how_the_log_grew(places: list[int]):
    with tempfile.TemporaryDirectory() as folder:
        memory = Memory(Path(folder) / "split")
        for piece in cut(b"".join(red_then_green()), places):
            memory.write("s1", piece, append=True)
            memory.sweep()
        assert memory.exported() == in_one_go(Path(folder) / "once", ("s1", red_then_green()))
        memory.close()


def test_figures_of_a_session_list_its_test_runs(memory: Memory):
    memory.write("s1", *red_then_green())
    memory.sweep()
    (figures,) = session_figures(memory.store).values()
    told = [(run.framework, run.passed, run.failed, run.skipped) for run in figures.tests or ()]
    assert told == [("pytest", 3, 2, 0), ("pytest", 5, 0, 1), ("pytest", 4, 0, 0), ("jest", 7, 0, 0)]
    digest = figures.digest
    assert (digest.cost.retries, digest.kind_counts["error"]) == (1, 1)
    assert (digest.edits.count, digest.outcome) == (0, "success")


def test_figures_keep_the_test_runs_of_an_evicted_session(memory: Memory):
    memory.write("s1", *red_then_green())
    memory.sweep()
    before = session_figures(memory.store)
    assert evict.apply(memory.store, clock=lambda: memory.now, policy=RetentionPolicy(1, 1 << 30, 45, 1 << 30)).gone
    assert session_figures(memory.store) == before


def test_half_a_line_waits_and_is_no_problem(memory: Memory):
    whole = conversation(1)
    memory.write("s1", *whole, b'{"type":"user","uuid":"late","timest')
    report = memory.sweep()
    assert (report.lines_read, report.problems) == (4, [])
    memory.write("s1", b'amp":"2026-06-05T11:00:00Z","message":{"content":"there"}}\n', append=True)
    assert memory.sweep().lines_read == 1


def test_whole_last_line_without_newline_counts_once(memory: Memory, tmp_path: Path):
    lines = conversation(1)
    memory.write("s1", *lines[:-1], lines[-1].rstrip(b"\n"))
    assert memory.sweep().lines_read == 4
    memory.write("s1", b"\n", *conversation(1, start=1), append=True)
    memory.sweep()
    assert memory.exported() == in_one_go(tmp_path / "once", ("s1", conversation(2)))


def test_records_that_vanish_from_a_rewritten_file_are_kept(memory: Memory):
    lines = conversation(3)
    memory.write("s1", *lines)
    memory.sweep()
    memory.write("s1", *lines[4:], prompt("new", "11:00:00", "and now?"))
    memory.sweep()
    digest = memory.digest("claude:s1")
    assert (digest["record_count"], digest["user_prompts"]) == (13, 4)
    assert not verify(memory.store)


def test_newest_version_of_a_record_wins(memory: Memory):
    memory.write("s1", prompt("p1", "10:00:00", "first wording"), answer("a1", "10:00:01", "ok", message="m1"))
    memory.sweep()
    memory.write("s1", prompt("p1", "10:00:00", "second wording"), answer("a1", "10:00:01", "ok", message="m1"))
    memory.sweep()
    assert memory.digest("claude:s1")["first_prompt"] == "second wording"
    assert memory.digest("claude:s1")["record_count"] == 2


def test_file_replaced_with_same_size_and_mtime_is_read_again(memory: Memory):
    path = memory.write("s1", prompt("p1", "10:00:00", "old words"))
    memory.sweep()
    before = path.stat()
    fresh = path.with_suffix(".tmp")
    fresh.write_bytes(prompt("p2", "10:00:00", "new words"))
    os.rename(fresh, path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    memory.sweep()
    assert memory.digest("claude:s1")["user_prompts"] == 2


def test_file_moved_to_another_project_tells_nothing_twice(memory: Memory):
    path = memory.write("s1", *conversation(3), line("mode", "", "10:09:00", mode="normal"))
    memory.sweep()
    before = memory.digest("claude:s1")
    path.rename(memory.path("s1", project="-home-u-moved"))
    memory.sweep()
    after = memory.digest("claude:s1")
    moved = {"coverage": after["coverage"], "source_path": str(memory.path("s1", project="-home-u-moved"))}
    assert after == before | moved


def test_deleted_source_keeps_its_memory(memory: Memory):
    path = memory.write("s1", *conversation(2))
    memory.sweep()
    before = memory.exported()
    path.unlink()
    assert memory.sweep().files_gone == 1
    assert memory.exported() == before
    assert memory.sweep().files_gone == 0


def test_subagent_files_belong_to_their_parent(memory: Memory):
    memory.write("s1", *conversation(2))
    memory.write("agent-x1", prompt("q1", "10:00:07", "look around", sessionId="s1", agentId="x1", isSidechain=True))
    inner = memory.projects / "-home-u-shop" / "s1" / "subagents"
    inner.mkdir(parents=True)
    (inner / "agent-y2.jsonl").write_bytes(
        answer("q2", "10:00:08", "found it", message="m9", output=77, sessionId="s1", isSidechain=True)
    )
    memory.sweep()
    digest = memory.digest("claude:s1")
    assert (digest["record_count"], digest["user_prompts"], digest["tokens_subagent"]["output"]) == (10, 2, 77)


def test_subagent_record_that_comes_late_takes_its_place_in_time(memory: Memory, tmp_path: Path):
    late = prompt("q1", "10:00:07", "look around", sessionId="s1", agentId="x1", isSidechain=True)
    memory.write("s1", *conversation(2))
    memory.sweep()
    memory.write("agent-x1", late)
    memory.sweep()
    assert memory.exported() == in_one_go(tmp_path / "once", ("s1", conversation(2)), ("agent-x1", [late]))


def resumed(session: str) -> list[bytes]:
    """A resumed session: the first two turns of the other copied, then a turn of its own."""
    return [*conversation(2), *conversation(1, start=30, session=session)]


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old"), ("both",)])
def test_copied_history_counts_once_whatever_is_swept_first(memory: Memory, tmp_path: Path, order: tuple[str, ...]):
    logs = {"old": conversation(3), "new": resumed("b")}
    for step in order:
        for name in logs if step == "both" else [step]:
            memory.write(name, *logs[name])
        memory.sweep()
    old, new = memory.digest("claude:old"), memory.digest("claude:new")
    assert (old["user_prompts"], new["user_prompts"]) == (3, 1)
    assert old["tokens"]["output"] + new["tokens"]["output"] == (5 + 10) + (5 + 11) + (5 + 12) + (5 + 40)
    assert memory.exported() == in_one_go(tmp_path / "once", *logs.items())
    assert not verify(memory.store)


def test_owner_changes_when_the_first_session_grows_past_the_copy(memory: Memory, tmp_path: Path):
    """Of two sessions that start alike the one that stops first owns the common part."""
    memory.write("old", *conversation(2))
    memory.write("new", *resumed("b"))
    memory.sweep()
    assert memory.digest("claude:old")["user_prompts"] == 2
    memory.write("old", *conversation(1, start=50), append=True)
    memory.sweep()
    assert (memory.digest("claude:old")["user_prompts"], memory.digest("claude:new")["user_prompts"]) == (1, 3)
    logs = {"old": [*conversation(2), *conversation(1, start=50)], "new": resumed("b")}
    assert memory.exported() == in_one_go(tmp_path / "once", *logs.items())


@pytest.mark.parametrize("order", [("old", "new"), ("new", "old"), ("both",), ("new", "old", "new+"), ("both", "new+")])
def test_resumed_session_starts_with_its_first_own_record(memory: Memory, order: tuple[str, ...]):
    queued = line("queue-operation", "", "10:00:01", operation="enqueue", content="x")  # a copied record without an id
    copied = [
        prompt("p1", "10:00:00", "begin", gitBranch="main"), queued,
        answer("a1", "10:00:05", "done", message="m1", gitBranch="main"), queued,
    ]  # fmt: skip
    logs = {
        "old": copied,
        "new": [*copied, prompt("p2", "10:30:00", "go on", gitBranch="fix"),
                answer("a2", "10:31:00", "done", message="m2", gitBranch="later")],
        "new+": [prompt("p3", "10:40:00", "more", gitBranch="last")],
    }  # fmt: skip
    for step in order:
        for name in ("old", "new") if step == "both" else [step]:
            memory.write(name.removesuffix("+"), *logs[name], append=name == "new+")
        memory.sweep()
    old, new = memory.digest("claude:old"), memory.digest("claude:new")
    assert (old["started_at"], old["git_branch"]) == ("2026-06-05T10:00:00.000Z", "main")
    assert (new["started_at"], new["git_branch"]) == ("2026-06-05T10:30:00.000Z", "fix")
    assert new["cost"]["wall_clock_s"] == (600 if "new+" in order else 60)
    assert not verify(memory.store)


def test_records_shared_by_a_chain_of_resumed_sessions_belong_to_the_first_that_holds_them(memory: Memory):
    """The third copies from the second, which by then starts later than the third's copied lines."""
    turns = [conversation(1, start=start, session=name) for start, name in ((0, "a"), (20, "b"), (40, "c"))]
    for count, name in enumerate(("first", "second", "third"), start=1):
        memory.write(name, *(each for turn in turns[:count] for each in turn))
        memory.sweep()
    assert [memory.digest(f"claude:{name}")["user_prompts"] for name in ("first", "second", "third")] == [1, 1, 1]
    starts = [memory.digest(f"claude:{name}")["started_at"][14:16] for name in ("first", "second", "third")]
    assert starts == ["00", "20", "40"]
    assert not verify(memory.store)


def test_message_replayed_under_new_records_is_paid_once(memory: Memory):
    memory.write("s1", prompt("p1", "10:00:00", "hi"), answer("a1", "10:00:05", "hello", message="msg_1", output=50))
    memory.write(
        "s2", prompt("x1", "10:30:00", "hi again"), answer("x2", "10:30:05", "hello", message="msg_1", output=50)
    )
    memory.sweep()
    assert memory.digest("claude:s1")["tokens"]["output"] == 50
    assert memory.digest("claude:s2")["tokens"]["output"] == 0


def test_streamed_message_counts_its_last_line(memory: Memory):
    memory.write("s1", *(answer(f"a{i}", f"10:00:0{i}", f"part {i}", message="msg_1", output=2**i) for i in range(5)))
    memory.sweep()
    assert memory.digest("claude:s1")["tokens"]["output"] == 16


def test_bad_lines_are_named_and_their_neighbours_kept(memory: Memory):
    lines = conversation(1)
    memory.write("s1", lines[0], b"{broken\n", lines[1], b"[1]\n", *lines[2:])
    report = memory.sweep()
    assert [reason.partition(":")[0] for _, reason in report.problems] == ["line 2", "line 4"]
    assert (memory.digest("claude:s1")["record_count"], memory.digest("claude:s1")["unparsed_lines"]) == (4, 2)


def test_file_of_garbage_makes_no_session_and_is_read_once(memory: Memory):
    memory.path("noise").write_bytes(os.urandom(5000) + b"\n" + b"\0" * 100)
    assert memory.sweep().problems
    assert ask(memory.store, sessions.by_uid, ["claude:noise"]) == {}
    assert memory.sweep().files_changed == 0


def test_links_and_folders_named_like_logs_are_skipped_with_a_reason(memory: Memory):
    memory.write("s1", *conversation(1))
    memory.path("link").symlink_to(memory.path("s1"))
    memory.path("folder").mkdir()
    reasons = sorted(reason for _, reason in memory.sweep().problems)
    assert reasons == ["skipped: it is a folder", "skipped: it is a link"]


def test_excluded_repository_is_not_stored(tmp_path: Path):
    memory = Memory(tmp_path, {"HELIX_EXCLUDE_REPOS": "shop"})
    memory.write("s1", *conversation(1))
    report = memory.sweep()
    assert (report.files_excluded, report.lines_read) == (1, 0)
    assert memory.sweep().files_excluded == 0
    memory.close()


def test_what_was_excluded_is_taken_in_once_it_is_no_longer(tmp_path: Path):
    memory = Memory(tmp_path, {"HELIX_EXCLUDE_REPOS": "shop"})
    memory.write("s1", *conversation(1))
    memory.sweep()
    memory.close()
    memory = Memory(tmp_path)
    assert memory.sweep().lines_read == 4
    assert memory.sweep().files_changed == 0
    memory.close()


def test_what_a_limited_sweep_left_out_is_taken_in_once_it_is_no_longer_excluded(memory: Memory, tmp_path: Path):
    memory.sweep()
    memory.close()
    memory = Memory(tmp_path, {"HELIX_EXCLUDE_REPOS": "shop"})
    memory.write("s1", *conversation(1))
    sweep(memory.store, only=[("claude", "2026-06-05")])
    memory.close()
    memory = Memory(tmp_path)
    assert memory.sweep().lines_read == 4
    memory.close()


def test_changed_parser_derives_anew_from_stored_records_when_the_source_is_gone(memory: Memory, monkeypatch):
    path = memory.write("s1", *conversation(2))
    memory.sweep()
    before = memory.exported()
    path.unlink()
    monkeypatch.setattr("helix_assets.agents.claude.adapter.ClaudeAdapter.version", 99)
    assert memory.sweep().digests_written == 1
    row = memory.row("claude:s1")
    assert (row.parser_version, row.generation) == (99, 2)
    assert memory.exported() == before


def test_changed_digest_rules_write_no_raw_file(memory: Memory, monkeypatch):
    memory.write("s1", *conversation(2))
    memory.sweep()
    for module in ("ask.coverage", "sweep.commit", "sweep.rounds"):
        monkeypatch.setattr(f"helix_assets.{module}.DIGEST_VERSION", 99)
    report = memory.sweep()
    assert (report.digests_written, report.bytes_written) == (1, 0)


def test_failing_digest_sets_only_itself_aside(memory: Memory, monkeypatch):
    memory.write("bad", prompt("p1", "10:00:00", "this one breaks"))
    memory.write("good", *conversation(1))

    def break_one(self, rows):
        if any("breaks" in (row.summary or "") for row in rows):
            raise ValueError("cannot")
        return add(self, rows)

    from helix_assets.derive.digest_builder import DigestBuilder

    add = DigestBuilder.add
    monkeypatch.setattr(DigestBuilder, "add", break_one)
    report = memory.sweep()
    assert memory.digest("claude:good")["session_uid"] == "claude:good"
    assert memory.row("claude:bad").failure == "ValueError while the digest was built"
    assert report.digests_failed == 1
    assert memory.sweep().digests_failed == 0
    memory.now += timedelta(minutes=3)
    assert memory.sweep().digests_failed == 1


def test_same_logs_swept_by_processes_or_in_place_are_the_same_memory(tmp_path: Path):
    logs = {
        f"s{i}": [*conversation(20, session=str(i)), prompt(f"big{i}", "12:00:00", "x" * 3_000_000)] for i in range(4)
    }
    exports = []
    for workers in ("1", "2"):
        memory = Memory(tmp_path / workers, {"HELIX_SWEEP_WORKERS": workers})
        for name, lines in logs.items():
            memory.write(name, *lines)
        memory.sweep()
        exports.append(memory.exported())
        memory.close()
    assert exports[0] == exports[1]


def test_killed_between_files_and_commit_leaves_no_trace(memory: Memory, monkeypatch):
    memory.write("s1", *conversation(2))
    with monkeypatch.context() as patch:
        patch.setattr("helix_assets.store.catalog.sessions.put", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            memory.sweep()
    memory.sweep()
    assert not verify(memory.store)
    assert memory.digest("claude:s1")["record_count"] == 8


def test_lost_cursor_reads_again_and_counts_nothing_twice(memory: Memory):
    memory.write("s1", *conversation(2))
    memory.sweep()
    before = memory.exported()
    shutil.copy(memory.path("s1"), memory.path("s1").with_suffix(".copy"))
    os.replace(memory.path("s1").with_suffix(".copy"), memory.path("s1"))
    assert memory.sweep().lines_read == 8
    assert memory.exported() == before


def test_tool_result_knows_its_call(memory: Memory):
    memory.write("s1", call("c1", "10:00:00", "Edit", "t1", file_path="/x.py"), result("r1", "10:00:03", "t1", "done"))
    memory.sweep()
    digest = memory.digest("claude:s1")
    assert digest["files"] == [{"path": "/x.py", "edits": 1, "lines_added": None, "lines_removed": None}]


def test_evicted_session_that_grows_twice_keeps_its_totals(memory: Memory):
    tight = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=2, max_age_days=1, distilled_cap_bytes=10**9)
    memory.write("s1", *conversation(3))
    memory.sweep()
    evict.apply(memory.store, clock=lambda: memory.now, policy=tight)
    for turn in (3, 4, 5):
        memory.write("s1", *conversation(1, start=turn), append=True)
        memory.sweep()
        assert memory.digest("claude:s1")["user_prompts"] == turn + 1
    assert memory.row("claude:s1").record_count == 12
    assert not verify(memory.store)


def test_evicted_session_is_not_read_again_while_nothing_changes(memory: Memory):
    tight = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=2, max_age_days=1, distilled_cap_bytes=10**9)
    path = memory.write("s1", *conversation(3))
    memory.sweep()
    before = memory.digest("claude:s1")
    evict.apply(memory.store, clock=lambda: memory.now, policy=tight)
    os.utime(path)
    memory.sweep()
    assert (memory.raw_usage(), memory.digest("claude:s1")["tokens"]) == (0, before["tokens"])


def test_session_that_grows_and_is_evicted_for_its_own_growth_counts_all(tmp_path: Path) -> None:
    memory = Memory(tmp_path)
    memory.write("s1", *conversation(20))
    memory.sweep()
    caps = replace(memory.store.settings.retention, raw_soft_cap_bytes=1, raw_hard_cap_bytes=memory.raw_usage())
    memory.store = replace(memory.store, settings=replace(memory.store.settings, retention=caps))
    memory.write("s1", *conversation(20, start=20), append=True)
    memory.sweep()
    with memory.store.catalog.reading() as connection:
        assert connection.value("SELECT count(*) FROM evictions") == 1
    assert (memory.digest("claude:s1")["user_prompts"], verify(memory.store)) == (40, [])
    memory.close()
