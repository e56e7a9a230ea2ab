"""A process that remembers what it derived of growing sessions writes the same bytes as one that remembers nothing."""

from __future__ import annotations

import random
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from helix_assets.ask import coverage, status
from helix_assets.demo import make_home
from helix_assets.keep.evict import apply
from helix_assets.keep.forget import forget
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.model.event import DIGEST_VERSION
from helix_assets.prove.verify import verify
from helix_assets.store import fact_merge
from helix_assets.store.key import KEY_BYTES
from helix_assets.sweep import commit, plan, rounds
from helix_assets.sweep.session_run import SessionRun
from helix_assets.sweep.warm import Warm
from helix_assets_tests.conftest import NIGHTLY
from helix_assets_tests.home import NOW, Memory, conversation, rows_of

_BOUNDLESS = 1 << 40
_TABLES = ("sessions", "sources", "digests", "raw_files", "fact_files", "session_keys", "ledger_news", "shared_keys")
SEEDS = range(30 if NIGHTLY else 4)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole home of all agents, with resumed sessions, forks, subagents and torn lines."""
    home = tmp_path_factory.mktemp("written")
    make_home(home, seed=5, sizes=[40_000, 60_000, 30_000, 50_000, 80_000, 20_000, 30_000, 70_000, 40_000])
    return home


@dataclass
class Pair:
    """Two stores of one home that comes into being piece by piece: one swept by a warm process, one by cold ones."""

    folder: Path
    written: Path
    seed: int
    environ: dict[str, str] = field(default_factory=dict)
    newer: int = 0

    def __post_init__(self) -> None:
        self._random, self._now, self._warm = random.Random(self.seed), NOW, Warm(sessions=4)
        self._files = [path for path in sorted(self.written.rglob("*")) if path.is_file() and ".json" in path.name]
        self._growing = self._random.sample(self._files, 3)
        self._home = self.folder / "home"

    def memories(self) -> Iterator[Memory]:
        for name in ("warm", "cold"):
            memory = Memory(self.folder, {"HELIX_DATA_DIR": str(self.folder / name), **self.environ}, self._now)
            yield memory
            memory.close()

    def sweep(self) -> None:
        self._now += timedelta(minutes=1)
        with ExitStack() as stack:
            for module in (rounds, commit, coverage, status):
                stack.enter_context(mock.patch.object(module, "DIGEST_VERSION", DIGEST_VERSION + self.newer))
            for memory, warm in zip(self.memories(), (self._warm, None), strict=True):
                memory.sweep(warm)

    def both(self, work: Any) -> None:
        for memory in self.memories():
            work(memory)

    def grow(self) -> None:
        """Some logs gain some lines, now and then a part of one."""
        if self._random.random() < 0.2:
            self._growing = self._random.sample(self._files, 3)
        for path in self._random.sample(self._growing, self._random.randint(1, 3)):
            target = self._home / path.relative_to(self.written)
            target.parent.mkdir(parents=True, exist_ok=True)
            data, there = path.read_bytes(), target.stat().st_size if target.exists() else 0
            end = there + self._random.choice([200, 1_000, 5_000])
            if self._random.random() < 0.8:
                end = data.find(b"\n", end) + 1 or len(data)
            with target.open("ab") as file:
                file.write(data[there:end])

    def disturb(self) -> None:
        there = [path for path in self._home.rglob("*.jsonl") if path.stat().st_size]
        if not there:
            return
        path, how = self._random.choice(there), self._random.choice(["copy", "cut", "delete"])
        if how == "delete":
            path.unlink()
            return
        data = path.read_bytes()
        fresh = path.with_name("fresh")
        fresh.write_bytes(data if how == "copy" else data[: len(data) // 2])
        fresh.replace(path)

    def evict(self) -> None:
        share = self._random.choice([1, 3])

        def work(memory: Memory) -> None:
            policy = RetentionPolicy(max(1, memory.raw_usage() // share - 1), _BOUNDLESS, 45, _BOUNDLESS)
            apply(memory.store, clock=lambda: self._now, policy=policy, analyze=memory.sweep)

        self.both(work)

    def forget(self) -> None:
        (known, _) = ([row.session_uid for row in rows_of(memory.store, "sessions")] for memory in self.memories())
        if known:
            uid = self._random.choice(known)
            self.both(lambda memory: forget(memory.store, [uid], now=self._now))

    def change_rules(self) -> None:
        rules = ["[]", "[{name = 'words', pattern = 'retry|cache'}]"]
        self.environ["HELIX_REDACTION_RULES"] = self._random.choice(rules)

    def raise_versions(self) -> None:
        self.newer += 1

    def content(self) -> list[dict[str, list[Any]]]:
        """All that both stores say, but for the places of files that are made of random names."""
        return [
            {table: [row.as_dict() for row in rows_of(memory.store, table)] for table in _TABLES}
            | {"export": [memory.exported()]}
            for memory in self.memories()
        ]


MOVES = {
    Pair.grow: 20,
    Pair.disturb: 1,
    Pair.evict: 1,
    Pair.forget: 1,
    Pair.change_rules: 1,
    Pair.raise_versions: 1,
}


@pytest.mark.parametrize("seed", SEEDS)
def test_warm_and_cold_stores_are_the_same_bytes(
    tmp_path: Path, written: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fact_merge, "SETTLED_BYTES", 1 << 10)
    monkeypatch.setattr(plan, "MAX_SMALL_PARTS", 5)
    monkeypatch.setattr(secrets, "token_bytes", lambda _: seed.to_bytes(KEY_BYTES, "big"))
    went_on: list[bool] = []
    monkeypatch.setattr(SessionRun, "_continue", noting(SessionRun._continue, went_on))
    pair = Pair(tmp_path, written, seed)
    moves = [move for move, weight in MOVES.items() for _ in range(weight)]
    for _ in range(60):
        pair._random.choice(moves)(pair)
        pair.sweep()
        warm, cold = pair.content()
        assert warm == cold
    assert sum(went_on) >= 5
    pair.both(check_is_sound)


def check_is_sound(memory: Memory) -> None:
    assert verify(memory.store) == []


def noting(real: Any, answers: list[bool]) -> Any:
    """The function, with its answers noted."""

    def call(*args: Any) -> Any:
        answers.append(answer := real(*args))
        return answer

    return call


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    made = Memory(tmp_path)
    made.write("s1", *conversation(3))
    return made


def reads_stored(memory: Memory, warm: Warm, monkeypatch: pytest.MonkeyPatch, turn: int) -> bool:
    """Whether a sweep of one more turn reads the stored rows."""
    read: list[Any] = []
    memory.write("s1", *conversation(1, start=turn), append=True)
    with monkeypatch.context() as patch:
        take_in = SessionRun._take_in
        patch.setattr(SessionRun, "_take_in", lambda run, stored: (read.append(stored), take_in(run, stored)))
        assert memory.sweep(warm).lines_read == 4
    return bool(read)


def test_a_turn_reads_no_stored_row(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    warm = Warm()
    memory.sweep(warm)
    assert not reads_stored(memory, warm, monkeypatch, 3)
    assert not reads_stored(memory, warm, monkeypatch, 4)
    assert reads_stored(memory, Warm(), monkeypatch, 5)


def test_a_record_that_the_log_repeats_counts_once(memory: Memory) -> None:
    warm = Warm()
    memory.sweep(warm)
    for lines in (conversation(1, start=3), conversation(1), conversation(1, start=4)):
        memory.write("s1", *lines, append=True)
        memory.sweep(warm)
    assert (memory.row("claude:s1").record_count, memory.digest("claude:s1")["record_count"]) == (20, 20)
    assert verify(memory.store) == []


def test_what_another_process_did_drops_it(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    warm = Warm()
    memory.sweep(warm)
    memory.write("s1", *conversation(1, start=3), append=True)
    memory.sweep()
    assert reads_stored(memory, warm, monkeypatch, 4)


def test_a_sweep_that_fails_drops_it(memory: Memory) -> None:
    warm = Warm()
    memory.sweep(warm)
    memory.write("s1", *conversation(1, start=3), append=True)
    with mock.patch.object(rounds, "commit_batch", side_effect=RuntimeError), pytest.raises(RuntimeError):
        memory.sweep(warm)
    assert len(warm) == 0
    memory.sweep(warm)
    assert verify(memory.store) == []


def test_it_is_bounded_by_number_and_by_bytes(memory: Memory) -> None:
    for name in ("s2", "s3", "s4"):
        memory.write(name, *conversation(3, session=name))
    few, small = Warm(sessions=2), Warm(bytes_=1)
    memory.sweep(few)
    assert len(few) == 2
    memory.write("s1", *conversation(1, start=3), append=True)
    memory.sweep(small)
    assert (len(small), small.bytes) == (0, 0)


def test_another_store_is_not_continued(memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    warm = Warm()
    memory.sweep(warm)
    other = Memory(tmp_path / "other")
    shutil.copytree(tmp_path / "home", tmp_path / "other" / "home", dirs_exist_ok=True)
    other.sweep()
    assert reads_stored(other, warm, monkeypatch, 3)
