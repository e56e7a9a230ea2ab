"""A rollout that Codex packs (`.jsonl.zst`) goes on telling what it told: the same records, nothing twice or lost."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from helix_assets.core.retention import RetentionPolicy
from helix_assets.evict import apply
from helix_assets.verify import verify
from helix_assets_tests.adapters.reading import FIXTURES
from helix_assets_tests.memory import Memory, cut

NAME = "rollout-2025-09-25T12-00-00-01998000-0000-7000-8000-000000000040.jsonl"
PLACE = f"codex/sessions/2025/09/25/{NAME}"
LOG = (FIXTURES / "codex" / "shell-0.40" / PLACE.removeprefix("codex/")).read_bytes()
UID = "codex:01998000-0000-7000-8000-000000000040"


@pytest.fixture
def memory(tmp_path: Path):
    made = Memory(tmp_path)
    yield made
    made.close()


def plain(folder: Path) -> bytes:
    """The export of a memory that met the rollout whole and unpacked."""
    fresh = Memory(folder)
    fresh.put(PLACE, LOG)
    fresh.sweep()
    exported = fresh.exported()
    fresh.close()
    return exported


def pack(memory: Memory, place: str = PLACE, to: str | None = None) -> Path:
    path = memory.folder / "home" / place
    packed = memory.put((to or place) + ".zst", zstandard.compress(path.read_bytes()))
    path.unlink()
    return packed


def test_packed_rollout_tells_what_the_plain_one_told(memory: Memory, tmp_path: Path):
    memory.put(PLACE + ".zst", zstandard.compress(LOG))
    memory.sweep()
    assert memory.exported() == plain(tmp_path / "plain")
    assert memory.sweep().files_changed == 0


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(places=st.lists(st.integers(0, 10_000), max_size=4), packed_at=st.integers(0, 5), frames=st.booleans())
def test_packed_between_any_two_sweeps_it_tells_nothing_twice(places: list[int], packed_at: int, frames: bool):
    """Grown in pieces, packed after any of them; what comes behind may be a frame of its own."""
    with tempfile.TemporaryDirectory() as folder:
        memory = Memory(Path(folder) / "split")
        said = b""
        for number, piece in enumerate(cut(LOG, places)):
            said += piece
            if number < packed_at:
                memory.put(PLACE, piece, append=True)
            elif number > packed_at and frames:
                memory.put(PLACE + ".zst", zstandard.compress(piece), append=True)
            else:
                memory.put(PLACE + ".zst", zstandard.compress(said))
                (memory.folder / "home" / PLACE).unlink(missing_ok=True)
            memory.sweep()
        assert memory.exported() == plain(Path(folder) / "plain")
        assert not verify(memory.store)
        memory.close()


def test_rollout_that_is_archived_and_packed_is_the_same_one(memory: Memory, tmp_path: Path):
    memory.put(PLACE, LOG)
    memory.sweep()
    pack(memory, to=f"codex/archived_sessions/{NAME}")
    report = memory.sweep()
    assert (report.files_gone, memory.digest(UID)["record_count"]) == (1, LOG.count(b"\n"))
    assert memory.exported() == plain(tmp_path / "plain")


def test_evicted_rollout_that_is_packed_is_not_stored_again(memory: Memory):
    memory.put(PLACE, LOG)
    memory.sweep()
    before = memory.digest(UID)
    apply(memory.store, clock=lambda: memory.now, policy=RetentionPolicy(1, 2, 45, 1 << 30))
    pack(memory)
    report = memory.sweep()
    assert (report.problems, memory.store.catalog.raw_usage()) == ([], 0)
    assert memory.digest(UID)["tokens"] == before["tokens"]


@pytest.mark.parametrize(
    ("packed", "reason"),
    [
        (b"not packed at all", "reading failed: it cannot be decompressed"),
        (zstandard.compress(LOG) + b"and more", "reading failed: it cannot be decompressed"),
    ],
)
def test_damaged_packed_file_is_named_and_stops_nothing(memory: Memory, packed: bytes, reason: str):
    memory.put(PLACE + ".zst", packed)
    memory.put("codex/sessions/rollout-good.jsonl", LOG.replace(b"01998000", b"01998001"))
    memory.sweep()
    with memory.store.catalog.reading() as connection:
        said = list(connection.exec_driver_sql("SELECT problem FROM sources WHERE problem IS NOT NULL").scalars())
    assert said == [reason]
    assert memory.digest(UID.replace("01998000", "01998001"))["user_prompts"] == 2
    assert memory.sweep().files_changed + memory.sweep().files_skipped == 0  # not tried again before it changes


def test_packed_file_without_end_is_left_at_its_limit(memory: Memory, monkeypatch):
    monkeypatch.setattr("helix_assets.adapters.jsonl.MAX_UNPACKED_BYTES", 100_000)
    memory.put(PLACE + ".zst", zstandard.compress(LOG * 20))
    (problem,) = memory.sweep().problems
    assert "reading failed: it holds more than" in problem[1]
