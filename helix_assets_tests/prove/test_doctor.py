"""Whatever is wrong with the set-up is named with what to do; a sound one is called fine."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from helix_assets.hooks.hook import write_note
from helix_assets.hooks.inbox import inbox_of
from helix_assets.prove.doctor import UNWATCHED, Finding, examine
from helix_assets.prove.verify import verify
from helix_assets.store.lock import writer_lock
from helix_assets_tests.home import Memory, conversation

CAPS = {
    f"HELIX_{name}_CAP_BYTES": size
    for name, size in (("RAW_SOFT", "1MiB"), ("RAW_HARD", "2MiB"), ("DISTILLED", "2MiB"))
}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A memory of one session, set up well, with caps that any disk has room for."""
    os.umask(0o077)
    made = Memory(tmp_path, CAPS)
    made.write("s1", *conversation(3))
    made.sweep()
    yield made
    made.close()


def look(memory: Memory, **variables: str) -> list[Finding]:
    home, data = memory.folder / "home", memory.folder / "data"
    environ = {"HOME": str(home), "HELIX_DATA_DIR": str(data), "CLAUDE_CONFIG_DIR": str(home / "claude")}
    return examine(memory.now, {**environ, **CAPS, **variables})


def wrong(memory: Memory, **variables: str) -> list[Finding]:
    found = [finding for finding in look(memory, **variables) if finding.state == "wrong"]
    assert all(finding.do for finding in found)
    return found


def test_a_good_set_up_is_fine(memory: Memory) -> None:
    assert wrong(memory) == []


def test_a_bad_setting_is_named(memory: Memory) -> None:
    (found,) = wrong(memory, HELIX_WEB_PORT="x")
    assert (found.check, "HELIX_WEB_PORT" in found.what) == ("settings", True)


def test_a_setting_without_effect_is_named_once(memory: Memory) -> None:
    notes = [f for f in look(memory, HELIX_SWEEP_REST_MINUTES="5") if "no effect" in f.what]
    assert [(f.state, f.do) for f in notes] == [("note", "remove it")]
    assert not [f for f in look(memory) if "no effect" in f.what]


def test_no_logs_anywhere_are_named(memory: Memory) -> None:
    shutil.rmtree(memory.folder / "home" / "claude")
    assert [f.what for f in wrong(memory) if f.check == "logs"] == ["no agent has any log"]


def test_a_missing_agent_is_only_a_note(memory: Memory) -> None:
    notes = [f.what for f in look(memory) if f.state == "note"]
    assert any(note.startswith("codex: no folder; looked for ") for note in notes)


def test_logs_that_cannot_be_watched_are_named_with_the_reason(memory: Memory) -> None:
    (memory.folder / "data" / "dagster").mkdir()
    (memory.folder / "data" / "dagster" / UNWATCHED).write_text("/logs is on a network file system (nfs4)")
    (found,) = [
        finding for finding in look(memory) if finding.do and finding.check == "logs" and "nfs4" in finding.what
    ]
    assert (found.state, "every 30 seconds" in found.what) == ("note", True)


@pytest.mark.parametrize("days", [-1, -3650])
def test_a_clock_that_is_behind_is_named(memory: Memory, days: int) -> None:
    memory.now += timedelta(days=days)
    assert {f.check for f in wrong(memory)} == {"clock"}


def test_files_open_to_others_are_named(memory: Memory) -> None:
    (memory.folder / "data" / "key").chmod(0o644)
    assert [f.check for f in wrong(memory)] == ["rights"]


def test_a_soft_cap_that_the_search_index_fills_alone_is_named(memory: Memory) -> None:
    (found,) = wrong(memory, HELIX_RAW_SOFT_CAP_BYTES="1KiB")
    assert "the search index alone" in found.what
    assert "raise that cap" in found.do


@pytest.mark.parametrize(("spare", "told"), [(0, "with its search index"), (-1, "the raw cache is over")])
def test_a_hard_cap_that_eviction_alone_may_not_keep_is_distinguished(memory: Memory, spare: int, told: str) -> None:
    cap = str(memory.raw_usage() + spare)
    (found,) = wrong(memory, HELIX_RAW_SOFT_CAP_BYTES=cap, HELIX_RAW_HARD_CAP_BYTES=cap)
    assert told in found.what


def test_a_disk_too_small_for_the_caps_is_named(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    class Disk(NamedTuple):
        free: int

    monkeypatch.setattr("helix_assets.prove.doctor.shutil.disk_usage", lambda _: Disk(300 << 20))
    assert [f.check for f in wrong(memory, HELIX_DISTILLED_CAP_BYTES="1GiB")] == ["disk"]
    monkeypatch.setattr("helix_assets.prove.doctor.shutil.disk_usage", lambda _: Disk(1 << 20))
    assert [f.what for f in wrong(memory)] == ["1 MiB are free"]


def test_tier_2_over_its_cap_is_named(memory: Memory) -> None:
    assert [f.what for f in wrong(memory, HELIX_DISTILLED_CAP_BYTES="1KiB")] == ["digests and facts are over their cap"]


def test_the_writer_is_named_and_so_is_a_killed_one(memory: Memory) -> None:
    with writer_lock(memory.store.data_dir, "sweep"):
        assert any("(sweep) is writing" in f.what for f in look(memory))
    (memory.store.data_dir / "lock").write_text('{"pid": 1, "what": "sweep"}')
    assert any("was killed while writing" in f.what for f in look(memory))


def test_runs_that_never_ended_are_named_without_dagster(memory: Memory) -> None:
    folder = memory.store.data_dir / "dagster" / "storage"
    folder.mkdir(parents=True, mode=0o700)
    with closing(sqlite3.connect(folder / "runs.db")) as runs, runs:
        runs.execute("create table runs (run_id, status, start_time)")
        hours = [("old", "STARTED", 7), ("new", "STARTED", 1), ("done", "SUCCESS", 9)]
        runs.executemany(
            "insert into runs values (?, ?, ?)", [(r, s, memory.now.timestamp() - h * 3600) for r, s, h in hours]
        )
    assert [f.what for f in wrong(memory)] == ["1 Dagster runs never ended, such as old"]


def test_a_lost_catalog_is_named_with_the_way_back(memory: Memory) -> None:
    memory.store.close()
    memory.store.catalog.path.unlink()
    assert [f.do for f in wrong(memory)] == ["run `helix restore`"]


def test_a_damaged_catalog_is_named(memory: Memory) -> None:
    memory.store.close()
    memory.store.catalog.path.write_bytes(b"no database")
    assert [f.check for f in wrong(memory)] == ["store"]


def rot(path: Path, at: int, count: int = 1) -> None:
    """Turn over every bit of some bytes."""
    with path.open("r+b") as file:
        file.seek(at)
        held = file.read(count)
        file.seek(at)
        file.write(bytes(byte ^ 0xFF for byte in held))


def _an_index(memory: Memory) -> None:
    """A value in an index that its table does not have: every reader passes over it."""
    catalog = memory.store.catalog
    with catalog.reading() as connection:
        size = connection.value("pragma page_size")
        query = "select rootpage from sqlite_master where name = 'sqlite_autoindex_digests_1'"
        page = connection.value(query)
    catalog.close()
    page_of_index = catalog.path.read_bytes()[(page - 1) * size : page * size]
    rot(catalog.path, (page - 1) * size + page_of_index.index(b"claude:s1"))


def _the_end_of_the_catalog(memory: Memory) -> None:
    memory.store.catalog.close()
    os.truncate(memory.store.catalog.path, memory.store.catalog.path.stat().st_size // 2)


def _a_digest(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute("update digests set digest = replace(digest, '1', '2')")


def _no_digest(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute("delete from digests")


def _to_a_file(folder: str, harm: Callable[[Path], None]) -> Callable[[Memory], None]:
    return lambda memory: harm(next((memory.store.data_dir / folder).rglob("*.parquet")))


@pytest.mark.parametrize(
    "harm",
    [
        _an_index,
        _the_end_of_the_catalog,
        _a_digest,
        _no_digest,
        *(
            pytest.param(_to_a_file(folder, harm), id=f"{folder}-{name}")
            for folder in ("raw", "memory")
            for name, harm in {
                "gone": Path.unlink,
                "cut": lambda path: os.truncate(path, 20),
                "rotten": lambda path: rot(path, 100),
                "open": lambda path: path.chmod(0o644),
            }.items()
        ),
    ],
)
def test_what_verify_finds_is_not_well_to_the_doctor_either(memory: Memory, harm: Callable[[Memory], None]) -> None:
    harm(memory)
    assert verify(memory.store)
    assert wrong(memory)


def test_a_check_that_a_damaged_store_stops_is_a_finding(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute("update sweeps set ended_at = 'no time'")
    assert [finding.what for finding in wrong(memory)] == ["ValueError"]


def test_a_disk_that_takes_nothing_is_named(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(dir: Path) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr("helix_assets.prove.doctor.TemporaryFile", full)
    assert {finding.check for finding in wrong(memory)} == {"disk"}


def test_a_missing_copy_is_named(memory: Memory) -> None:
    shutil.rmtree(memory.store.settings.backup_dir)
    assert [f.check for f in wrong(memory)] == ["backup"]


def test_a_copy_that_is_days_behind_is_named(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helix_assets.sweep.sweep.back_up_if_due", lambda *_: None)
    memory.now += timedelta(days=5)
    memory.write("s1", *conversation(1, start=3), append=True)
    memory.sweep()
    assert [f.check for f in wrong(memory)] == ["backup"]


def test_failed_sessions_are_counted(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE sessions SET failure = 'ValueError', failures = 1")
    assert [f.what for f in wrong(memory)] == ["1 sessions could not be read or digested"]


def test_logs_with_news_are_a_note(memory: Memory) -> None:
    memory.write("s2", *conversation(1, session="b"))
    assert any(f.what.startswith("1 log files have news") for f in look(memory))


@pytest.mark.parametrize(("hours", "is_wrong"), [(1, False), (3, True)])
def test_notes_of_hooks_that_nobody_takes_in_are_named(memory: Memory, hours: int, is_wrong: bool) -> None:
    at = int((memory.now - timedelta(hours=hours)).timestamp() * 1e9)
    note = {"agent": "claude", "at": at, "event": "Stop", "session": None, "call": None}
    write_note(str(inbox_of(memory.store.data_dir)), note)
    assert ("hooks" in {finding.check for finding in wrong(memory)}) is is_wrong


@pytest.mark.parametrize("data", [b"", b"garbage" * 99])
def test_a_damaged_search_index_is_named_as_verify_names_it(memory: Memory, data: bytes) -> None:
    path = next((memory.store.data_dir / "search").glob("*.words"))
    path.write_bytes(data)
    assert [found.check for found in wrong(memory)] == ["search"]


def test_a_link_that_is_left_out_is_no_trouble_any_more(memory: Memory) -> None:
    loop = memory.projects / "loop"
    loop.symlink_to(loop)
    assert any("loop" in found.what for found in look(memory))
    assert not any("loop" in found.what for found in look(memory, HELIX_EXCLUDE_PATHS=str(loop)))
