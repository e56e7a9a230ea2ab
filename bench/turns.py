"""Sessions that are under way: made beside those of a corpus, then written to as their agents would.

Belongs here: which sessions, how a turn is made and written. What a turn contains is the demo's.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from helix_assets.demo import append, make_home

TURN_BYTES = 44_000
# What somebody has open in a day, and whose turn it is: six of ten are Claude's, three Codex's, one Grok's.
OPEN = (("claude", 3_000_000), ("claude", 400_000), ("codex", 1_000_000), ("grok", 300_000))
ROTA = (0, 2, 1, 0, 3, 0, 2, 1, 0, 2)
_TRIES = 30
_TAIL_BYTES = 2_000_000
_LOGS = {
    "claude": "claude/projects/*/*.jsonl",
    "codex": "codex/sessions/*/*/*/*.jsonl",
    "grok": "grok/sessions/*/*/updates.jsonl",
}


@dataclass(frozen=True)
class Session:
    """A session under way, and the log of it that grows."""

    uid: str
    log: Path
    home: Path


@dataclass(frozen=True)
class Written:
    """A turn that was written: until when, and how many bytes."""

    at: float
    bytes: int


def plant(home: Path, sizes: Sequence[tuple[str, int]], seed: int) -> list[Session]:
    """Add a session of each agent and size to a home."""
    return [_plant(home, agent, size, seed + number) for number, (agent, size) in enumerate(sizes)]


def _plant(home: Path, agent: str, size: int, seed: int) -> Session:
    with TemporaryDirectory(dir=home.parent) as folder:
        alone = Path(folder) / "home"
        # Each on a day of its own, so that what is reported of a partition is about this session.
        day = datetime.now(UTC).date() - timedelta(days=1 + seed % 300)
        make_home(alone, seed=seed, sizes=[size], days=1, today=day, agents=[agent], dirty=False)
        log = max(alone.glob(_LOGS[agent]), key=lambda path: path.stat().st_size).relative_to(alone)
        shutil.copytree(alone / agent, home / agent, dirs_exist_ok=True, ignore=_not_logs)
    native = log.parent.name if agent == "grok" else log.stem[-36:]
    return Session(f"{agent}:{native}", home / log, home)


def _not_logs(folder: str, names: list[str]) -> list[str]:
    """The credentials of a sample home, which lie in the folders of its agents themselves."""
    return [name for name in names if Path(folder).parent.name == "home" and (Path(folder) / name).is_file()]


class Turn:
    """The next turn of a session, made beside it; `write` appends it."""

    def __init__(self, session: Session, seed: int) -> None:
        tries = (_more(session, seed + number * 1000) for number in range(_TRIES))
        self._more = min(tries, key=lambda more: abs(TURN_BYTES - sum(map(len, more.values()))))

    def write(self) -> Written:
        """Append line by line, as agents do."""
        for path, data in self._more.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("ab", buffering=0) as file:
                for line in data.splitlines(keepends=True):
                    file.write(line)
        return Written(time.time(), sum(map(len, self._more.values())))


def _more(session: Session, seed: int) -> dict[Path, bytes]:
    """What a turn adds to each log of a session. Made on a short copy, for the log itself is written in one go."""
    with TemporaryDirectory(dir=session.home.parent) as folder:
        alone = Path(folder)
        copies = {alone / path.relative_to(session.home): path for path in _logs_of(session)}
        for copy, path in copies.items():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(_ends(path))
            # The turn begins some minutes after this time.
            os.utime(copy, (time.time() - 400,) * 2)
        sizes = {copy: copy.stat().st_size for copy in copies}
        append(alone, share=1, seed=seed)
        grown = {copy: copy.read_bytes()[sizes.get(copy, 0) :] for copy in sorted(alone.rglob("*.jsonl"))}
        return {session.home / copy.relative_to(alone): data for copy, data in grown.items() if data}


def _logs_of(session: Session) -> list[Path]:
    return sorted(session.log.parent.glob("*.jsonl")) if session.uid.startswith("grok:") else [session.log]


def _ends(path: Path) -> bytes:
    """The first line and the last ones."""
    with path.open("rb") as file:
        head = file.readline()
        file.seek(max(len(head), path.stat().st_size - _TAIL_BYTES))
        tail = file.read()
    return head + (tail if len(tail) < _TAIL_BYTES else tail[tail.index(b"\n") + 1 :])
