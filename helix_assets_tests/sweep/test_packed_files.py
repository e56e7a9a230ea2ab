"""A rollout that Codex packs (`.jsonl.zst`) goes on telling what it told: the same records, nothing twice or lost."""

from __future__ import annotations

import hashlib
import itertools
import json
import tempfile
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from helix_assets.agents import jsonl
from helix_assets.keep.evict import apply
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.prove.verify import verify
from helix_assets_tests.agents.reading import FIXTURES
from helix_assets_tests.conftest import SWEEPING
from helix_assets_tests.home import Memory, cut

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


@SWEEPING
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
    assert (report.problems, memory.raw_usage()) == ([], 0)
    assert memory.digest(UID)["tokens"] == before["tokens"]


# -- what cannot be read to its end ----------------------------------------------------------------------------------


def said(count: int) -> bytes:
    """A rollout of so many lines that several blocks of a packed file hold them."""
    head = {"id": UID.removeprefix("codex:"), "cwd": "/home/u/shop"}
    lines: list[object] = [{"timestamp": "2026-06-05T10:00:00Z", "type": "session_meta", "payload": head}]
    for number in range(1, count):
        text = hashlib.blake2b(str(number).encode()).hexdigest()
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": f"step {number} {text}"}]}
        lines.append({"timestamp": "2026-06-05T10:00:01Z", "type": "response_item", "payload": item})
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


LONG = said(2001)
PACKERS = {
    "plain": zstandard.ZstdCompressor(),
    "with a checksum": zstandard.ZstdCompressor(write_checksum=True),
    "without its size": zstandard.ZstdCompressor(write_content_size=False),
}


def problems(memory: Memory) -> list[tuple[int, int | None, str]]:
    """What the catalog holds of problems: line, offset, reason."""
    with memory.store.catalog.reading() as connection:
        return connection.tuples('SELECT line, "offset", reason FROM problems')


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize("share", [0.4, 0.9, 0.99, -5, -4, -1])
def test_cut_packed_file_is_named_with_its_place_and_what_was_read_is_kept(memory: Memory, packer: str, share: float):
    packed = PACKERS[packer].compress(LONG)
    memory.put(PLACE + ".zst", packed[: int(share * len(packed)) if share > 0 else int(share)])
    (problem,) = memory.sweep().problems
    kept = memory.row(UID).record_count
    assert problem[1] == f"line {kept + 1}: reading failed: it is cut short"
    assert 0 < kept <= 2001
    offset = sum(map(len, LONG.splitlines(keepends=True)[:kept]))
    assert problems(memory) == [(kept + 1, offset, "reading failed: it is cut short")]
    assert memory.sweep().files_opened == 0  # not before it changes
    memory.put(PLACE + ".zst", packed)
    assert memory.sweep().problems == []
    assert (memory.row(UID).record_count, problems(memory)) == (2001, [])
    assert not verify(memory.store)


def test_whole_packed_file_that_is_cut_later_loses_nothing(memory: Memory):
    packed = zstandard.compress(LONG)
    path = memory.put(PLACE + ".zst", packed)
    memory.sweep()
    before = memory.exported()
    path.write_bytes(packed[: len(packed) // 2])
    assert len(memory.sweep().problems) == 1
    assert memory.row(UID).record_count == 2001
    path.write_bytes(packed)
    assert memory.sweep().problems == []
    assert (memory.exported() == before, verify(memory.store)) == (True, [])


@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 0.01])
def test_packed_file_cut_before_anything_can_be_read_is_named(memory: Memory, length: float):
    packed = zstandard.compress(LONG)
    path = memory.put(PLACE + ".zst", packed[: int(length if length >= 1 else length * len(packed))])
    assert memory.sweep().problems == [(str(path), "reading failed: it is cut short")]
    again = memory.sweep()
    assert (again.problems, again.files_skipped) == ([], 0)
    path.write_bytes(packed)
    assert memory.sweep().problems == []
    assert memory.row(UID).record_count == 2001


def test_packed_file_cut_anywhere_is_never_taken_for_a_whole_one(tmp_path: Path):
    """Frames of all kinds, one behind the other: only where a frame ends is an end."""
    skipped = b"\x5a\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"aside"
    pieces = [compressor.compress(LOG) for compressor in PACKERS.values()]
    pieces += [zstandard.compress(bytes(300_000)), zstandard.compress(b""), skipped, zstandard.compress(LOG)]
    packed = b"".join(pieces)
    whole = set(itertools.accumulate(map(len, pieces)))
    for length in range(len(packed) + 1):
        path = tmp_path / "some.zst"
        path.write_bytes(packed[:length])
        with path.open("rb") as file:
            assert jsonl._is_cut(file.fileno()) == (length not in {0, *whole}), length


@pytest.mark.parametrize("count", [300 << 20, 1000])
def test_packed_zeros_are_named(memory: Memory, count: int):
    packer = zstandard.ZstdCompressor().compressobj()
    packed = b"".join(packer.compress(bytes(min(1 << 20, count))) for _ in range(max(1, count >> 20))) + packer.flush()
    path = memory.put(PLACE + ".zst", packed)
    assert memory.sweep().problems == [(str(path), "line 1: reading failed: it ends within a line")]
    assert memory.sweep().files_opened == 0


def test_packed_file_that_ends_within_a_line_is_named_until_it_goes_on(memory: Memory):
    torn = len(LOG) - 20
    memory.put(PLACE + ".zst", zstandard.compress(LOG[:torn]))
    ((_, reason),) = memory.sweep().problems
    assert reason == f"line {len(LOG.splitlines())}: reading failed: it ends within a line"
    memory.put(PLACE + ".zst", zstandard.compress(LOG[torn:]), append=True)
    assert (memory.sweep().problems, problems(memory)) == ([], [])
    assert memory.digest(UID)["record_count"] == LOG.count(b"\n")


def test_line_that_is_too_long_is_named_before_it_ends_and_once(memory: Memory, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("helix_assets.agents.jsonl.MAX_LINE_BYTES", 1 << 20)
    path = memory.put(PLACE, LOG + bytes(2 << 20))
    number = LOG.count(b"\n") + 1
    found = memory.sweep().problems
    assert found == [(str(path), f"line {number}: longer than a line may be, and its end is not there yet")]
    memory.put(PLACE, b"\n", append=True)
    memory.sweep()
    assert problems(memory) == [(number, len(LOG), "longer than a line may be; not stored")]


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
        said = connection.column("SELECT problem FROM sources WHERE problem IS NOT NULL")
    assert said == [reason]
    assert memory.digest(UID.replace("01998000", "01998001"))["user_prompts"] == 2
    assert memory.sweep().files_changed + memory.sweep().files_skipped == 0  # not tried again before it changes


def test_packed_file_without_end_is_left_at_its_limit(memory: Memory, monkeypatch):
    monkeypatch.setattr("helix_assets.agents.jsonl.MAX_UNPACKED_BYTES", 100_000)
    memory.put(PLACE + ".zst", zstandard.compress(LOG * 20))
    (problem,) = memory.sweep().problems
    assert "reading failed: it contains more than" in problem[1]
