"""Logs that agents and people do everything to: they grow, are torn, copied, cut, moved, packed and deleted.

Belongs here: what lies on disk, and the truth about it: every record ever written, every one that a sweep has met. Not
here: what is done to the store, or the judging of it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import zstandard

from helix_assets_tests.home import answer, conversation

_DAY = b"2026-06-05"
_MOST_TURNS = 55
PROJECTS = ("claude/projects/-home-u-shop", "claude/projects/-home-u-till")


@dataclass
class Log:
    """One file of a session. `place` is below the home; `met` are the records that a whole sweep has seen in it."""

    uid: str
    place: str
    day: str
    tag: str
    content: bytes = b""
    pending: bytes = b""
    turns: int = 0
    written: set[bytes] = field(default_factory=set)
    met: set[bytes] = field(default_factory=set)
    is_whole: bool = True

    @property
    def word(self) -> str:
        """Stands in this log alone, as long as no other copies it."""
        return f"zq{self.tag}xylo"

    @property
    def records(self) -> set[bytes]:
        """Its whole lines as they lie on disk now; the last one may lack its end."""
        *whole, last = self.content.split(b"\n")
        return {*whole, last} if _is_object(last) else set(whole)

    def next_turns(self, count: int, *, large: int) -> bytes:
        """What the agent says next."""
        start, self.turns = self.turns, min(self.turns + count, _MOST_TURNS)
        number = self.turns - start
        lines = _codex(start, number) if self.uid.startswith("codex:") else self._claude(start, number, large)
        return b"".join(lines).replace(_DAY, self.day.encode())

    def _claude(self, start: int, count: int, large: int) -> list[bytes]:
        if not count:
            return []
        text = f"quokkaword1234 {self.word} " * large
        at, key = f"11:{self.turns:02d}:00", f"{self.tag}{self.turns}"
        return [
            *conversation(count, start=start, session=self.tag),
            answer(f"big{key}", at, text, message=f"msg_big{key}"),
        ]


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except ValueError:
        return False


def _codex(start: int, turns: int) -> list[bytes]:
    """Turns of a rollout, whose records have no ids of their own and say sums of tokens."""
    lines: list[tuple[str, str, dict[str, object]]] = []
    for turn in range(start, start + turns):
        usage = {"input_tokens": 100, "cached_input_tokens": 0, "output_tokens": 10, "total_tokens": 110}
        info = {"last_token_usage": usage, "total_token_usage": {n: count * (turn + 1) for n, count in usage.items()}}
        lines += [
            (f"10:{turn:02d}:01", "event_msg", {"type": "user_message", "message": f"go on with {turn}"}),
            (f"10:{turn:02d}:05", "event_msg", {"type": "token_count", "info": info}),
        ]
    return [_codex_line(*one) for one in lines]


def _codex_line(at: str, kind: str, payload: dict[str, object]) -> bytes:
    stamp = f"{_DAY.decode()}T{at}.000Z"
    return json.dumps({"timestamp": stamp, "type": kind, "payload": payload}).encode() + b"\n"


def new_logs(days: Sequence[str]) -> list[Log]:
    """Five sessions of Claude, one of them with a subagent's file, and two of Codex."""
    found = []
    for number, tag in enumerate("abcde"):
        native = f"{tag * 8}-1111-4111-8111-{number:012d}"
        found.append(Log(f"claude:{native}", f"{PROJECTS[number % 2]}/{native}.jsonl", days[number], tag))
    first = found[0].uid.partition(":")[2]
    found.append(Log(found[0].uid, f"{PROJECTS[0]}/{first}/subagents/agent-f1.jsonl", days[0], "f"))
    for number, tag in enumerate("gh"):
        native = f"019e{number:04d}-0000-7000-8000-{number:012d}"
        about = {"id": native, "cwd": "/home/u/shop", "cli_version": "0.90.0"}
        log = Log(f"codex:{native}", f"codex/sessions/rollout-{days[5]}T10-00-00-{native}.jsonl", days[5], tag)
        log.pending = _codex_line("10:00:00", "session_meta", about).replace(_DAY, log.day.encode())
        found.append(log)
    return found


class Logs:
    """All logs of a home, and which sessions have come to tell each other's records."""

    def __init__(self, home: Path, days: Sequence[str]) -> None:
        self.home, self.all = home, new_logs(days)
        self._families = {log.uid: {log.uid} for log in self.all}

    def path(self, log: Log) -> Path:
        return self.home / log.place

    def family(self, uid: str) -> frozenset[str]:
        """The sessions that share records with this one, itself among them."""
        return frozenset(self._families[uid])

    def families(self) -> set[frozenset[str]]:
        return {self.family(uid) for uid in self._families}

    def of(self, uids: frozenset[str] | set[str]) -> list[Log]:
        return [log for log in self.all if log.uid in uids]

    def on_disk(self) -> list[Log]:
        return [log for log in self.all if self.path(log).exists()]

    # -- what happens to them ----------------------------------------------------------------------------------------

    def grow(self, log: Log, turns: int, *, large: int, leave: int = 0) -> None:
        """Append; of what is new the last `leave` bytes come with the next growth."""
        more = log.pending + log.next_turns(turns, large=large)
        leave = min(leave, len(more))
        self._append(log, more[: len(more) - leave])
        log.pending = more[len(more) - leave :]

    def resume(self, source: Log, target: Log, records: int) -> None:
        """Have one session begin or go on with another's history."""
        if target.pending and target.content:
            self._append(target, target.pending)
            target.pending = b""
        self._append(target, b"".join(source.content.splitlines(keepends=True)[:records]).rpartition(b"\n")[0] + b"\n")
        both = self._families[source.uid] | self._families[target.uid]
        self._families |= dict.fromkeys(both, both)

    def delete(self, log: Log) -> None:
        self.path(log).unlink()
        log.content, log.pending, log.is_whole = b"", b"", False

    def cut(self, log: Log) -> None:
        """Put a new file with its second half alone in its place."""
        lines = log.content.splitlines(keepends=True)
        log.content, log.is_whole = b"".join(lines[len(lines) // 2 :]), False
        self._replace(log)

    def copy_in_place(self, log: Log) -> None:
        """The same bytes as another file, as an editor or a backup leaves it."""
        self._replace(log)

    def move(self, log: Log, place: str) -> None:
        """The same file in another folder."""
        before, log.place = self.path(log), place
        self.path(log).parent.mkdir(parents=True, exist_ok=True)
        os.rename(before, self.path(log))

    def pack(self, log: Log) -> None:
        """As Codex does with old rollouts; what comes later is a frame of its own."""
        self.path(log).unlink()
        log.place += ".zst"
        self._write(log, log.content, "wb")

    def _append(self, log: Log, data: bytes) -> None:
        log.content += data
        self._write(log, data, "ab")
        log.written |= log.records

    def _replace(self, log: Log) -> None:
        path = self.path(log)
        fresh = path.with_name("fresh")
        self._write(log, log.content, "wb", fresh)
        os.replace(fresh, path)

    def _write(self, log: Log, data: bytes, mode: str, path: Path | None = None) -> None:
        path = path or self.path(log)
        path.parent.mkdir(parents=True, exist_ok=True)
        if log.place.endswith(".zst"):
            data = zstandard.compress(data)
        with path.open(mode) as file:
            file.write(data)
