"""Whatever lies in the agents' folders: nothing crashes, every good record is stored once, every bad line is named."""

import json
import os
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from helix_assets.prove.verify import verify
from helix_assets.sweep.sweep_report import SweepReport
from helix_assets_tests.faults.hostile_home import HostileHome, make
from helix_assets_tests.home import Memory, can_lose_powers, swept_without_powers


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[HostileHome, Memory, SweepReport]]:
    """One hostile home and the memory made of it; the tests only look."""
    folder = tmp_path_factory.mktemp("hostile")
    home = make(folder / "home")
    memory = Memory(folder, _environ(home))
    report = memory.sweep()
    yield home, memory, report
    memory.close()


def _environ(home: HostileHome) -> dict[str, str]:
    return {
        "HOME": str(home.root),
        "CLAUDE_CONFIG_DIR": str(home.root / ".claude"),
        "CODEX_HOME": str(home.root / ".codex"),
        "GROK_HOME": str(home.root / ".grok"),
    }


def _texts(memory: Memory) -> Iterator[bytes]:
    """Every text of the store, taken out of its compression."""
    for path in memory.store.data_dir.rglob("*.parquet"):
        table = pq.ParquetFile(path).read()
        for column in (column for column in table.columns if "string" in str(column.type)):
            yield from (value.encode() for value in column.to_pylist() if isinstance(value, str))
    with closing(sqlite3.connect(memory.store.catalog.path)) as connection, connection:
        names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for name in names:
            for row in connection.execute(f"SELECT * FROM {name}"):
                yield from (value.encode() for value in row if isinstance(value, str))


def test_no_session_fails_and_the_store_is_sound(swept: tuple[HostileHome, Memory, SweepReport]) -> None:
    _, memory, report = swept
    assert (report.sessions_failed, report.digests_failed, verify(memory.store)) == (0, 0, [])


def test_every_good_record_is_stored_exactly_once(swept: tuple[HostileHome, Memory, SweepReport]) -> None:
    home, memory, _ = swept
    raw = [json.loads(line).get("raw", "") for line in memory.exported().splitlines()]
    stored = Counter(mark for text in raw for mark in home.marks if mark in text)
    assert stored == dict.fromkeys(home.marks, 1)


def test_every_bad_line_is_counted(swept: tuple[HostileHome, Memory, SweepReport]) -> None:
    home, _, report = swept
    listed = Counter(path for path, reason in report.problems if reason.startswith("line "))
    understood = {path: count for path, count in listed.items() if "nested-" not in path}
    assert understood == {str(path): min(count, 50) for path, count in home.bad_lines.items()}
    nested = sum(count for path, count in listed.items() if "nested-" in path)
    assert report.records_unparsed == sum(home.bad_lines.values()) + nested


def test_links_and_special_files_are_named_and_not_followed(swept: tuple[HostileHome, Memory, SweepReport]) -> None:
    home, _, report = swept
    skipped = {Path(path) for path, reason in report.problems if reason.startswith("skipped: it is ")}
    assert skipped >= home.skipped


def test_no_secret_is_in_any_text_of_the_store(swept: tuple[HostileHome, Memory, SweepReport]) -> None:
    home, memory, _ = swept
    texts = list(_texts(memory))
    assert len(texts) > 1000
    assert not [s for s in home.secrets if any(s.encode() in text or s.encode()[:24] in text for text in texts)]
    for path in filter(Path.is_file, memory.store.data_dir.rglob("*")):
        data = path.read_bytes()
        assert not [s for s in home.secrets if s.encode() in data or s.encode("utf-16-le") in data], path


def test_another_sweep_finds_nothing_new(swept: tuple[HostileHome, Memory, SweepReport]) -> None:
    _, memory, _ = swept
    again = memory.sweep()
    assert (again.files_changed, again.lines_read, again.bytes_written) == (0, 0, 0)


def test_a_half_line_is_stored_once_it_is_whole(swept: tuple[HostileHome, Memory, SweepReport], tmp_path: Path) -> None:
    home, _, _ = swept
    memory = Memory(tmp_path)
    line = home.record()
    for piece in (line[:40], line[40:-1], line[-1:]):
        memory.write("a", piece, append=True)
        memory.sweep()
    assert memory.exported().count(b'"raw":') == 1
    memory.close()


@pytest.mark.skipif(not can_lose_powers, reason="root reads all: needs setpriv")
def test_what_cannot_be_read_is_named_and_read_once_it_can_be(tmp_path: Path) -> None:
    home = make(tmp_path / "home")
    locked = home.write("locked.jsonl", home.records())
    folder = home.write("inside.jsonl", home.records(), folder=home.project.parent / "-locked").parent
    locked.chmod(0)
    folder.chmod(0)
    environ = _environ(home) | {"HELIX_DATA_DIR": str(tmp_path / "data")}
    before = swept_without_powers(environ)
    assert {str(locked), str(folder)} <= {problem["path"] for problem in before["problems"]}
    locked.chmod(0o600)
    folder.chmod(0o700)
    after = swept_without_powers(environ)
    assert after["lines_read"] == 6
    assert not {str(locked), str(folder)} & {problem["path"] for problem in after["problems"]}


def test_a_line_longer_than_may_be_is_left_out_and_counted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("helix_assets.agents.jsonl.MAX_LINE_BYTES", 1 << 20)
    monkeypatch.setattr("helix_assets.agents.jsonl.CHUNK_BYTES", 1 << 16)
    home, memory = HostileHome(tmp_path / "home"), Memory(tmp_path)
    long = b'{"x":"' + b"y" * (1 << 21)
    memory.write("a", home.records(), long)
    memory.sweep()
    assert memory.sweep().records_unparsed == 0  # its end is still to come
    memory.write("a", b'"}\n' + home.records(), append=True)
    report = memory.sweep()
    memory.write("a", home.records(), append=True)
    memory.sweep()
    assert (report.records_unparsed, memory.digest("claude:a")["unparsed_lines"]) == (1, 1)
    assert memory.exported().count(b'"raw":') == 9
    memory.close()


@pytest.mark.slow
def test_a_line_of_200_mb_takes_less_than_a_gib(tmp_path: Path) -> None:
    home = make(tmp_path / "home", big=True)
    environ = {**os.environ, **_environ(home), "HELIX_DATA_DIR": str(tmp_path / "data")}
    measured = (
        "import resource, subprocess, sys;"
        "subprocess.run([sys.executable, '-m', 'helix_assets', 'sweep', '--json'], stdout=2, check=True);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run([sys.executable, "-c", measured], env=environ, capture_output=True, check=True)
    assert int(done.stdout) < 1 << 20
    assert json.loads(done.stderr)["records_unparsed"] >= sum(home.bad_lines.values())
