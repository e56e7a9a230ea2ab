"""Sweeps and evictions killed at random moments, one after the other on the same store, while logs grow and caps move.

    python -m helix_assets_tests.faults.random_kills [--rounds 50] [--seed 1] [--sessions 8]

After every kill `prove.verify` finds nothing, no digest is gone, and none covers less than it did. In the end every
record that was ever written counts once.
"""

from __future__ import annotations

import json
import math
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click

from helix_assets.keep import evict
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.prove.verify import verify
from helix_assets_tests.home import Memory, conversation

_MOST_TURNS = 50
_RECORDS_PER_TURN = 4


class Campaign:
    """One store that goes through it all."""

    def __init__(self, folder: Path, seed: int, sessions: int) -> None:
        self._folder, self._random = folder, random.Random(seed)
        self._turns = dict.fromkeys(range(sessions), 0)
        self._digests: dict[str, int] = {}
        self.kills = 0
        self.wrong: list[str] = []

    def begin(self) -> None:
        """A first sweep in this process: what it loads, no child has to load again."""
        self._grow()
        self._sweep()

    def round(self) -> None:
        """Let the logs grow, work, kill, look."""
        self._grow()
        self.kills += self._killed(self._random.choice([_sweep, _sweep, self._evict]))
        self.look()

    def look(self) -> None:
        memory = Memory(self._folder)
        self.wrong += [f"{v.check}: {v.session_uid} {v.what} {v.path or ''}" for v in verify(memory.store)]
        now = _record_counts(memory)
        self.wrong += [f"the digest of {uid} is gone" for uid in self._digests.keys() - now.keys()]
        self.wrong += [f"the digest of {uid} shrank" for uid, count in self._digests.items() if now.get(uid, 0) < count]
        self._digests = now
        memory.close()

    def finish(self) -> None:
        """One sweep that nobody disturbs, then the count."""
        self._sweep()
        written = {f"claude:session-{n}": turns * _RECORDS_PER_TURN for n, turns in self._turns.items() if turns}
        if self._digests != written:
            self.wrong.append(f"counted {self._digests}, written {written}")

    def _sweep(self) -> None:
        memory = Memory(self._folder)
        memory.sweep()
        memory.close()
        self.look()

    def _grow(self) -> None:
        memory = Memory.__new__(Memory)
        memory.folder = self._folder
        growing = [number for number, turns in self._turns.items() if turns < _MOST_TURNS]
        for number in self._random.sample(growing, k=2):
            start = self._turns[number]
            more = min(self._random.randrange(1, 4), _MOST_TURNS - start)
            memory.write(f"session-{number}", *conversation(more, start=start, session=f"s{number}-"), append=True)
            self._turns[number] += more
            if self._turns[number] == _MOST_TURNS:
                self._turns[len(self._turns)] = 0

    def _evict(self, memory: Memory) -> None:
        soft = self._random.choice([1, 20_000, 60_000])
        caps = RetentionPolicy(
            soft_cap_bytes=soft, hard_cap_bytes=1 << 40, max_age_days=45, distilled_cap_bytes=1 << 40
        )
        evict.apply(memory.store, clock=lambda: memory.now, policy=caps)

    def _killed(self, work: Callable[[Memory], object]) -> bool:
        """Do the work in a child; whether it was killed before its end."""
        patience = math.exp(self._random.uniform(math.log(0.002), math.log(0.2)))
        child = os.fork()
        if child == 0:
            try:
                work(Memory(self._folder))
            finally:
                os._exit(0)
        give_up = time.monotonic() + patience
        while time.monotonic() < give_up:
            if os.waitpid(child, os.WNOHANG)[0]:
                return False
            time.sleep(0.001)
        os.kill(child, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def _sweep(memory: Memory) -> None:
    memory.sweep()


def _record_counts(memory: Memory) -> dict[str, int]:
    with memory.store.catalog.reading() as connection:
        rows = connection.tuples("SELECT session_uid, digest FROM digests")
    return {uid: json.loads(text)["record_count"] for uid, text in rows}


def campaign(folder: Path, *, rounds: int, seed: int, sessions: int = 8) -> Campaign:
    """All rounds, and the reckoning."""
    run = Campaign(folder, seed, sessions)
    run.begin()
    for _ in range(rounds):
        run.round()
    run.finish()
    return run


@click.command()
@click.option("--rounds", default=50)
@click.option("--seed", default=1)
@click.option("--sessions", default=8)
def main(rounds: int, seed: int, sessions: int) -> None:
    """Kill at random moments; exit code 1 when anything is lost, doubled or unsound."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run = campaign(Path(folder), rounds=rounds, seed=seed, sessions=sessions)
    click.echo(
        f"{rounds} rounds (seed {seed}), {run.kills} killed, {len(run.wrong)} wrong, {time.monotonic() - begin:.0f} s"
    )
    for line in run.wrong[:20]:
        click.echo(f"  {line}")
    raise SystemExit(bool(run.wrong))


if __name__ == "__main__":
    main()
