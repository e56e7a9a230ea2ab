"""The walk through the agents' folders: trouble at one place is named there, and everything else is swept."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from helix_assets.agents import ADAPTERS
from helix_assets.agents.codex.adapter import CodexAdapter
from helix_assets.model.changes import changed_sources
from helix_assets.model.errors import Problem
from helix_assets.store.catalog import sessions
from helix_assets_tests.home import Memory, ask, can_lose_powers, conversation, swept_without_powers, without_powers

DESKTOP = "local-agent-mode-sessions"
# Every place of the three trees that is looked at: what a listing names, and the folders that are asked for by name.
LISTED = [
    "claude/projects/x",
    "claude/projects/p/x",
    "claude/projects/p/x.jsonl",
    "claude/projects/p/s/subagents/workflows",
    "claude/projects/p/s/subagents/agent-1.jsonl",
    "claude/projects/p/s/subagents/workflows/x",
    "claude/projects/p/s/subagents/workflows/run/journal.jsonl",
    f"{DESKTOP}/x",
    f"{DESKTOP}/a/x",
    f"{DESKTOP}/a/local_1",
    f"{DESKTOP}/a/local_1/.claude/projects/x",
    "codex/sessions/x",
    "codex/sessions/2026/06/x",
    "codex/sessions/2026/06/05/rollout-x.jsonl",
    "grok/sessions/x",
    "grok/sessions/%2Fx/x",
    "grok/sessions/%2Fx/s/updates.jsonl",
]
ASKED_FOR = [
    "claude/projects/p/s/subagents",
    f"{DESKTOP}/a/local_1/.claude/projects",
    "codex/sessions",
    "codex/archived_sessions",
    "grok/sessions",
]


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """A home with one good session."""
    memory = Memory(tmp_path, {"HELIX_CLAUDE_ROOTS": f"{tmp_path}/home/{DESKTOP}"})
    memory.write("good", *conversation(1))
    yield memory
    memory.close()


def is_swept(memory: Memory) -> bool:
    return "claude:good" in ask(memory.store, sessions.by_uid, ["claude:good"])


@pytest.mark.parametrize("place", LISTED + ASKED_FOR)
def test_looping_link_is_named_and_stops_nothing(memory: Memory, place: str) -> None:
    loop = memory.link(place, memory.folder / "home" / place)
    assert memory.sweep().problems == [(str(loop), "skipped: it is a link")]
    assert is_swept(memory)


@pytest.mark.parametrize("code", [errno.ELOOP, errno.EACCES, errno.ESTALE, errno.ENAMETOOLONG, errno.EIO])
@pytest.mark.parametrize("place", LISTED)
def test_entry_that_cannot_be_examined_is_named_and_stops_nothing(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, place: str, code: int
) -> None:
    """As on a file system that gives names without types, whose server has gone: each question is an error."""
    at = str(memory.put(place, b""))
    plant(monkeypatch, lambda path: code if path == at else None)
    assert memory.sweep().problems == [(at, f"cannot be examined: {os.strerror(code)}")]
    assert is_swept(memory)


@pytest.mark.parametrize("place", sorted({*map(os.path.dirname, LISTED), *ASKED_FOR} - {"claude/projects/p/s"}))
def test_folder_whose_listing_breaks_off_is_named_and_what_was_listed_counts(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    folder = memory.put(f"{place}/last", b"").parent
    plant(monkeypatch, lambda path: None, breaks=str(folder))
    assert memory.sweep().problems == [(str(folder), f"folder cannot be read: {os.strerror(errno.ESTALE)}")]
    assert is_swept(memory)


class Unsteady:
    """An entry of a folder on a file system that fails where it is told to."""

    def __init__(self, entry: os.DirEntry[str], code: int | None) -> None:
        self._entry, self._code = entry, code
        self.name, self.path = entry.name, entry.path

    def _asked(self) -> os.DirEntry[str]:
        if self._code is not None:
            raise OSError(self._code, os.strerror(self._code), self.path)
        return self._entry

    def is_symlink(self) -> bool:
        return self._asked().is_symlink()

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._asked().is_dir(follow_symlinks=follow_symlinks)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        return self._asked().stat(follow_symlinks=follow_symlinks)


class Listing:
    """What such a file system lists of a folder; it may break off at the end."""

    def __init__(self, entries: list[Unsteady], breaks: bool) -> None:
        self._entries, self._breaks = entries, breaks

    def __enter__(self) -> Iterator[Unsteady]:
        yield from self._entries
        if self._breaks:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    def __exit__(self, *_: object) -> None:
        pass


def plant(monkeypatch: pytest.MonkeyPatch, code_at: Callable[[str], int | None], breaks: str = "") -> None:
    scandir = os.scandir

    def unsteady(folder: str) -> Listing:
        with scandir(folder) as found:
            return Listing([Unsteady(entry, code_at(entry.path)) for entry in found], folder == breaks)

    monkeypatch.setattr("helix_assets.agents.walk.os", SimpleNamespace(**{**vars(os), "scandir": unsteady}))


def test_link_to_a_file_or_to_nothing_is_no_problem(memory: Memory) -> None:
    memory.link("claude/projects/latest", memory.path("good"))
    memory.link("claude/projects/nowhere", "absent")
    assert memory.sweep().problems == []


def test_names_that_are_not_utf8_are_spelled_out(memory: Memory) -> None:
    for place in (b"claude/projects", b"codex/sessions", b"grok/sessions/%2Fx"):
        memory.link(place + b"/\xff\xfeloop", os.fsdecode(b"\xff\xfeloop"))
    report = memory.sweep()
    assert [path.rpartition("/")[2] for path, _ in report.problems] == ["\\xff\\xfeloop"] * 3
    assert is_swept(memory)


def test_link_to_a_name_that_is_too_long_is_named(memory: Memory) -> None:
    link = memory.link("claude/projects/long", "n" * 300)
    assert memory.sweep().problems == [(str(link), "skipped: it is a link")]
    assert is_swept(memory)


def test_folder_whose_path_is_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made step by step: as a whole no system call takes its path."""
    root = tmp_path.joinpath(*["r" * 240] * 12)
    (root / "sessions").mkdir(parents=True)
    monkeypatch.chdir(root / "sessions")
    for _ in range(5):
        os.mkdir("s" * 240)
        os.chdir("s" * 240)
    problems: list[Problem] = []
    assert list(CodexAdapter().discover(str(root), problems)) == []
    assert [problem.reason for problem in problems] == ["folder cannot be read: File name too long"]


@pytest.mark.skipif(not can_lose_powers, reason="root reads all: needs setpriv")
def test_links_into_folders_without_permission_are_named(memory: Memory) -> None:
    locked = memory.folder / "locked"
    (locked / "inside").mkdir(parents=True)
    places = ("claude/projects/x", "codex/sessions/x", "grok/sessions/x")
    links = [str(memory.link(place, locked / "inside")) for place in places]
    locked.chmod(0)
    report = swept_without_powers(memory.variables)
    locked.chmod(0o700)
    assert sorted((one["path"], one["reason"]) for one in report["problems"]) == [
        (link, "skipped: it is a link") for link in links
    ]
    assert is_swept(memory)


@pytest.mark.skipif(not can_lose_powers, reason="root reads all: needs setpriv")
@pytest.mark.parametrize("command", ["config", "doctor"])
def test_home_of_an_agent_in_a_folder_without_permission_ends_no_command(memory: Memory, command: str) -> None:
    locked = memory.folder / "locked"
    (locked / "grok" / "sessions").mkdir(parents=True)
    locked.chmod(0)
    done = without_powers(memory.variables | {"GROK_HOME": str(locked / "grok")}, command)
    locked.chmod(0o700)
    assert done.returncode in (0, 1)
    assert b"claude" in done.stdout


# -- what nobody could look at is not gone ---------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["the log", "its folder", "the folder above"])
def test_nothing_counts_as_gone_where_nobody_could_look(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    memory.put("claude/projects/p/caf\udce9.jsonl", b"".join(conversation(1, session="x")))  # its path is hidden
    memory.sweep()
    log = memory.path("good")
    place = {"the log": log, "its folder": log.parent, "the folder above": log.parents[1]}[what]
    plant(monkeypatch, lambda path: errno.ESTALE if path == str(place) else None, breaks=str(place))
    report = memory.sweep()
    assert (len(report.problems), report.files_gone) == (1, 0)
    monkeypatch.undo()
    assert (memory.sweep().files_changed, memory.sweep().problems) == (0, [])


def test_log_deleted_while_it_is_examined_is_gone_and_no_problem(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.sweep()
    log = str(memory.path("good"))
    plant(monkeypatch, lambda path: errno.ENOENT if path == log else None)
    report = memory.sweep()
    assert (report.problems, report.files_gone) == ([], 1)


def test_place_itself_and_what_is_under_it_are_not_gone() -> None:
    known = dict.fromkeys(("/a/x", "/a/x/y", "/a/xy", "/b"), (1, 1, 1, 1))
    assert changed_sources({}, known, (), ["/a/x"]).gone == ("/a/xy", "/b")


# -- adapters that fail ----------------------------------------------------------------------------------------------


def test_adapter_that_raises_ends_the_walk_of_its_root_alone(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(root: str, problems: list[object]) -> Iterator[object]:
        yield None

    monkeypatch.setattr(ADAPTERS["grok"], "discover", failing, raising=True)
    report = memory.sweep()
    root = memory.folder / "home" / "grok"
    assert report.problems == [(str(root), "folder cannot be read: TypeError in the adapter")]
    assert is_swept(memory)


def test_log_whose_first_lines_an_adapter_trips_over_is_named_and_tried_again(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = memory.put("codex/sessions/rollout-x.jsonl", b'{"timestamp":"2026-06-05T10:00:00Z","type":"x"}\n')
    monkeypatch.setattr(ADAPTERS["codex"], "native_id_from_head", lambda *_: 1 / 0)
    reason = "its first lines cannot be understood: ZeroDivisionError"
    assert [memory.sweep().problems for _ in range(2)] == [[(str(log), reason)]] * 2
    assert is_swept(memory)
    monkeypatch.undo()
    assert memory.sweep().problems == []
    assert memory.row("codex:x")


def test_log_of_a_server_that_is_gone_is_named(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be opened, and that is all."""
    log = memory.path("good")
    number, fstat = log.stat().st_ino, os.fstat

    def stale(fd: int) -> os.stat_result:
        info = fstat(fd)
        if info.st_ino == number:
            raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))
        return info

    monkeypatch.setattr(os, "fstat", stale)
    assert memory.sweep().problems == [(str(log), f"cannot be examined: {os.strerror(errno.ESTALE)}")]
    monkeypatch.undo()
    memory.sweep()
    assert is_swept(memory)
