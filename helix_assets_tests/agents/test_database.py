"""Databases of the agents: copied whole or not at all, their folders untouched, asked for nothing but what is named."""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from helix_assets.agents import database
from helix_assets.agents.database import PrivateCopies, asking, copy_database, with_log
from helix_assets.agents.kinds import Query
from helix_assets.agents.spec import FoundFile
from helix_assets.model.errors import RetryLater, SkipSource

MANY = 1 << 30
QUERIES = {"all": Query("select id, data from message order by id", {"message": ("id", "data")})}
# A writer that never stops: two tables that must always hold the same sum, checkpoints as they come.
WRITER = """
import sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode=WAL")
connection.execute("PRAGMA synchronous=OFF")
connection.execute(f"PRAGMA wal_autocheckpoint={sys.argv[2]}")
n = 0
while True:
    n += 1
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("insert into message values (?, ?)", (n, "x" * (n * 37 % 3000)))
    connection.execute("update total set count = count + 1")
    if n % 7 == 0:
        connection.execute("delete from message where id <= ?", (n - 60,))
        connection.execute("update total set count = (select count(*) from message)")
    connection.execute("COMMIT")
    print(n, flush=True)
    time.sleep(float(sys.argv[3]))
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "agent"
    folder.mkdir()
    made = folder / "agent.db"
    with closing(sqlite3.connect(made, isolation_level=None)) as connection:
        connection.executescript(
            "create table message (id integer primary key, data text); create table total (count integer);"
            "insert into total values (0); create table credential (id integer, secret text);"
            "insert into credential values (1, 'sk-very-secret');"
            "create view message_view as select id, secret as data from credential"
        )
    settle(made)
    return made


def settle(path: Path) -> None:
    """Have the file look as if it was written a while ago."""
    os.utime(path, ns=(time.time_ns() - 10**9,) * 2)


@contextmanager
def writer(path: Path, checkpoint: int, pause: float) -> Iterator[None]:
    command = [sys.executable, "-c", WRITER, str(path), str(checkpoint), str(pause)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def listing(folder: Path) -> dict[str, tuple[int, int]]:
    return {entry.name: (entry.stat().st_ino, entry.stat().st_mode) for entry in os.scandir(folder)}


def answers(copy: Path, sql: str, reads: dict[str, tuple[str, ...]]) -> list[tuple[object, ...]]:
    with asking(copy, {"q": Query(sql, reads)}) as ask:
        return list(ask("q"))


def test_copy_holds_what_lies_in_the_log_alone(path: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        owner.execute("PRAGMA journal_mode=WAL")
        owner.execute("insert into message values (1, 'new')")
        settle(path)
        before = {entry.name: entry.stat() for entry in os.scandir(path.parent)}
        copy_database(str(path), tmp_path / "copy.db", MANY)
        after = {entry.name: entry.stat() for entry in os.scandir(path.parent)}
    assert answers(tmp_path / "copy.db", QUERIES["all"].sql, {"message": ("id", "data")}) == [(1, "new")]
    assert set(after) == {"agent.db", "agent.db-wal", "agent.db-shm"}
    for name, info in before.items():
        now = after[name]
        assert (now.st_mtime_ns, now.st_ctime_ns, now.st_size) == (info.st_mtime_ns, info.st_ctime_ns, info.st_size)


def test_nothing_is_made_beside_a_database_that_nobody_has_open(path: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(path)) as owner:
        owner.execute("PRAGMA journal_mode=WAL")
    settle(path)
    before = listing(path.parent)
    copy_database(str(path), tmp_path / "copy.db", MANY)
    assert listing(path.parent) == before == {"agent.db": before["agent.db"]}


@pytest.mark.parametrize(("checkpoint", "pause"), [(1000, 0.001), (20, 0.02)])
def test_copies_beside_a_busy_writer_are_of_one_moment_or_none(
    path: Path, tmp_path: Path, checkpoint: int, pause: float
) -> None:
    whole = 0
    with writer(path, checkpoint, pause):
        for number in range(12):
            copy = tmp_path / f"{number}.db"
            try:
                copy_database(str(path), copy, MANY)
            except RetryLater:
                continue
            whole += 1
            with closing(sqlite3.connect(copy)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                counted = connection.execute("select count(*), (select count from total) from message").fetchone()
                assert counted[0] == counted[1]
        assert set(listing(path.parent)) == {"agent.db", "agent.db-wal", "agent.db-shm"}
    assert whole > 0


def test_copy_that_was_torn_is_made_again(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pour, torn = database._pour, []

    def written_to_meanwhile(source: str, target: Path) -> None:
        pour(source, target)
        if len(torn) < 2 and source == str(path):
            torn.append(source)
            with closing(sqlite3.connect(path, isolation_level=None)) as owner:
                owner.execute("insert into message values (?, 'late')", (len(torn),))
            settle(path)

    monkeypatch.setattr(database, "_pour", written_to_meanwhile)
    copy_database(str(path), tmp_path / "copy.db", MANY)
    found = answers(tmp_path / "copy.db", QUERIES["all"].sql, {"message": ("id", "data")})
    assert found == [(1, "late"), (2, "late")]


def test_database_that_never_rests_is_left_for_the_next_sweep(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pour = database._pour

    def touched(source: str, target: Path) -> None:
        pour(source, target)
        os.utime(path)
        settle(path)

    monkeypatch.setattr(database, "_pour", touched)
    monkeypatch.setattr(database, "_PAUSES_S", (0, 0, 0, 0))
    with pytest.raises(RetryLater, match="is being written to"):
        copy_database(str(path), tmp_path / "copy.db", MANY)


def test_crashed_writers_journal_has_it_wait(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_PAUSES_S", (0, 0, 0, 0))
    path.with_name("agent.db-journal").write_bytes(bytes.fromhex("d9d505f920a163d7") + bytes(504))
    with pytest.raises(RetryLater):
        copy_database(str(path), tmp_path / "copy.db", MANY)


def test_what_is_no_database_or_damaged_is_refused(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_PAUSES_S", (0, 0, 0, 0))
    for data in (b"no database at all " * 400, path.read_bytes()[:4096] + b"\x55" * 12288):
        path.write_bytes(data)
        settle(path)
        with pytest.raises(SkipSource, match="damaged"):
            copy_database(str(path), tmp_path / "copy.db", MANY)


def test_large_database_is_left_alone(path: Path, tmp_path: Path) -> None:
    with pytest.raises(SkipSource, match="too large"):
        copy_database(str(path), tmp_path / "copy.db", 4096)


def test_blocks_are_copied_where_they_cannot_be_shared(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: int) -> int:
        raise OSError(errno.EXDEV, "another file system")

    monkeypatch.setattr(os, "copy_file_range", refused, raising=False)
    copy_database(str(path), tmp_path / "copy.db", MANY)
    assert answers(tmp_path / "copy.db", "select count(*) from message", {"message": ("id",)}) == [(0,)]


def test_link_in_the_place_of_a_database_is_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(path)
    with pytest.raises(SkipSource):
        copy_database(str(tmp_path / "link.db"), tmp_path / "copy.db", MANY)


@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        ("select secret from credential", {"message": ("id",)}),
        ("select * from message", {"message": ("id",)}),
        ("select id from message where exists (select 1 from credential)", {"message": ("id",)}),
        ("select id, data from message_view", {"message_view": ("id", "data")}),
        ("select name from sqlite_master", {"message": ("id",)}),
        ("insert into message values (9, 'x')", {"message": ("id", "data")}),
        ("attach database 'other.db' as other", {"message": ("id",)}),
        ("pragma table_info(credential)", {"message": ("id",)}),
        ("select load_extension('x')", {"message": ("id",)}),
        ("select readfile('/etc/passwd')", {"message": ("id",)}),
    ],
)
def test_query_that_reads_what_it_does_not_name_is_denied(
    path: Path, tmp_path: Path, sql: str, reads: dict[str, tuple[str, ...]]
) -> None:
    copy_database(str(path), tmp_path / "copy.db", MANY)
    with pytest.raises(OSError, match="the query 'q' of the database failed"):
        answers(tmp_path / "copy.db", sql, reads)


def test_named_columns_are_read_and_counted(path: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as owner:
        owner.execute("insert into message values (1, cast(x'ff41' as text))")
    settle(path)
    copy_database(str(path), tmp_path / "copy.db", MANY)
    reads = {"Message": ("ID", "data")}
    assert answers(tmp_path / "copy.db", "select count(*), max(id) from message", reads) == [(1, 1)]
    assert answers(tmp_path / "copy.db", "select data from message", reads) == [("\ufffdA",)]


def test_copies_lie_in_a_private_folder_until_they_are_closed(path: Path, tmp_path: Path) -> None:
    copies = PrivateCopies(tmp_path / "private", MANY)
    copy = copies.of(str(path))
    assert copies.of(str(path)) == copy
    modes = [stat.S_IMODE(one.stat().st_mode) for one in (copy.parent, copy)]
    assert modes == [0o700, 0o600]
    copies.close()
    assert not (tmp_path / "private").exists()


def test_change_in_the_log_alone_is_another_state(path: Path) -> None:
    info = path.stat()
    file = FoundFile(str(path), "database", None, info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns)
    log = path.with_name("agent.db-wal")
    states = [with_log(file)]
    for data in (b"", b"a" * 100, b"a" * 200, b"b" * 200):
        log.write_bytes(data)
        os.utime(log, ns=(1, info.st_mtime_ns - 5 + len(states)))
        states.append(with_log(file))
    assert states[0] == states[1] == file
    assert len(set(states[1:])) == 4
