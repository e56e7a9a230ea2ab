"""The texts of records go before the light rows of their events: crash-safe, with a reason of its own, and for good."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helix_assets.agents.claude.adapter import ClaudeAdapter
from helix_assets.ask.reading import open_session
from helix_assets.keep import evict, lighten
from helix_assets.keep.evict import Evicted
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.model.errors import DiskFullError
from helix_assets.prove.promises import every_evicted_session_has_a_covering_digest_or_a_loss_record
from helix_assets.prove.verify import verify
from helix_assets.store import parquet
from helix_assets.store.catalog import meta
from helix_assets_tests.home import NOW, Memory, answer, conversation, prompt, rows_of

UID = "claude:old"
LONG = "xylograph " * 400


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """An old session with long texts, and a newer one; no index that takes a part of the caps."""
    memory = Memory(tmp_path, {"HELIX_SEARCH_INDEX": "off"})
    memory.write("old", prompt("p", "09:00:00", "begin"), answer("x", "09:00:01", LONG, message="m"), *conversation(3))
    memory.sweep()
    memory.write("new", *conversation(3, session="n"))
    memory.sweep()
    yield memory
    memory.close()


def lightened(memory: Memory) -> Evicted:
    """Evict so much that the texts of the old session are enough."""
    usage = memory.raw_usage()
    return evict.apply(memory.store, clock=lambda: NOW, policy=RetentionPolicy(usage - 1, 1 << 40, 45, 1 << 40))


def texts(memory: Memory, uid: str = UID) -> list[bytes]:
    with open_session(memory.store, uid) as session:
        return [row.raw for row in session.rows(raw=True) if row.raw is not None]


def rows(memory: Memory, uid: str = UID) -> list[Any]:
    with open_session(memory.store, uid) as session:
        return [row._replace(raw=None) for row in session.rows(raw=False)]


def test_texts_go_and_rows_stay(memory: Memory) -> None:
    before, digest = rows(memory), memory.digest(UID)
    (gone,) = lightened(memory).gone
    assert (gone.session_uid, gone.reason, gone.keeps_rows) == (UID, "raw_over_soft_cap", True)
    assert (texts(memory), rows(memory), memory.digest(UID)) == ([], before, digest)
    assert verify(memory.store) == []


def test_bytes_freed_are_those_on_disk(memory: Memory) -> None:
    before = memory.raw_usage()
    done = lightened(memory)
    on_disk = sum(memory.store.raw.path(name).stat().st_size for name in memory.store.raw.names())
    assert before - done.bytes_freed == done.usage_after == on_disk
    (gone,) = rows_of(memory.store, "evictions")
    assert (gone.reason, gone.bytes) == ("raw_over_soft_cap", done.bytes_freed)


def test_no_byte_of_the_texts_is_left(memory: Memory) -> None:
    def says() -> list[Path]:
        files = [path for path in memory.store.data_dir.rglob("*") if path.is_file()]
        return [path for path in files if b"xylograph " * 30 in path.read_bytes() or LONG in unpacked(path)]

    assert says()
    lightened(memory)
    assert says() == []


def unpacked(path: Path) -> str:
    if path.suffix != ".parquet" or path.parts[-4] != "raw":
        return ""
    return "".join((row.raw or b"").decode() for row in parquet.read_rows([path], raw=True))


def test_next_eviction_takes_the_light_rows(memory: Memory) -> None:
    lightened(memory)
    evict.apply(memory.store, clock=lambda: NOW, policy=RetentionPolicy(1, 1 << 40, 45, 1 << 40))
    assert list(memory.store.raw.names()) == []
    assert verify(memory.store) == []


def test_doing_it_again_frees_nothing_more(memory: Memory) -> None:
    policy = RetentionPolicy(memory.raw_usage() - 1, 1 << 40, 45, 1 << 40)
    assert evict.apply(memory.store, clock=lambda: NOW, policy=policy).gone
    assert evict.apply(memory.store, clock=lambda: NOW, policy=policy).gone == ()


def test_unchanged_log_brings_no_text_back(memory: Memory) -> None:
    lightened(memory)
    memory.path("old").touch()
    memory.sweep()
    assert texts(memory) == []


@pytest.fixture
def undisturbed(tmp_path: Path) -> Iterator[Memory]:
    plain = Memory(tmp_path / "plain")
    yield plain
    plain.close()


def grown(memory: Memory) -> None:
    memory.write("old", *conversation(2, start=5), append=True)
    memory.sweep()


def plain(row: Any) -> Any:
    """A row without what is keyed by the store's own key."""
    return row._replace(record_key=0, input_hash=None)


def test_growth_adds_its_texts_alone_and_counts_all(memory: Memory, undisturbed: Memory) -> None:
    lightened(memory)
    grown(memory)
    undisturbed.write("old", memory.path("old").read_bytes())
    undisturbed.sweep()
    assert len(texts(memory)) == 8
    assert [plain(row) for row in rows(memory)] == [plain(row) for row in rows(undisturbed)]
    own = ("coverage", "signals", "source_path")
    kept = {name: value for name, value in memory.digest(UID).items() if name not in own}
    assert kept == {name: value for name, value in undisturbed.digest(UID).items() if name not in own}
    assert verify(memory.store) == []


def test_grown_session_is_lightened_again(memory: Memory) -> None:
    lightened(memory)
    grown(memory)
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE sessions SET analyze_order = 0 WHERE session_uid = ?", (UID,))
    lightened(memory)
    assert texts(memory) == []
    assert verify(memory.store) == []


def outdate(memory: Memory, **values: int) -> None:
    with memory.store.catalog.writing() as connection:
        connection.update("sessions", values, "session_uid = ?", UID)
        meta.put(connection, "settled", "by older rules")


def test_new_digest_rules_reach_light_rows_whose_log_is_gone(memory: Memory) -> None:
    lightened(memory)
    memory.path("old").unlink()
    before = memory.digest(UID)
    outdate(memory, derivation_version=0)
    report = memory.sweep()
    after = memory.digest(UID)
    assert (report.digests_written, after.pop("coverage")["events"]) == (1, before.pop("coverage")["events"])
    assert after == before


def test_new_parser_reads_the_log_where_it_is_there(memory: Memory) -> None:
    lightened(memory)
    before = rows(memory)
    outdate(memory, parser_version=0)
    memory.sweep()
    assert memory.row(UID).parser_version == ClaudeAdapter.version
    assert (rows(memory), texts(memory)) == (before, [])


def test_what_a_new_parser_cannot_read_again_stays_evictable(memory: Memory) -> None:
    lightened(memory)
    memory.path("old").unlink()
    before = memory.digest(UID)
    outdate(memory, parser_version=0)
    memory.sweep()
    made = evict.plan(memory.store, now=NOW, policy=RetentionPolicy(1, 1 << 40, 45, 1 << 40))
    assert (memory.digest(UID), len(made.goes)) == (before, 2)


def test_damaged_file_goes_whole_and_not_under_a_new_hash(memory: Memory) -> None:
    path = memory.store.raw.path(memory.parts(UID)[0].name)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    (gone,) = lightened(memory).gone
    assert (gone.reason, path.exists()) == ("over_soft_cap", False)
    assert verify(memory.store) == []


@pytest.mark.parametrize(
    ("step", "error"),
    [
        ("store.parquet.copy_without_texts", OSError(28, "No space left on device")),
        ("keep.lighten.sync", OSError(28, "No space left on device")),
        ("keep.lighten._named", DiskFullError("the disk is full")),
    ],
)
def test_full_disk_lets_whole_files_go(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception
) -> None:
    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr(f"helix_assets.{step}", full)
    assert [one.reason for one in lightened(memory).gone] == ["over_soft_cap"]
    assert verify(memory.store) == []


class Killed(BaseException):
    """Stands for a kill."""


@pytest.mark.parametrize("step", ["sync", "_named", "_remove"])
def test_killed_at_any_step_it_is_only_a_pause(memory: Memory, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    def die(*_: Any, **__: Any) -> None:
        raise Killed

    digest = memory.digest(UID)
    with monkeypatch.context() as patch:
        patch.setattr(lighten, step, die)
        with pytest.raises(Killed):
            lightened(memory)
    memory.sweep()
    assert verify(memory.store) == []
    assert (memory.digest(UID), len(texts(memory))) == (digest, 0 if step == "_remove" else 14)
    assert len(list(memory.store.raw.names())) == 2


def test_texts_that_went_before_a_digest_covered_them_break_the_promise(memory: Memory) -> None:
    lightened(memory)
    assert (verify(memory.store), every_evicted_session_has_a_covering_digest_or_a_loss_record(memory.store).holds) == (
        [],
        True,
    )
    with memory.store.catalog.writing() as connection:
        connection.execute("UPDATE evictions SET generation = generation + 1")
    assert {violation.check for violation in verify(memory.store)} == {"evicted_was_covered"}
    assert not every_evicted_session_has_a_covering_digest_or_a_loss_record(memory.store).holds
