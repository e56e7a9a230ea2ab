"""An agent that writes as messily as it can while sweeps run back to back.

    python -m helix_assets_tests.faults.live_writer [--seconds 20] [--seed 1] [--sessions 12]

The writer flushes in the middle of lines and characters, appends with the old time put back, truncates and writes anew,
replaces files by rename and moves them to other folders. Every record has to be stored, and once.
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter
from pathlib import Path
from uuid import UUID

import click

from helix_assets.prove.verify import verify
from helix_assets_tests.home import Memory

_SIZES = (5, 500, 70_000)


class MessyAgent:
    """Writes sessions; `marks` are those of the records that it finished."""

    def __init__(self, projects: Path, sessions: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._folders = [projects / "-home-u-live", projects / "-home-u-moved"]
        for folder in self._folders:
            folder.mkdir(parents=True, exist_ok=True)
        self._paths = [self._folders[0] / f"{UUID(int=number + (9 << 100))}.jsonl" for number in range(sessions)]
        self.marks: list[str] = []

    def step(self) -> None:
        """One more record, in one way or another."""
        number = self._random.randrange(len(self._paths))
        path = self._paths[number]
        ways = [self._in_pieces] * 16
        if path.exists():
            ways += [self._with_old_time, self._by_rename, self._truncated]
        self._random.choice(ways)(path, self._record())
        if self._random.random() < 0.03:
            self._paths[number] = path.rename(self._random.choice(self._folders) / path.name)

    def _record(self) -> bytes:
        mark = f"MARK{len(self.marks):08d}"
        self.marks.append(mark)
        record = {
            "type": "user",
            "uuid": str(UUID(int=self._random.getrandbits(128), version=4)),
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "cwd": "/home/u/live",
            "message": {"role": "user", "content": f"é日本 {mark} " + "x" * self._random.choice(_SIZES)},
        }
        return json.dumps(record, ensure_ascii=False).encode() + b"\n"

    def _in_pieces(self, path: Path, line: bytes) -> None:
        cuts = [0, *sorted(self._random.randrange(len(line)) for _ in range(self._random.randrange(4))), len(line)]
        with path.open("ab", buffering=0) as file:
            for start, end in itertools.pairwise(cuts):
                file.write(line[start:end])
                time.sleep(self._random.random() * 0.01)

    def _with_old_time(self, path: Path, line: bytes) -> None:
        before = path.stat()
        with path.open("ab") as file:
            file.write(line)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    def _by_rename(self, path: Path, line: bytes) -> None:
        fresh = path.with_suffix(".tmp")
        fresh.write_bytes(path.read_bytes() + line)
        fresh.rename(path)

    def _truncated(self, path: Path, line: bytes) -> None:
        before = path.read_bytes()
        path.write_bytes(b"")
        time.sleep(0.02)
        path.write_bytes(before + line)


def _write(projects: Path, sessions: int, seed: int, seconds: float, marks_file: Path) -> None:
    agent = MessyAgent(projects, sessions, seed)
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        agent.step()
    marks_file.write_text(json.dumps(agent.marks))


def watch(folder: Path, *, seconds: float, seed: int, sessions: int = 12) -> tuple[int, int, list[str]]:
    """Sweep beside the writer until it is done: the number of sweeps, of records, and what is wrong."""
    memory, marks_file = Memory(folder), folder / "marks.json"
    writer = multiprocessing.get_context("spawn").Process(
        target=_write, args=(memory.projects, sessions, seed, seconds, marks_file)
    )
    writer.start()
    sweeps, wrong = 0, []
    while writer.is_alive():
        report = memory.sweep()
        sweeps += 1
        wrong += [f"bad line in {path}: {why}" for path, why in report.problems if why.startswith("line ")]
    writer.join()
    memory.sweep()
    marks = json.loads(marks_file.read_text())
    rows = [json.loads(line).get("raw") or "" for line in memory.exported().splitlines()]
    stored = Counter(text.partition("MARK")[2][:8] for text in rows if "MARK" in text)
    wrong += [f"{mark} is stored {stored[mark[4:]]} times" for mark in marks if stored[mark[4:]] != 1]
    wrong += [f"{v.check}: {v.what}" for v in verify(memory.store)]
    memory.close()
    return sweeps, len(marks), wrong


@click.command()
@click.option("--seconds", default=20.0)
@click.option("--seed", default=1)
@click.option("--sessions", default=12)
def main(seconds: float, seed: int, sessions: int) -> None:
    """Sweep beside a messy writer; exit code 1 when a record is lost or stored twice."""
    with tempfile.TemporaryDirectory() as folder:
        sweeps, marks, wrong = watch(Path(folder), seconds=seconds, seed=seed, sessions=sessions)
    click.echo(f"{marks} records, {sweeps} sweeps, {len(wrong)} wrong (seed {seed})")
    for line in wrong[:20]:
        click.echo(f"  {line}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
