"""Texts that hold many sessions: cut into blocks, read on in the middle, the last block only once it is whole."""

from __future__ import annotations

import itertools
import json
import os
import tracemalloc
from datetime import timedelta
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helix_assets.agents.cutting import Cut, Cutting
from helix_assets.ask.status import read_status
from helix_assets.keep.forget import forget
from helix_assets.prove.doctor import examine
from helix_assets.prove.verify import verify
from helix_assets.sweep.look import scan
from helix_assets_tests.agents.twins import Told, TwinAdapter, both, make_told
from helix_assets_tests.home import NOW, Memory, conversation, cut, prompt

told = make_told  # the fixture


def text(*sessions: str) -> bytes:
    """Two blocks of each of these sessions, in turn."""
    blocks = [
        f'=== {name} /home/u/{name}\n--- {n}\n{{\n"n": "{n} é "}}\n\n--- {n}b\n{{}}\n'
        for n, name in enumerate(sessions)
    ]
    return "".join(blocks).encode()


def cuts(data: bytes, *, is_over: bool = True) -> list[Cut]:
    return list(Cutting(BytesIO(data).read, TwinAdapter().splitter("x", None), is_over=is_over))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 400), max_size=5))
def test_text_cut_at_any_places_comes_to_the_same_blocks(places: list[int]) -> None:
    data = text("one", "two", "one", "three")
    whole = cuts(data)
    offset, line, state, found = 0, 1, None, list[Cut]()
    for end in [*itertools.accumulate(map(len, cut(data, places)))]:
        read = BytesIO(data[offset:end]).read
        cutting = Cutting(read, TwinAdapter().splitter("x", state), offset, line, is_over=False)
        found += cutting
        offset, line, state = cutting.offset, cutting.line, cutting.state
    assert found == whole[:-1]
    assert (offset, line) == (whole[-1].offset, whole[-1].line)
    for one in whole:
        assert data[one.offset :].startswith((b"=== ", b"--- "))
        assert data[: one.offset].count(b"\n") + 1 == one.line
    assert [one.end for one in whole] == [*(one.offset for one in whole[1:]), len(data)]


def test_last_block_is_given_only_once_it_is_over() -> None:
    data = text("one")
    assert [len(cuts(data, is_over=over)) for over in (False, True)] == [1, 2]


@pytest.fixture
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets blocks have 20,000 bytes, and reads 1,000 at once."""
    monkeypatch.setattr("helix_assets.agents.cutting.MAX_BLOCK_BYTES", 20_000)
    monkeypatch.setattr("helix_assets.agents.cutting.CHUNK_BYTES", 1_000)


def test_only_the_open_block_is_in_memory(small_limits: None) -> None:
    lines = (
        line
        for n in range(200)
        for line in (b"--- %d\n" % n, *itertools.repeat(b"some text\n" * 100, 1_000 if n == 100 else 10))
    )
    tracemalloc.start()
    ends = [cut.end for cut in Cutting(lambda _: next(lines, b""), TwinAdapter().splitter("x", None), is_over=True)]
    held = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (len(ends), ends[-1] > 2_000_000, held < 500_000) == (200, True, True)


def test_text_beyond_the_limit_is_read_at_once(told: type[Told], small_limits: None) -> None:
    home, once = told("text"), told("lines")
    home.sweep(both(100, 60))
    once.sweep(both(100, 60))
    assert (home.folder / "agent.md").stat().st_size > 5 * 20_000
    assert home.logical() == once.logical()
    assert not verify(home.memory.store)


@pytest.mark.parametrize("ending", ["", "\n"])
def test_a_block_that_is_too_long_is_counted_and_the_rest_is_read(
    told: type[Told], small_limits: None, ending: str
) -> None:
    home = told("text")
    home.say({"one": conversation(2, session="a"), "two": [prompt("q1", "11:00:00", "go", cwd="/home/u/b")]})
    path = home.folder / "agent.md"
    start, middle, end = path.read_text().partition("=== two")
    path.write_text(f"{start}=== three /home/u/c\n--- long\n{'x' * 50_000}{ending}{'y' * 9}\n{middle}{end}")
    age(home, 100)
    report = home.memory.sweep()
    assert [(Path(where).name, what) for where, what in report.problems] == [
        ("agent.md#three", f"line {start.count(chr(10)) + 1}: longer than a block may be; not stored")
    ]
    assert (counted(home), counted(home, "two")) == (8, 1)
    shown = [one.reason for one in read_status(home.memory.store).trouble.problems]
    assert shown == ["longer than a block may be; not stored"]
    found = [one.what for one in examine(home.memory.now, home.memory.variables) if one.check == "sources"]
    assert found == ["1 places in logs could not be read; `helix status` names the newest and why"]
    path.write_text(f"{path.read_text()}--- more\n{prompt('more', '12:00:00', 'go on').decode()}")
    age(home, 90)
    assert home.memory.sweep().problems == []
    assert counted(home, "two") == 2


def test_a_last_block_that_is_too_long_is_counted_once_it_is_complete(told: type[Told], small_limits: None) -> None:
    home = told("text")
    home.say({"one": conversation(2, session="a")})
    path = home.folder / "agent.md"
    for _ in range(2):
        path.write_text(f"{path.read_text()}{'--- long' if 'long' not in path.read_text() else ''}\n{'x' * 50_000}\n")
        age(home, 100)
        report = home.memory.sweep()
        assert ["may still grow" in what for _, what in report.problems] == [True]
        assert report.records_unparsed == 0
    path.write_text(f"{path.read_text()}--- more\n{prompt('more', '12:00:00', 'go on').decode()}")
    age(home, 90)
    assert home.memory.sweep().records_unparsed == 1
    assert home.memory.digest("twin:one")["unparsed_lines"] == 1
    assert counted(home) == 9


def age(home: Told, seconds: float) -> None:
    """Have the text have been written so long ago."""
    ns = int((home.memory.now.timestamp() - seconds) * 1e9)
    os.utime(home.folder / "agent.md", ns=(ns, ns))


def counted(home: Told, session: str = "one") -> int:
    return int(home.memory.digest(f"twin:{session}")["record_count"])


def test_last_block_waits_until_the_text_rests(told: type[Told]) -> None:
    home = told("text")
    home.say({"one": conversation(2, session="a")})
    age(home, 5)
    home.memory.sweep()
    assert counted(home) == 7
    assert (scan(home.memory.store, NOW).changes.changed, home.memory.sweep().files_changed) == ((), 0)
    home.memory.now = NOW + timedelta(minutes=2)
    assert len(scan(home.memory.store, home.memory.now).changes.changed) == 1
    home.memory.sweep()
    assert counted(home) == 8
    assert scan(home.memory.store, home.memory.now).changes.changed == ()
    assert not verify(home.memory.store)


def test_text_that_grows_is_read_on_where_it_ended(told: type[Told]) -> None:
    home, once = told("text"), told("lines")
    for turns in (20, 21, 22):
        home.say({"one": conversation(turns, session="a")})
        age(home, 5)
        report = home.memory.sweep()
    assert (report.lines_read, counted(home)) == (4, 22 * 4 - 1)
    assert len(home.memory.parts("twin:one")) == 3
    age(home, 100)
    home.memory.sweep()
    once.sweep({"one": conversation(22, session="a")})
    assert home.logical() == once.logical()
    assert not verify(home.memory.store)


def test_sessions_that_take_turns_in_a_text_are_told_apart(told: type[Told]) -> None:
    home, once = told("text"), told("lines")
    for turns, others in ((1, 1), (1, 2), (2, 2), (3, 4)):
        home.say(both(turns, others))
        age(home, 5)
        home.memory.sweep()
    age(home, 100)
    home.memory.sweep()
    once.sweep(both(3, 4))
    assert home.logical() == once.logical()
    assert (home.folder / "agent.md").read_text().count("=== ") == 4
    assert not verify(home.memory.store)


def test_only_the_session_that_grew_is_read(told: type[Told]) -> None:
    home = told("text")
    home.say(both(2))
    age(home, 5)
    home.memory.sweep()
    home.say(both(2, 3))
    age(home, 3)
    report = home.memory.sweep()
    assert (report.touched, report.files_opened) == ({"twin:two"}, 1)


def test_block_that_goes_on_after_a_rest_counts_once(told: type[Told]) -> None:
    home = told("text")
    home.say({"one": conversation(1, session="a")})
    path = home.folder / "agent.md"
    whole = path.read_text()
    record = json.loads(conversation(1, session="a")[-1])
    record["message"]["usage"]["output_tokens"] = 3
    start = whole.rindex("--- ")
    path.write_text(f"{whole[:start]}--- {record['uuid']}\n{json.dumps(record)}\n")
    age(home, 100)
    home.memory.sweep()
    before = home.memory.digest("twin:one")
    path.write_text(whole)
    age(home, 90)
    home.memory.sweep()
    after = home.memory.digest("twin:one")
    assert (before["record_count"], after["record_count"]) == (4, 4)
    assert after["tokens"]["output"] - before["tokens"]["output"] == 10 - 3


def test_session_whose_place_is_only_known_from_earlier_blocks_stays_excluded(told: type[Told]) -> None:
    home = told("text", HELIX_EXCLUDE_PATHS="/home/u/shop")
    for turns in (1, 2, 3):
        home.say({"one": conversation(turns, session="a")})
        age(home, 5)
        home.memory.sweep()
    assert home.logical() == []


def test_session_in_the_middle_stays_excluded_when_other_exclusions_come(told: type[Told]) -> None:
    home = told("text", HELIX_EXCLUDE_PATHS="/home/u/hidden")
    hidden = [prompt("q1", "11:00:00", "hidden", cwd="/home/u/hidden")]
    home.say({"two": hidden, "one": conversation(2, session="a")})
    age(home, 5)
    home.memory.sweep()
    first = home.memory
    more = {**first.environ, "HELIX_EXCLUDE_PATHS": "/home/u/hidden,/home/u/other"}
    home.memory = Memory(first.folder, more)
    home.memory.sweep()
    first.close()
    assert {one["session_uid"] for one in home.logical()} == {"twin:one"}


@pytest.mark.parametrize("seconds", [5, 100])
def test_text_that_was_cut_and_goes_on_counts_what_is_new(told: type[Told], seconds: int) -> None:
    home = told("text")
    home.say(both(3))
    age(home, seconds)
    home.memory.sweep()
    (home.folder / "agent.md").write_text("")
    home.say({"one": conversation(4, session="a")[12:]})
    age(home, 100)
    home.memory.sweep()
    assert counted(home) == 16
    assert counted(home, "two") == (8 if seconds == 100 else 7)  # its last block was gone before it was whole
    assert not verify(home.memory.store)


def cursors(home: Told) -> str:
    """All that the catalog holds of the files of this home."""
    with home.memory.store.catalog.reading() as connection:
        return str(connection.tuples("SELECT * FROM sources"))


def test_where_reading_stopped_holds_no_secret(told: type[Told]) -> None:
    token = "ghp_A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"
    home = told("text")
    home.say({"one": [prompt(f"q{n}", f"11:0{n}:00", "go", cwd=f"/home/u/{token}/x") for n in range(3)]})
    age(home, 100)
    home.memory.sweep()
    assert counted(home) == 3
    assert "redacted:" in cursors(home)
    assert token not in cursors(home)


@pytest.mark.parametrize("seconds", [5, 100])
def test_where_reading_stopped_names_no_forgotten_session(told: type[Told], seconds: int) -> None:
    home = told("text")
    home.say({"one": conversation(2, session="a"), "two": [prompt("q1", "11:00:00", "go", cwd="/home/u/private")] * 2})
    age(home, seconds)
    home.memory.sweep()
    forget(home.memory.store, ["twin:two"], now=home.memory.now)
    assert "private" not in cursors(home)
    home.memory.now += timedelta(minutes=5)
    home.memory.sweep()
    assert "private" not in cursors(home)
    assert counted(home) == 8
    assert not verify(home.memory.store)


@pytest.mark.parametrize("seconds", [5, 100])
@pytest.mark.parametrize("kind", ["text", "database"])
def test_excluded_session_is_named_nowhere(told: type[Told], kind: str, seconds: int) -> None:
    home = told(kind, HELIX_EXCLUDE_PATHS="/home/u/private")
    hidden = [prompt(f"q{n}", "11:00:00", "go", cwd="/home/u/private/inner") for n in range(3)]
    for turns in (1, 2):  # the last block follows one of the excluded session
        home.say({"secretive": hidden[: turns + 1], "one": conversation(turns, session="a")})
        if kind == "text":
            age(home, seconds)
        report = home.memory.sweep()
        assert report.files_excluded == 1
    assert counted(home) in (7, 8)
    names = [path for path in home.memory.store.data_dir.rglob("*") if path.is_file()]
    assert any(path.name == "helix.db" for path in names)
    for path in names:
        assert b"secretive" not in path.read_bytes()
        assert b"private/inner" not in path.read_bytes()


def test_session_that_is_no_longer_excluded_is_read_without_news(told: type[Told]) -> None:
    for kind in ("text", "database"):
        home = told(kind, HELIX_EXCLUDE_PATHS="/home/u/private")
        home.say({"two": [prompt("q1", "11:00:00", "go", cwd="/home/u/private")], "one": conversation(2, session="a")})
        if kind == "text":
            age(home, 100)
        first = home.memory
        first.sweep()
        home.memory = Memory(first.folder, {**first.environ, "HELIX_EXCLUDE_PATHS": "/home/u/other"})
        home.memory.sweep()
        first.close()
        assert (counted(home), counted(home, "two")) == (8, 1)
        assert scan(home.memory.store, home.memory.now).changes.changed == ()
