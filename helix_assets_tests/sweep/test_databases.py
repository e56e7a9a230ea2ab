"""Databases that hold many sessions: opened only with news, never touched, and nothing of their news is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from helix_assets.agents import database
from helix_assets.agents.kinds import Ask, Query
from helix_assets.agents.spec import JsonObject
from helix_assets.prove.verify import verify
from helix_assets.store.catalog import problems
from helix_assets.sweep.look import scan
from helix_assets_tests.agents.twins import Told, TwinAdapter, both, make_told
from helix_assets_tests.home import NOW, ask, conversation

SECRET = "correct-horse-battery"
# Does what it is told by line, and keeps the database open meanwhile.
OWNER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("pragma wal_autocheckpoint=0")
for line in sys.stdin:
    connection.execute(line)
    print("done", flush=True)
"""
told = make_told  # the fixture


@pytest.fixture
def home(told: type[Told]) -> Told:
    made = told("database")
    made.sweep(both(2))
    return made


@contextmanager
def owner(home: Told) -> Iterator[subprocess.Popen[str]]:
    """A process that has the database open, as its agent would."""
    command = [sys.executable, "-c", OWNER, str(home.folder / "agent.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def do(process: subprocess.Popen[str], statement: str) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(statement + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "done\n"


def listing(folder: Path) -> dict[str, tuple[int, ...]]:
    """Everything about the files of a folder that reading them must not change."""
    infos = {entry.name: entry.stat() for entry in os.scandir(folder)}
    return {name: (i.st_ino, i.st_mode, i.st_size, i.st_mtime_ns, i.st_ctime_ns) for name, i in infos.items()}


def prompts(home: Told, session: str) -> int:
    return int(home.memory.digest(f"twin:{session}")["user_prompts"])


def test_change_in_the_log_alone_is_taken_in_and_leaves_the_folder_as_it_was(home: Told) -> None:
    record = conversation(3, session="a")[8].decode().strip()
    with owner(home) as process:
        do(process, "pragma journal_mode")
        main = (home.folder / "agent.db").stat()
        do(process, f"insert into message values ('late', 'one', 99, '{record}', 1)")
        before = listing(home.folder)
        assert set(before) == {"agent.db", "agent.db-wal", "agent.db-shm"}
        assert home.memory.sweep().problems == []
        assert (home.folder / "agent.db").stat().st_mtime_ns == main.st_mtime_ns
        assert listing(home.folder) == before
        assert home.memory.sweep().files_changed == 0
    assert (prompts(home, "one"), prompts(home, "two")) == (3, 2)


def test_only_the_session_that_changed_is_read(home: Told) -> None:
    home.say(both(3))
    report = home.memory.sweep()
    assert (report.files_changed, report.sessions_touched, report.touched) == (1, 1, {"twin:one"})
    with home.database() as connection:
        connection.execute("insert into credential values (1, ?)", (SECRET,))
    assert (home.memory.sweep().sessions_touched, home.memory.sweep().files_changed) == (0, 0)


def test_nothing_of_the_private_copy_is_left(home: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    with home.database() as connection:
        connection.execute("insert into credential values (1, ?)", (SECRET,))
    home.say(both(3))
    staging = home.memory.store.raw.staging
    seen: list[str] = []

    def dies(*_: object) -> None:
        seen.extend(str(path) for path in staging.rglob("*.db"))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("helix_assets.store.catalog.sessions.put", dies)
        with pytest.raises(KeyboardInterrupt):
            home.memory.sweep()
    assert len(seen) == 1
    assert list(staging.glob("*.db")) == list(staging.glob("databases")) == []
    (staging / "databases").mkdir()
    (staging / "databases" / "0.db").write_text(SECRET)  # as a killed process leaves it
    (home.memory.store.data_dir / "lock").write_text("1 sweep")
    home.memory.sweep()
    held = [path for path in home.memory.store.data_dir.rglob("*") if path.is_file()]
    assert [path for path in held if SECRET.encode() in path.read_bytes()] == []
    assert prompts(home, "one") == 3


def test_query_that_goes_too_far_is_a_problem_and_reads_nothing(home: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    with home.database() as connection:
        connection.execute("insert into credential values (1, ?)", (SECRET,))
    far = Query("select secret from credential", {"message": ("data",)})
    home.say(both(3))
    with monkeypatch.context() as patch:
        patch.setattr(TwinAdapter, "queries", {**TwinAdapter.queries, "messages": far})
        ((name, problem),) = home.memory.sweep().problems
    assert name.endswith("agent.db#one")
    assert "the query 'messages' of the database failed: access to credential.secret is prohibited" in problem
    assert prompts(home, "one") == 2
    home.say(both(4))
    home.memory.sweep()
    assert prompts(home, "one") == 4
    assert not verify(home.memory.store)


def test_sessions_that_cannot_be_listed_are_one_problem_until_the_file_changes(
    home: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    far = Query("select * from credential", {"session": ("id",)})
    with monkeypatch.context() as patch:
        patch.setattr(TwinAdapter, "queries", {**TwinAdapter.queries, "sessions": far})
        home.say(both(3))
        ((_, problem),) = home.memory.sweep().problems
        assert problem.startswith("its sessions cannot be listed: the query 'sessions' of the database failed")
        assert home.memory.sweep().problems == []
    home.say(both(4))
    assert home.memory.sweep().problems == []
    assert (prompts(home, "one"), prompts(home, "two")) == (4, 2)
    assert ask(home.memory.store, problems.of_places) == {}


def test_database_that_is_being_written_to_waits_for_the_next_sweep(
    home: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.say(both(3))
    with monkeypatch.context() as patch:
        patch.setattr(database, "_signature", lambda _: None)
        patch.setattr(database, "_PAUSES_S", (0, 0, 0, 0))
        ((_, problem),) = home.memory.sweep().problems
        assert problem == "the database is being written to; the next sweep tries again"
        assert ask(home.memory.store, problems.of_places) == {}
    assert prompts(home, "one") == 2
    assert len(scan(home.memory.store).changes.changed) == 1
    assert home.memory.sweep().problems == []
    assert prompts(home, "one") == 3


def test_database_above_the_limit_is_left_alone(told: type[Told]) -> None:
    home = told("database", HELIX_SWEEP_DATABASE_BYTES="8KiB")
    home.say(both(2))
    ((_, problem),) = home.memory.sweep().problems
    assert problem == "too large: the database is above [sweep] database_bytes"
    assert home.memory.sweep().files_changed == 0


def test_session_that_left_the_database_is_kept(home: Told) -> None:
    before = home.logical()
    with home.database() as connection:
        connection.execute("delete from message where session_id = 'two'")
        connection.execute("delete from session where id = 'two'")
    assert home.memory.sweep().files_gone == 1
    assert home.logical() == before
    (home.folder / "agent.db").unlink()
    assert home.memory.sweep().files_gone == 2  # the file, and the session that was left in it
    assert home.logical() == before
    home.say(both(3))
    home.memory.sweep()
    assert (prompts(home, "one"), prompts(home, "two")) == (3, 2)
    assert not verify(home.memory.store)


def test_session_that_fails_is_tried_again_though_its_file_rests(home: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = TwinAdapter.rows

    def fails(self: TwinAdapter, ask: Ask, native_id: str) -> Iterator[JsonObject]:
        if native_id == "two":
            raise ValueError("two")
        return rows(self, ask, native_id)

    home.say(both(3, 3))
    with monkeypatch.context() as patch:
        patch.setattr(TwinAdapter, "rows", fails)
        report = home.memory.sweep()
    assert (report.sessions_failed, prompts(home, "one"), prompts(home, "two")) == (1, 3, 2)
    home.memory.now = NOW + timedelta(seconds=1)
    assert home.memory.sweep().files_changed == 0
    home.memory.now = NOW + timedelta(hours=1)
    report = home.memory.sweep()
    assert (report.touched, prompts(home, "two")) == ({"twin:two"}, 3)


def test_excluded_database_is_not_opened(told: type[Told], monkeypatch: pytest.MonkeyPatch) -> None:
    home = told("database", HELIX_EXCLUDE_PATHS="*/agent.db")
    home.say(both(2))
    monkeypatch.setattr(database, "copy_database", lambda *_: pytest.fail("opened"))
    home.memory.sweep()
    assert home.logical() == []
