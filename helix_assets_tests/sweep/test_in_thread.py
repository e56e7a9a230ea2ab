"""Small news in a thread: what is small, and what a session that fails, hangs or eats memory does there."""

import multiprocessing
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import zstandard

from helix_assets.agents.claude.adapter import ClaudeParser
from helix_assets.derive.digest_builder import DigestBuilder
from helix_assets.model.errors import BusyError
from helix_assets.prove.verify import verify
from helix_assets.store.catalog import retries
from helix_assets.store.lock import writer_lock
from helix_assets.sweep import in_thread
from helix_assets.sweep.in_thread import LeftError, SmallNews, look, watched
from helix_assets.sweep.sweep import SweepReport, sweep
from helix_assets.sweep.task import Limits
from helix_assets_tests.home import Memory, conversation, prompt, rows_of

MIB = 1 << 20
FAILED = "ZeroDivisionError while the digest was built"
TROUBLE = "claude:bad"


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    """A memory with two sessions, and a third that the planted trouble finds once it grows."""
    monkeypatch.setattr(in_thread, "LIMITS", Limits(1, 200 * MIB))
    memory = Memory(tmp_path)
    memory.write("bad", prompt("p1", "10:00:00", "all is well"))
    memory.write("good", *conversation(1, session="g"))
    memory.sweep()
    yield memory
    memory.close()


def take_in(memory: Memory) -> tuple[SweepReport, dict[str, str]]:
    """Take small news in, in a thread, as a server does."""

    def work() -> tuple[SweepReport, dict[str, str]]:
        news = look(memory.store, memory.now)
        return sweep(memory.store, clock=lambda: memory.now, small=news), news.left

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


def grow(memory: Memory) -> None:
    memory.write("bad", prompt("p2", "10:00:10", "this one is trouble"), append=True)
    memory.write("good", *conversation(1, start=1, session="g"), append=True)


def plant(monkeypatch: pytest.MonkeyPatch, trouble: Callable[[], object]) -> None:
    """Make the adapter run into trouble at the one session."""
    feed = ClaudeParser.feed

    def feeding(self: ClaudeParser, obj: Any, record: Any) -> Any:
        if "trouble" in str(obj):
            trouble()
        return feed(self, obj, record)

    monkeypatch.setattr(ClaudeParser, "feed", feeding)


def fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make no digest of the one session."""
    add = DigestBuilder.add

    def failing(self: DigestBuilder, rows: Any) -> Any:
        if any("trouble" in (row.summary or "") for row in rows):
            raise ZeroDivisionError
        return add(self, rows)

    monkeypatch.setattr(DigestBuilder, "add", failing)


def eat() -> list[bytes]:
    eaten = []
    for number in range(1000):
        eaten.append(bytes([number % 255 + 1]) * MIB)
        time.sleep(0.001)
    return eaten


def swallow() -> None:
    """Code that takes every exception for its own."""
    while True:
        try:
            time.sleep(0.01)
        except Exception:  # noqa: BLE001
            continue


# -- a session that is too much --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trouble", "reason"), [(swallow, "it took longer than 1 s"), (eat, "it needs more than 200")])
def test_a_session_that_is_too_much_stays_as_it_was_and_the_others_are_taken_in(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, trouble: Callable[[], object], reason: str
) -> None:
    if trouble is eat and sys.platform != "linux":
        pytest.skip("only Linux says how much memory a process has")
    grow(memory)
    before = memory.row(TROUBLE)
    with monkeypatch.context() as planted:
        plant(planted, trouble)
        report, left = take_in(memory)
    assert {uid: why.startswith(reason) for uid, why in left.items()} == {TROUBLE: True}
    assert (report.touched, report.problems, report.sessions_failed) == ({"claude:good"}, [], 0)
    assert memory.row(TROUBLE) == before
    assert verify(memory.store) == []
    # It is not tried here again, and any other sweep takes it in.
    assert take_in(memory)[1] == {TROUBLE: "it was too much before"}
    assert memory.sweep().touched == {TROUBLE}


def test_a_look_that_only_leaves_sessions_is_no_sweep(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(memory)
    with monkeypatch.context() as planted:
        plant(planted, swallow)
        take_in(memory)
    before = rows_of(memory.store, "sweeps")
    take_in(memory)
    assert rows_of(memory.store, "sweeps") == before


def test_a_session_that_fails_is_named_as_by_any_sweep(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(memory)
    fail(monkeypatch)
    report, left = take_in(memory)
    assert (report.digests_written, report.digests_failed, left) == (1, 1, {})
    assert (memory.row(TROUBLE).record_count, memory.row(TROUBLE).failure) == (2, FAILED)


def test_a_session_that_failed_only_stores_its_records_until_its_retry_which_is_left(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow(memory)
    with monkeypatch.context() as planted:
        fail(planted)
        memory.sweep()
    memory.write("bad", prompt("p3", "10:00:20", "and more"), append=True)
    assert take_in(memory)[1] == {}
    assert (memory.row(TROUBLE).record_count, memory.row(TROUBLE).failure) == (3, FAILED)
    memory.now += timedelta(minutes=3)
    memory.write("bad", prompt("p4", "10:00:30", "and more"), append=True)
    with pytest.raises(LeftError, match="derived again"):
        take_in(memory)
    assert memory.sweep().digests_failed == 0


def test_a_session_that_could_not_be_read_is_left(memory: Memory) -> None:
    grow(memory)
    with memory.store.catalog.writing() as connection:
        retries.note_failure(connection, TROUBLE, path_keys=[], failure="made up", now=memory.now)
    memory.now += timedelta(minutes=3)
    assert take_in(memory)[1] == {TROUBLE: "it failed before"}


def test_a_large_session_that_must_be_read_again_is_left(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_thread, "HEAVY_BYTES", 100)
    memory.write("good", *conversation(1, session="other"))
    memory.write("new", *conversation(1, session="n"))
    _, left = take_in(memory)
    assert {uid: "read again" in why for uid, why in left.items()} == {"claude:good": True, "claude:new": True}


def test_sessions_that_share_too_much_with_others_are_left_together(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed session that turns out to be the older one: the other must be rewritten without their common lines."""
    shared = conversation(2, session="s")
    memory.write("late", prompt("late", "09:59:59", "later", timestamp="2026-06-05T10:00:00.000Z"), *shared)
    memory.sweep()
    memory.write("early", prompt("early", "08:00:00", "earlier"), *shared)
    before = memory.exported()
    with monkeypatch.context() as light:
        light.setattr(in_thread, "HEAVY_TOGETHER_BYTES", 100)
        report, left = take_in(memory)
    assert (report.touched, set(left)) == (set(), {"claude:early"})
    assert memory.exported() == before
    assert take_in(memory)[0].touched == {"claude:early", "claude:late"}
    assert verify(memory.store) == []


# -- the thread ------------------------------------------------------------------------------------------------------


def test_no_process_is_started_and_no_signal_set(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("not in a thread of a server")

    for place, name in ((multiprocessing, "get_context"), (signal, "signal"), (signal, "setitimer")):
        monkeypatch.setattr(place, name, refuse)
    monkeypatch.setattr("resource.setrlimit", refuse)
    grow(memory)
    assert take_in(memory)[0].touched == {TROUBLE, "claude:good"}
    assert not [thread for thread in threading.enumerate() if thread.name == "watch" and thread.is_alive()]


def test_an_interruption_comes_in_time_or_never() -> None:
    """Work that ends just when its time is up, again and again: nothing is raised after it."""
    ends = {"left": 0, "done": 0}

    def count(until: float) -> None:
        while time.monotonic() < until:
            pass

    def work() -> None:
        for number in range(60):
            seconds = 0.02 + (number % 7) * 0.002
            try:
                watched(partial(count, time.monotonic() + 0.026), seconds, 1 << 40)
                ends["done"] += 1
            except LeftError:
                ends["left"] += 1
            count(time.monotonic() + 0.01)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_thread, "LOOKS_EVERY_S", 0.0005)
        with ThreadPoolExecutor(1) as pool:
            pool.submit(work).result()
    assert ends["left"]
    assert ends["done"]
    assert sum(ends.values()) == 60


def test_a_lost_interruption_is_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_thread, "_AGAIN_S", 0.1)

    def lose_one() -> None:
        try:
            count()
        except BaseException:  # noqa: BLE001
            count()

    def count() -> None:
        while True:
            time.sleep(0.001)

    with ThreadPoolExecutor(1) as pool, pytest.raises(LeftError):
        pool.submit(watched, lose_one, 0.1, 1 << 40).result()


def test_a_session_that_does_not_even_react_ends_the_process_and_is_left_by_the_next(memory: Memory) -> None:
    """In one step of C that keeps all other threads from running."""
    grow(memory)
    code = f"""
import re, sys
from helix_assets.sweep import in_thread
from helix_assets.sweep.task import Limits
from helix_assets_tests.home import Memory
from helix_assets_tests.sweep.test_in_thread import ClaudeParser, Path, take_in
in_thread.LIMITS, in_thread.GRACE_S = Limits(0.5, 1 << 40), 0.5
feed = ClaudeParser.feed
def deaf(self, obj, record):
    if "trouble" in str(obj):
        re.match("(a+)+$", "a" * 40 + "b")
    return feed(self, obj, record)
ClaudeParser.feed = deaf
take_in(Memory(Path({str(memory.folder)!r})))
"""
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
    report, left = take_in(memory)
    assert left == {TROUBLE: "it was too much before"}
    assert "claude:good" in report.touched or memory.row("claude:good").record_count == 8
    assert memory.sweep().sessions_failed == 0
    assert verify(memory.store) == []


def test_a_session_that_was_under_way_when_the_process_was_killed_is_tried_again(memory: Memory) -> None:
    grow(memory)
    code = f"""
import os
from helix_assets_tests.home import Memory
from helix_assets_tests.sweep.test_in_thread import ClaudeParser, Path, take_in
ClaudeParser.feed = lambda *given: os._exit(9)
take_in(Memory(Path({str(memory.folder)!r})))
"""
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 9
    assert (memory.store.data_dir / in_thread.UNDER_WAY).exists()
    report, left = take_in(memory)
    assert (report.touched, left) == ({TROUBLE, "claude:good"}, {})
    assert not (memory.store.data_dir / in_thread.UNDER_WAY).exists()


def test_what_names_them_contains_no_name(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    grow(memory)
    plant(monkeypatch, swallow)
    take_in(memory)
    noted = (memory.store.data_dir / in_thread.UNDER_WAY).read_text()
    assert re.fullmatch(r'\{"[0-9a-f]{20}": \[[0-9.]+, 2\]\}', noted)


@pytest.mark.parametrize("noted", ["", "[]", "3", '{"a": "b"}', '{"a": ["b", 1]}', "\\x00"])
def test_a_damaged_note_counts_as_none(memory: Memory, noted: str) -> None:
    (memory.store.data_dir / in_thread.UNDER_WAY).write_text(noted)
    grow(memory)
    assert take_in(memory)[1] == {}
    assert not (memory.store.data_dir / in_thread.UNDER_WAY).exists()


# -- what is small ---------------------------------------------------------------------------------------------------


def news(memory: Memory) -> SmallNews:
    return look(memory.store, memory.now)


def test_nothing_new_is_no_news(memory: Memory) -> None:
    assert not news(memory)


def test_what_a_file_gained_counts_and_of_a_new_one_all(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.write("big", *conversation(20, session="big"))
    size = memory.path("big").stat().st_size
    monkeypatch.setattr(in_thread, "MOST_BYTES", size - 1)
    assert take_in(memory)[1] == {"claude:big": f"more than {size - 1} bytes are news"}
    memory.sweep()
    memory.write("big", *conversation(1, start=20, session="big"), append=True)
    assert take_in(memory)[0].touched == {"claude:big"}
    memory.write("big", *conversation(21, session="big2"))  # replaced: all of it is news
    memory.path("big").rename(memory.path("other"))
    memory.path("other").rename(memory.path("big"))
    monkeypatch.setattr(in_thread, "MOST_BYTES", 10)
    assert take_in(memory)[1] == {"claude:big": "more than 10 bytes are news"}


def test_what_is_too_much_does_not_hold_back_the_rest(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_thread, "MOST_BYTES", 20_000)
    memory.write("big", *conversation(200, session="big"))
    memory.path("good").unlink()
    memory.write("small", *conversation(1, session="small"))
    report, left = take_in(memory)
    assert (report.touched, report.files_gone, report.files_changed) == ({"claude:small"}, 0, 1)
    assert left == {"claude:big": "more than 20000 bytes are news", "": "files are gone"}
    report = memory.sweep()
    assert (report.touched, report.files_gone) == ({"claude:big"}, 1)
    assert verify(memory.store) == []


def test_of_many_files_some_are_taken_in(memory: Memory) -> None:
    for number in range(in_thread.MOST_FILES + 3):
        memory.write(f"s{number}", *conversation(1, session=f"s{number}"))
    report, left = take_in(memory)
    assert (len(report.touched), set(left.values())) == (20, {"more than 20 files have news"})
    assert len(take_in(memory)[0].touched) == 3


def test_a_session_that_lost_a_file_is_left(memory: Memory) -> None:
    place = memory.path("good").parent / "good" / "subagents" / "agent-a1.jsonl"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"".join(conversation(1, session="a1")))
    memory.sweep()
    place.unlink()
    grow(memory)
    report, left = take_in(memory)
    assert report.touched == {TROUBLE}
    assert left == {"claude:good": "files are gone", "": "files are gone"}


def test_a_packed_file_is_left(memory: Memory) -> None:
    line = b'{"type":"session_meta","payload":{"id":"0197a1b2-0000-7000-8000-000000000001"}}\n'
    name = "rollout-2026-06-05T10-00-00-0197a1b2-0000-7000-8000-000000000001.jsonl.zst"
    memory.put(f"codex/sessions/2026/06/05/{name}", zstandard.compress(line))
    (left,) = take_in(memory)[1].values()
    assert left.endswith("bytes are news")


@pytest.mark.parametrize(
    ("environ", "reason"),
    [
        ({"HELIX_REDACTION_RULES": "[{name = 'steps', pattern = 'do step [0-9]'}]"}, "the redaction rules are new"),
        ({"HELIX_PRICES": "{claude-opus-4-5 = {input = 1.0, output = 2.0}}"}, "the prices are new"),
        ({"HELIX_REPO_DOMAINS": "{shop = 'sales'}"}, "the map of repositories, domains and tasks is new"),
        ({"HELIX_EXCLUDE_REPOS": "shop"}, "other sessions are excluded"),
        ({"HELIX_RAW_HARD_CAP_BYTES": "4KiB", "HELIX_RAW_SOFT_CAP_BYTES": "2KiB"}, "the raw cache is full"),
    ],
)
def test_news_under_other_settings_is_large(memory: Memory, environ: dict[str, str], reason: str) -> None:
    memory.close()
    other = Memory(memory.folder, environ)
    grow(other)
    with pytest.raises(LeftError, match=reason):
        news(other)
    other.close()


def test_new_map_is_for_a_run_even_without_news(memory: Memory) -> None:
    memory.close()
    other = Memory(memory.folder, {"HELIX_TASK_PATTERNS": "SHOP-[0-9]+"})
    with pytest.raises(LeftError, match="the map of repositories, domains and tasks is new"):
        news(other)
    other.sweep()
    assert not news(other)
    other.close()


def test_news_that_comes_when_a_copy_is_due_is_taken_in_and_a_run_wanted(memory: Memory) -> None:
    grow(memory)
    memory.now += timedelta(days=2)
    report, left = take_in(memory)
    assert (report.touched, left) == ({TROUBLE, "claude:good"}, {"": "a copy of the memory is due"})


def test_what_another_writer_did_meanwhile_is_seen(memory: Memory) -> None:
    grow(memory)
    first = news(memory)
    memory.sweep()
    assert sweep(memory.store, clock=lambda: memory.now, small=first).touched == set()
    grow(memory)
    second = news(memory)
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE sessions SET parser_version = -1")
        connection.execute("UPDATE meta SET value = 'another' WHERE name = 'settled'")
    with pytest.raises(LeftError, match="derived again"):
        sweep(memory.store, clock=lambda: memory.now, small=second)


def test_a_store_in_use_is_not_waited_for(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helix_assets.sweep.sweep.SMALL_WAIT_S", 0.1)
    grow(memory)
    first = news(memory)
    with writer_lock(memory.store.data_dir, "test"), pytest.raises(BusyError):
        sweep(memory.store, clock=lambda: memory.now, small=first)


def test_small_and_ordinary_sweeps_make_the_same(memory: Memory, tmp_path: Path) -> None:
    shutil.copytree(memory.store.data_dir, tmp_path / "copy")
    grow(memory)
    take_in(memory)
    other = Memory(memory.folder, {"HELIX_DATA_DIR": str(tmp_path / "copy")})
    assert other.sweep().touched == {TROUBLE, "claude:good"}
    assert other.exported() == memory.exported()
    other.close()
