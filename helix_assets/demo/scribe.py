"""Writing log files: JSON lines with true counts, small damage on request, private modes, fixed times.

Belongs here: what the writers of all agents share. Not here: the shape of any agent's records.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from helix_assets.demo.private import date_file, private_folder
from helix_assets.demo.scenery import Repo
from helix_assets.demo.story import Story, Turn
from helix_assets.demo.truth import PlantedSecret, SessionTruth, Truth

Record = dict[str, Any]

# Stands for half an emoji: logs contain the escape \ud83d alone if an agent cut a string between the two halves.
LONE_SURROGATE = "\ue000"
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def dashed(text: str) -> str:
    """Replace all but ASCII letters and digits by dashes, as Claude names its project folders."""
    return re.sub("[^A-Za-z0-9]", "-", text)


@dataclass(frozen=True)
class Desk:
    """What a writer gets: where to write, where to count, and its random numbers."""

    out: Path
    truth: Truth
    rng: Random
    dirty: bool = False


class LineFile:
    """One log file that is being written or extended."""

    def __init__(self, desk: Desk, path: Path, session: SessionTruth) -> None:
        self.path = path
        self.name = path.relative_to(desk.out).as_posix()
        self.size = 0
        self._truth, self._session = desk.truth, session
        self._luck = Random(f"{self.name} {desk.truth.seed}") if desk.dirty else None
        self._line = b""
        private_folder(path.parent)
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "wb")
        session.files.append(self.name)

    def add(self, record: Mapping[str, Any], at: int | None = None) -> bytes:
        """Append a record; `at` is its time. Returns the line."""
        text = _encode(record)
        if LONE_SURROGATE in text:
            text = text.replace(LONE_SURROGATE, "\\ud83d")
        line = text.encode()
        self.add_copy(line)
        self._session.tally["records"] += 1
        if at is not None:
            self._session.seen_at(at)
        if self._luck and self._luck.random() < 0.002:
            self._spoil(self._luck)
        return line

    def add_copy(self, line: bytes) -> None:
        """Append a line that also belongs to another session."""
        self._line = line
        self._put(line + b"\n")
        self._session.tally["records_in_files"] += 1

    def close(self, ms: int) -> None:
        """Close the file, and set its time to that of the last write."""
        if self._luck and self._line and self._luck.random() < 0.04:
            self._put(self._line[: max(8, len(self._line) * 2 // 3)])
            self._truth.torn_files.append(self.name)
            self._session.tally["unparsed_lines"] += 1
        self._file.close()
        self._truth.jsonl_bytes += self.size
        date_file(self.path, ms)

    def _spoil(self, luck: Random) -> None:
        if luck.random() < 0.5:
            self._put(b"\n")
            self._truth.blank_lines[self.name] += 1
            return
        self._put((b"\0" * 40 if luck.random() < 0.3 else self._line[: len(self._line) // 2]) + b"\n")
        self._truth.bad_lines[self.name] += 1
        self._session.tally["unparsed_lines"] += 1

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self.size += len(data)


class Scribe:
    """Base of the writers: one session, its clock, its ids and its truth."""

    flavor: str

    def __init__(self, desk: Desk, repo: Repo, sid: str, start_ms: int, *, counts_reasoning: bool) -> None:
        self.desk, self.rng, self.repo, self.sid = desk, desk.rng, repo, sid
        self.now = start_ms
        self.branch = self.rng.choice(repo.branches)
        self.truth = SessionTruth(f"{self.flavor}:{sid}", repo.cwd, self.branch, counts_reasoning)
        self.story = Story(self.rng, repo)
        self._pace = 1.0
        self._files: list[LineFile] = []
        desk.truth.sessions[self.truth.uid] = self.truth

    @property
    def paths(self) -> list[Path]:
        """The log files written to."""
        return [file.path for file in self._files]

    @property
    def size(self) -> int:
        """Bytes written so far, all files of the session together."""
        return sum(file.size for file in self._files)

    def write(self, target: int) -> None:
        """Play turns until the session has about that many bytes, then close its files.

        Very large sessions run at a faster clock, so that they still end the same day.
        """
        self._pace = min(1.0, 8_000_000 / target)
        while True:
            self.play(self.story.turn(target - self.size))
            if self.size >= max(target * 0.8, target - 15_000):
                break
        self.finish()

    def finish(self) -> None:
        """Close the files and record the planted secrets."""
        for file in self._files:
            file.close(self.now)
        secrets = self.desk.truth.secrets
        secrets += [PlantedSecret(self.truth.uid, kind, value) for kind, value in self.story.leaks]

    def play(self, turn: Turn) -> None:
        """Write one turn as the agent would."""
        raise NotImplementedError

    def pick_up(self, records: Sequence[Record]) -> None:
        """Continue where the records of the session's main file end."""
        raise NotImplementedError

    def start_file(self, path: Path) -> LineFile:
        """Start a file of this session."""
        self._files.append(LineFile(self.desk, path, self.truth))
        return self._files[-1]

    def tick(self, low_ms: int = 40, high_ms: int = 4_000) -> int:
        """Let some time pass; returns the new time."""
        self.now += int(self.rng.randrange(low_ms, high_ms) * self._pace)
        return self.now

    def worn(self, text: str) -> str:
        """Return the text, in a dirty home sometimes with half an emoji at its end."""
        return text + LONE_SURROGATE if self.desk.dirty and self.rng.random() < 0.003 else text

    def count_step(self, kind: str, fate: str, exit_code: int) -> None:
        """Count what a step did, whatever tool did it."""
        tally = self.truth.tally
        tally["test_runs"] += kind == "test"
        tally["test_runs_failed"] += kind == "test" and exit_code != 0
        tally["file_edits"] += kind in ("edit", "write") and fate == "ok"
        tally["commits"] += kind == "commit"


def uuid4(rng: Random) -> str:
    """Return a random UUID drawn from the generator."""
    return _as_uuid((rng.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62)) | (0x4 << 76) | (0x2 << 62))


def uuid7(rng: Random, ms: int) -> str:
    """Return a UUID that begins with a time."""
    return _as_uuid((ms << 80) | (0x7 << 76) | (rng.getrandbits(12) << 64) | (0x2 << 62) | rng.getrandbits(62))


def _as_uuid(number: int) -> str:
    text = f"{number:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
