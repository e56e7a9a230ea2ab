"""A home far larger than the budget, growing round by round, swept and evicted into it.

    python -m helix_assets_tests.faults.pressure [--home FOLDER] [--rounds 10] [--soft 200MB] [--hard 300MB] [--seed 1]

FOLDER is a home that a generator made, with its truth.json; without it a small one is made. Of half of the files a part
appears in one round and the rest in a later one. After each round the raw cache is at or under its soft cap, every
session ever seen has a digest, and nothing evicted has come back. In the end the figures of all digests are those of
the truth file.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from helix_assets.ask.export import session_figures
from helix_assets.demo import make_home
from helix_assets.keep import evict
from helix_assets.prove.verify import verify
from helix_assets.settings import load_settings
from helix_assets.store.catalog import live_files
from helix_assets.store.store import Store, open_store
from helix_assets.sweep.sweep import sweep, utc_now
from helix_assets_tests.home import ask

_TOKENS = (("input", "input"), ("output", "output"), ("cache_read", "cache_read"), ("cache_creation", "cache_write"))


@dataclass
class Pressed:
    """What came of it."""

    rounds: int = 0
    sessions: int = 0
    peak_bytes: int = 0
    evicted_bytes: int = 0
    wrong: list[str] = field(default_factory=list)


def press(home: Path, folder: Path, *, rounds: int, soft: str, hard: str, seed: int) -> Pressed:
    """Let the home appear round by round in the folder, and hold the store to its caps."""
    store = open_store(load_settings(_environ(folder, soft, hard)))
    done = Pressed()
    try:
        for number, files in enumerate(_in_rounds(home, rounds, seed)):
            for source, share in files:
                _appear(source, folder / "home" / source.relative_to(home), share)
            done.wrong += [f"round {number}: {what}" for what in _round(store, done)]
        done.wrong += [f"{v.check}: {v.session_uid} {v.what}" for v in verify(store)]
        done.wrong += _differences(store, home)
        before = _state(store)
        sweep(store)
        if _state(store) != before:
            done.wrong.append("a sweep of nothing new changed the raw cache")
    finally:
        store.close()
    return done


def _environ(folder: Path, soft: str, hard: str) -> dict[str, str]:
    home = folder / "home"
    agents = {"CLAUDE_CONFIG_DIR": home / "claude", "CODEX_HOME": home / "codex", "GROK_HOME": home / "grok"}
    caps = {"HELIX_RAW_SOFT_CAP_BYTES": soft, "HELIX_RAW_HARD_CAP_BYTES": hard}
    own = {"HOME": folder, "HELIX_DATA_DIR": folder / "data"}
    return {name: str(value) for name, value in (agents | own | caps).items()} | {"HELIX_BACKUP_SCHEDULE": "off"}


def _in_rounds(home: Path, rounds: int, seed: int) -> Iterator[list[tuple[Path, float]]]:
    """The files of each round, with the share of each that is there from then on."""
    rng = random.Random(seed)
    found: list[list[tuple[Path, float]]] = [[] for _ in range(rounds)]
    for path in sorted(path for agent in ("claude", "codex", "grok") for path in (home / agent).rglob("*")):
        if path.is_file():
            first = rng.randrange(rounds)
            if path.suffix == ".jsonl" and rng.random() < 0.5:
                found[first].append((path, rng.random()))
                first = rng.randrange(first, rounds)
            found[first].append((path, 1.0))
    yield from found


def _appear(source: Path, target: Path, share: float) -> None:
    """Copy so much of a file, to the byte; what is there is appended to."""
    target.parent.mkdir(parents=True, exist_ok=True)
    there = target.stat().st_size if target.exists() else 0
    with source.open("rb") as read, target.open("ab") as write:
        read.seek(there)
        if share == 1.0:
            shutil.copyfileobj(read, write, 1 << 20)
        else:
            write.write(read.read(max(0, int(source.stat().st_size * share) - there)))


def _round(store: Store, done: Pressed) -> list[str]:
    before, begin = _state(store), time.monotonic()
    report = sweep(store)
    done.peak_bytes = max(done.peak_bytes, ask(store, live_files.raw_usage))
    gone = evict.apply(store, clock=utc_now, analyze=lambda: sweep(store))
    done.rounds += 1
    done.evicted_bytes += gone.bytes_freed
    caps = store.settings.retention
    on_disk = sum(store.raw.path(name).stat().st_size for name in store.raw.names())
    wrong = []
    if on_disk != gone.usage_after or on_disk > caps.raw_soft_cap_bytes:
        wrong.append(f"{on_disk} bytes on disk, {gone.usage_after} accounted, the soft cap {caps.raw_soft_cap_bytes}")
    if done.peak_bytes > caps.raw_hard_cap_bytes:
        wrong.append(f"{done.peak_bytes} bytes after the sweep, over the hard cap")
    if gone.losses or report.sessions_failed:
        wrong.append(f"{len(gone.losses)} losses, {report.sessions_failed} sessions failed")
    back = [uid for uid, (evicted, read) in _state(store).items() if not evicted and before.get(uid) == (True, read)]
    if back:
        wrong.append(f"{len(back)} evicted sessions came back unchanged, such as {back[0]}")
    with store.catalog.reading() as connection:
        seen = set(connection.column("SELECT session_uid FROM sessions"))
        held = set(connection.column("SELECT session_uid FROM digests"))
    done.sessions = len(seen)
    if seen != held:
        wrong.append(f"{len(seen - held)} sessions without a digest")
    click.echo(
        f"round {done.rounds}: {len(seen)} sessions, {on_disk >> 20} MiB after eviction, "
        f"{len(gone.gone)} gone, {time.monotonic() - begin:.0f} s, {len(wrong)} wrong"
    )
    return wrong


def _state(store: Store) -> dict[str, tuple[bool, int]]:
    """Of every session whether it is evicted, and how many bytes of it were read."""
    query = """SELECT session_uid, evicted_at IS NOT NULL, coalesce(sum("offset"), 0) FROM sessions
        LEFT JOIN sources ON session_id = sessions.id GROUP BY sessions.id"""
    with store.catalog.reading() as connection:
        return {uid: (bool(evicted), count) for uid, evicted, count in connection.tuples(query)}


def _differences(store: Store, home: Path) -> Iterator[str]:
    """Where the figures of the digests are not those of the truth."""
    truth: Any = json.loads((home / "truth.json").read_text(encoding="utf-8"))["sessions"]
    expected = truth if isinstance(truth, dict) else {session["session_uid"]: session for session in truth}
    told = session_figures(store)
    totals = {ours: [0, 0] for _, ours in _TOKENS}
    for uid, session in expected.items():
        if uid not in told:
            yield f"no digest of {uid}"
            continue
        for theirs, ours in _TOKENS:
            right = session["tokens"].get(theirs, session["tokens"].get(ours))
            held = getattr(told[uid].digest.tokens, ours)
            totals[ours][0] += right
            totals[ours][1] += held
            if right != held:
                yield f"{uid}: {ours} tokens are {held}, not {right}"
    for ours, (right, held) in totals.items():
        click.echo(f"{ours} tokens: {held} over all digests, {right} in the truth file")


@click.command()
@click.option("--home", type=click.Path(path_type=Path, exists=True), help="A generated home with its truth.json.")
@click.option("--rounds", default=10)
@click.option("--soft", default="200MB")
@click.option("--hard", default="300MB")
@click.option("--seed", default=1)
def main(home: Path | None, rounds: int, soft: str, hard: str, seed: int) -> None:
    """Sweep a growing home into a small budget; exit code 1 when a promise breaks."""
    begin = time.monotonic()
    os.umask(0o077)
    with tempfile.TemporaryDirectory() as scratch:
        if home is None:
            home = Path(scratch) / "made"
            make_home(home, sessions=60, seed=seed, dirty=False)
        done = press(home, Path(scratch) / "work", rounds=rounds, soft=soft, hard=hard, seed=seed)
    click.echo(
        f"{done.rounds} rounds (seed {seed}), {done.sessions} sessions, at most {done.peak_bytes} bytes, "
        f"{done.evicted_bytes} evicted, {len(done.wrong)} wrong, {time.monotonic() - begin:.0f} s"
    )
    for line in done.wrong[:20]:
        click.echo(f"  {line}")
    raise SystemExit(bool(done.wrong))


if __name__ == "__main__":
    main()
