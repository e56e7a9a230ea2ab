"""The feed has each new and revised digest once, whatever happens to its writer."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from helix_assets.ask.reading import proven_digest
from helix_assets.kaizen import feed
from helix_assets.kaizen.feed import Fed, append_news, read_feed
from helix_assets.keep.forget import forget
from helix_assets.keep.writing import writing
from helix_assets.model.errors import StoreError
from helix_assets_tests.home import Memory, conversation
from helix_assets_tests.kaizen.conftest import ONE, TWO

NOW = "2026-06-20T12:00:00.000Z"


def append(memory: Memory) -> Fed:
    with writing(memory.store, "test"):
        return append_news(memory.store, NOW)


def told(memory: Memory, after: int = 0) -> list[tuple[int, str, str]]:
    return [(e["position"], e["change"], e["session_uid"]) for e in read_feed(memory.store.data_dir, after)]


def in_parquet(memory: Memory) -> list[tuple[int, str, str]]:
    paths = sorted((memory.store.data_dir / "feed").glob("*.parquet"))
    rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
    return [(row["position"], row["change"], row["session_uid"]) for row in rows]


def grow(memory: Memory, turns: int = 1) -> None:
    start = grow.turn = getattr(grow, "turn", 10) + turns  # type: ignore[attr-defined]
    memory.write("s1", *conversation(turns, start=start % 50, session=f"a{start}"), append=True)
    memory.sweep()


def test_new_and_revised_digests_get_positions_that_grow(memory: Memory) -> None:
    assert append(memory) == Fed(position=2, new=2)
    assert append(memory) == Fed(position=2)
    grow(memory)
    assert append(memory) == Fed(position=3, revised=1)
    assert told(memory) == [(1, "new", ONE), (2, "new", TWO), (3, "revised", ONE)]
    assert in_parquet(memory) == told(memory)


def test_an_entry_holds_the_digest_of_its_time(memory: Memory) -> None:
    append(memory)
    grow(memory)
    append(memory)
    calls = [entry["digest"]["tool_calls"] for entry in read_feed(memory.store.data_dir) if entry["session_uid"] == ONE]
    assert calls == [2, 3]
    assert list(read_feed(memory.store.data_dir))[-1]["digest"] == proven_digest(memory.store, ONE)


def test_a_consumer_catches_up_once_and_only_once(memory: Memory) -> None:
    seen: list[int] = []
    for _ in range(4):
        append(memory)
        seen += [position for position, _, _ in told(memory, after=seen[-1] if seen else 0)]
        grow(memory)
    assert seen == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("killed_in", ["_write_parquets", "_note"])
def test_killed_between_two_steps_nothing_doubles_and_nothing_is_missing(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    append(memory)
    grow(memory)
    with monkeypatch.context() as broken:
        broken.setattr(feed, killed_in, lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            append(memory)
    append(memory)
    assert told(memory) == [(1, "new", ONE), (2, "new", TWO), (3, "revised", ONE)]
    assert in_parquet(memory) == told(memory)


def test_a_torn_line_is_read_by_nobody_and_written_again(memory: Memory) -> None:
    append(memory)
    (path,) = (memory.store.data_dir / "feed").glob("*.jsonl")
    with path.open("ab") as file:
        file.write(b'{"position": 3, "chan')
    assert len(told(memory)) == 2
    grow(memory)
    append(memory)
    assert told(memory, after=2) == [(3, "revised", ONE)]


def test_digests_of_lost_files_are_fed_again_under_new_positions(memory: Memory) -> None:
    append(memory)
    for path in (memory.store.data_dir / "feed").iterdir():
        path.unlink()
    append(memory)
    assert told(memory) == [(3, "new", ONE), (4, "new", TWO)]


def test_full_files_keep_only_what_nothing_newer_replaced(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "SEGMENT", 3)
    for _ in range(5):
        append(memory)
        grow(memory)
    append(memory)
    assert told(memory) == [(2, "new", TWO), (7, "revised", ONE)]
    assert in_parquet(memory) == told(memory)


def test_a_damaged_digest_is_left_out_until_it_is_mended(memory: Memory) -> None:
    with memory.store.catalog.writing() as connection:
        connection.exec_driver_sql("update digests set digest = digest || ' ' where session_uid = ?", (ONE,))
    assert append(memory) == Fed(position=1, new=1, damaged=1)
    assert told(memory) == [(1, "new", TWO)]


def test_a_damaged_line_is_named(memory: Memory) -> None:
    append(memory)
    (path,) = (memory.store.data_dir / "feed").glob("*.jsonl")
    data = path.read_bytes()
    path.write_bytes(b"?" + data[1:])
    with pytest.raises(StoreError, match=r"digests-0+1\.jsonl:1 is damaged"):
        told(memory)


def damage(memory: Memory) -> None:
    (path,) = (memory.store.data_dir / "feed").glob("*.jsonl")
    path.write_bytes(b"?" + path.read_bytes()[1:])


def test_a_damaged_feed_does_not_keep_what_is_to_be_forgotten(memory: Memory) -> None:
    append(memory)
    damage(memory)
    assert forget(memory.store, [ONE], now=memory.now).is_finished
    append(memory)
    assert told(memory) == [(3, "new", TWO)]


def test_a_damaged_feed_does_not_stop_a_sweep_by_newer_rules(memory: Memory, tmp_path: Path) -> None:
    append(memory)
    damage(memory)
    rules = '[{name = "step", pattern = "please do step [0-9]"}]'
    again = Memory(tmp_path, environ={**memory.environ, "HELIX_REDACTION_RULES": rules})
    again.sweep()
    append(again)
    assert [position for position, _, _ in told(again)] == [3, 4]
    again.close()


def everything(memory: Memory) -> bytes:
    memory.store.catalog.close()
    return b"".join(path.read_bytes() for path in memory.store.data_dir.rglob("*") if path.is_file())


def test_a_forgotten_session_leaves_the_feed_and_its_consumers_are_notified(memory: Memory) -> None:
    append(memory)
    forget(memory.store, [ONE], now=memory.now)
    entries = list(read_feed(memory.store.data_dir))
    name = entries[0]["session_uid"]
    assert [(e["position"], e["change"], e["session_uid"]) for e in entries] == [
        (1, "forgotten", name), (2, "new", TWO), (3, "forgotten", name)]  # fmt: skip
    assert entries[2]["positions"] == [1]
    assert entries[0]["digest"] is None
    assert in_parquet(memory) == told(memory)
    assert b"claude:s1" not in everything(memory)
    assert append(memory).position == 3


def test_newer_rules_reach_every_entry_and_positions_stay(memory: Memory, tmp_path: Path) -> None:
    append(memory)
    rules = '[{name = "step", pattern = "please do step [0-9]"}]'
    again = Memory(tmp_path, environ={**memory.environ, "HELIX_REDACTION_RULES": rules})
    again.sweep()
    entries: list[dict[str, Any]] = list(read_feed(again.store.data_dir))
    assert [entry["position"] for entry in entries] == [1, 2]
    assert "please do step" not in json.dumps(entries)
    assert b"please do step" not in b"".join(p.read_bytes() for p in (again.store.data_dir / "feed").iterdir())
    again.close()


def test_files_are_private(memory: Memory) -> None:
    append(memory)
    folder = memory.store.data_dir / "feed"
    assert {oct(os.stat(path).st_mode & 0o777) for path in folder.iterdir()} == {"0o600"}
    assert os.stat(folder).st_mode & 0o777 == 0o700
