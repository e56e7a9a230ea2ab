"""Lets some sessions of a sample home grow, as they do between two sweeps."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from urllib.parse import unquote

from helix_assets.demo.home import WRITERS
from helix_assets.demo.scenery import REPOS, Repo
from helix_assets.demo.scribe import Desk, Record, dashed
from helix_assets.demo.truth import Truth

_MAIN_FILES = {
    "claude": "claude/projects/*/*-*-*-*-*.jsonl",
    "codex": "codex/sessions/*/*/*/rollout-*.jsonl",
    "grok": "grok/sessions/*/*/updates.jsonl",
}
_PAUSE_MS = 300_000
_TURN_BYTES = 25_000
_TAIL_BYTES = 2_000_000


def append(out: Path, *, share: float = 0.01, seed: int = 2) -> list[Path]:
    """Grow that share of the sessions, at least one, by a turn each. Returns the log files that grew or are new.

    Sessions whose main file ends in a torn line stay as they are. `truth.json` is not updated.
    """
    files = [(agent, path) for agent, pattern in _MAIN_FILES.items() for path in sorted(out.glob(pattern))]
    whole = [(agent, path) for agent, path in files if _is_whole(path)]
    chosen = Random(f"{seed} growth").sample(whole, min(len(whole), max(1, round(len(files) * share))))
    return [grown for agent, path in chosen for grown in _grow(out, agent, path, seed)]


def _is_whole(path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read() == b"\n"


def _grow(out: Path, agent: str, path: Path, seed: int) -> list[Path]:
    stat = path.stat()
    # The size is part of the seed, so that growing twice with one seed does not write the same ids again.
    desk = Desk(out, Truth(seed), Random(f"{seed} {path.relative_to(out).as_posix()} {stat.st_size}"))
    sid = path.parent.name if agent == "grok" else path.stem[-36:]
    records = _ends(path)
    scribe = WRITERS[agent](desk, _repo(path, records[0]), int(sid.replace("-", "")[:12], 16), sid)
    scribe.now = stat.st_mtime_ns // 1_000_000 + _PAUSE_MS
    scribe.pick_up(records)
    scribe.play(scribe.story.turn(_TURN_BYTES))
    scribe.finish()
    return scribe.paths


def _repo(path: Path, head: Record) -> Repo:
    text = dashed(unquote(str(path)) + str(head.get("payload")))
    return next(repo for repo in REPOS if dashed(repo.cwd) in text)


def _ends(path: Path) -> list[Record]:
    """Return the first record and the last ones, which is enough of a file of any size."""
    with path.open("rb") as file:
        head = file.readline()
        file.seek(max(file.tell(), path.stat().st_size - _TAIL_BYTES))
        lines = [head, *file.read().split(b"\n")]
    records: list[Record] = []
    for line in lines:
        try:
            records.append(json.loads(line))
        except ValueError:
            continue
    return records
