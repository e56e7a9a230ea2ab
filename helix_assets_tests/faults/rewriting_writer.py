"""A writer that truncates and rewrites its log in place while sweeps and evictions run back to back.

    python -m helix_assets_tests.faults.rewriting_writer [--runs 100] [--seed 1]

Each run has a store and a log of its own. At the end the log is whole, and after a last sweep the digest has to be that
of a store that met nothing but the whole log.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import click

from helix_assets.keep.evict import apply
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.prove.verify import verify
from helix_assets_tests.home import NOW, Memory, conversation

_EVERYTHING = RetentionPolicy(1, 1 << 50, 36_500, 1 << 50)
_ENVIRON = {"HELIX_BACKUP_SCHEDULE": "off", "HELIX_SEARCH_INDEX": "off"}
_UID = "claude:s"
# Generation, keys and place, which are a store's own.
_MADE = ("coverage", "signals", "source_path", "discovered_at")


def write(path: Path, lines: list[bytes], chance: random.Random, seconds: float) -> None:
    """Grow, truncate and rewrite in place, in pieces of any size; at the end the log is whole."""
    give_up, reached = time.monotonic() + seconds, 1
    while time.monotonic() < give_up:
        reached = min(len(lines), reached + chance.randrange(4))
        data = b"".join(lines[:reached])
        with path.open("r+b", buffering=0) as file:
            if chance.random() < 0.5:
                file.truncate(chance.randrange(len(data)))
            place = 0
            while place < len(data):
                piece = data[place : place + chance.choice((200, 2_000, 20_000))]
                file.write(piece)
                place += len(piece)
                if chance.random() < 0.3:
                    time.sleep(chance.random() * 0.02)
    path.write_bytes(b"".join(lines))


def one_run(folder: Path, seed: int, seconds: float = 2.0) -> list[str]:
    """What is wrong after sweeps and evictions beside the writer."""
    chance, lines = random.Random(seed), conversation(50)
    memory = Memory(folder / "store", _ENVIRON)
    path = memory.write("s", *lines[:1])
    writer = threading.Thread(target=write, args=(path, lines, random.Random(seed + 1), seconds))
    writer.start()
    while writer.is_alive():
        memory.sweep()
        if chance.random() < 0.4:
            apply(memory.store, clock=lambda: NOW, policy=_EVERYTHING)
    writer.join()
    memory.sweep()
    fresh = Memory(folder / "fresh", _ENVIRON)
    fresh.write("s", *lines)
    fresh.sweep()
    ours, theirs = _counted(memory), _counted(fresh)
    wrong = [str(violation) for violation in verify(memory.store)]
    wrong += [f"{name}: {ours[name]}, not {theirs[name]}" for name in theirs if ours[name] != theirs[name]]
    if memory.row(_UID).is_partial:
        wrong.append("is partial, and its log is whole")
    memory.close()
    fresh.close()
    return wrong


def _counted(memory: Memory) -> dict[str, Any]:
    # A line that was torn when it was read stays counted among the bad ones: that is what was there.
    left_out = (*_MADE, "unparsed_lines")
    return {name: value for name, value in memory.digest(_UID).items() if name not in left_out}


@click.command()
@click.option("--runs", default=100)
@click.option("--seed", default=1)
def main(runs: int, seed: int) -> None:
    """So many runs; exit code 1 when any counted wrongly."""
    os.umask(0o077)
    bad = 0
    for number in range(seed, seed + runs):
        folder = Path(tempfile.mkdtemp())
        if wrong := one_run(folder, number):
            bad += 1
            click.echo(f"run {number}: {wrong[:4]}")
        shutil.rmtree(folder)
    click.echo(f"{runs} runs, {bad} wrong")
    raise SystemExit(bool(bad))


if __name__ == "__main__":
    main()
