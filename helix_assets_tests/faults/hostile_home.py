"""A home of agents' logs that is as odd as files, names and lines can be; every good record carries a mark of its own.

Belongs here: making it, and what must come of it. Links and special files are made where the system lets us.
"""

from __future__ import annotations

import itertools
import json
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

DEEP = 100_000
_HOSTILE_IDS: tuple[Any, ...] = (
    "", "../../../../evil", "/etc/evil", "..\\evil", "a\0b", "s" * 5000, "-rf", "x'; drop table sessions;--", ".",
    "a\nb", "\ud800", "<img src=x>", "{0.__class__}%s", "claude:x:y", "\u202egnp.exe", 5, None, ["a"],
)  # fmt: skip
_HOSTILE_FOLDERS = (
    "C:\\Users\\u",
    "\\\\srv\\share",
    "/home/u/a  b",
    "/home/é",
    "/a\nb",
    "/home/../etc",
    "=cmd|'x'!A1",
    "",
)
_TIMES = (
    "1970-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+23:59", "2026-06-05T23:59:59+14:00",
    "2026-06-05T21:00:00", "2016-12-31T23:59:60Z", "yesterday", ":60" * 1000, 5, None,
)  # fmt: skip
_NUMBERS = (
    b"NaN",
    b"Infinity",
    b"1e400",
    b"9" * 5000,
    b"-5",
    b"1180591620717411303424",
    b"18446744073709551615",
    b"true",
)


@dataclass
class HostileHome:
    """What was written: the mark of every good record, bad lines by file, and what must never be read or stored."""

    root: Path
    marks: set[str] = field(default_factory=set)
    bad_lines: dict[Path, int] = field(default_factory=dict)
    skipped: set[Path] = field(default_factory=set)
    forbidden: set[Path] = field(default_factory=set)
    secrets: set[str] = field(default_factory=set)
    _count: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def project(self) -> Path:
        return self.root / ".claude" / "projects" / "-home-u-shop"

    def record(self, **more: Any) -> bytes:
        """A good Claude record with a mark of its own, as a line."""
        number = next(self._count)
        mark = f"MARK{number:08d}"
        self.marks.add(mark)
        record = {
            "type": "user",
            "uuid": str(UUID(int=number + (7 << 100))),
            "timestamp": f"2026-06-05T10:{number // 60 % 60:02d}:{number % 60:02d}.000Z",
            "cwd": "/home/u/shop",
            "mark": mark,
            "message": {"role": "user", "content": "step"},
        }
        return json.dumps(record | more).encode() + b"\n"

    def records(self, count: int = 3) -> bytes:
        return b"".join(self.record() for _ in range(count))

    def write(self, name: str | bytes, data: bytes, bad: int = 0, folder: Path | None = None) -> Path:
        path = Path(os.fsdecode(os.path.join(os.fsencode(folder or self.project), os.fsencode(name))))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if bad:
            self.bad_lines[path] = bad
        return path

    def secret(self, text: str) -> str:
        self.secrets.add(text)
        return text


def make(root: Path, *, big: bool = False) -> HostileHome:
    """Build the home under `root`; `big` adds a line of 200 MB."""
    home = HostileHome(root)
    for step in (_texts, _lines, _names, _folders, _agents, _forbidden, _special_files, _secrets):
        step(home)
    if big:
        _big_line(home)
    return home


def _texts(home: HostileHome) -> None:
    """Lines whose bytes are odd and whose record is good."""

    def changed(old: bytes, new: bytes) -> bytes:
        return home.records().replace(old, new)

    cases: dict[str, Callable[[], bytes]] = {
        "plain": home.records,
        "crlf": lambda: changed(b"\n", b"\r\n"),
        "byte-order-mark": lambda: b"\xef\xbb\xbf" + home.records(),
        "blank-lines": lambda: changed(b"\n", b"\n\n  \n"),
        "no-final-newline": lambda: home.records()[:-1],
        "torn-last-line": lambda: home.records() + b'{"type":"user","uuid":"torn',
        "invalid-utf8": lambda: changed(b"step", b"st\xff\xfe\xe9p"),
        "lone-surrogate": lambda: changed(b"step", b"st\\ud800ep \\udfff"),
        "escaped-name": lambda: home.record(snapshot={"trackedFileBackups": {"\\node_modules": None}}),
        "nul": lambda: changed(b"step", b"st\\u0000ep"),
        "unicode-newlines": lambda: changed(b"step", "st\u2028\u2029\u0085\x0b\x0cep".encode()),
        "terminal": lambda: changed(b"step", b"\\u001b]8;;http://x\\u0007\\u001b[2Jstep"),
        "double-keys": lambda: changed(b'"cwd"', b'"type":"user","cwd"'),
        "times": lambda: b"".join(home.record(timestamp=time) for time in _TIMES),
        "wrong-types": lambda: b"".join(
            home.record(**{key: [{}]})
            for key in ("timestamp", "cwd", "gitBranch", "isSidechain", "version", "parentUuid")
        ),
        "numbers": lambda: b"".join(
            home.record(
                message={"id": "m", "usage": {"input_tokens": "HERE"}, "content": "x"}, type="assistant"
            ).replace(b'"HERE"', number)
            for number in _NUMBERS
        ),
        "huge-results": lambda: home.record(
            message={"content": [{"type": "tool_result", "content": "Exit code " + "9" * 40, "is_error": True}]},
            toolUseResult={"exitCode": 1 << 63, "durationMs": 1 << 63, "stdout": ""},
        ),
    }
    for name, data in cases.items():
        home.write(f"{name}.jsonl", data())


def _lines(home: HostileHome) -> None:
    """Lines that are no records, between good ones."""
    deep = b'{"type":"user","x":' + b"[" * DEEP + b"]" * DEEP + b"}\n"
    cases = {
        "broken": b"{broken\n\0\0\0\0\nnot json\n",
        "no-objects": b'[1]\n"x"\n7\nnull\n',
        "deep": deep,
        "zeros": b"\0" * 100_000 + b"\n",
    }
    for name, bad in cases.items():
        home.write(f"{name}.jsonl", home.records() + bad + home.records(), bad=bad.count(b"\n"))
    garbage = bytes(number * 7919 % 251 for number in range(200_000))
    lines = [line for line in garbage.split(b"\n") if line.strip()]
    home.write("garbage.jsonl", garbage, bad=len(lines) - 1)  # the last one has no newline: it waits
    home.write("empty.jsonl", b"")
    for levels in (200, 300, 900, 990, 1000, 1020):
        nested = b"[" * levels + b"]" * levels
        call = (
            b'{"type":"assistant","message":{"content":[{"type":"tool_use","name":"Bash","input":{"command":%b}}]}}\n'
        )
        home.write(f"nested-{levels}.jsonl", home.records() + call % nested + home.records())


def _names(home: HostileHome) -> None:
    """Files and sessions with names that are no names."""
    names = (b"new\nline", b"", b"n" * 249, b"tab\t'\"", b"-rf", b"\xe2\x80\xaertl", b"bad\xff\xfe", b"bad\xff\xfd")
    for name in names:
        home.write(name + b".jsonl", home.records())
    home.write(
        "plain.jsonl", home.records(), folder=Path(os.fsdecode(os.fsencode(home.project) + b"\xff'$(touch pwned)"))
    )
    for number, session in enumerate(_HOSTILE_IDS):
        home.write(f"agent-{number}.jsonl", home.record(sessionId=session) + home.record(sessionId=session))


def _folders(home: HostileHome) -> None:
    for number, cwd in enumerate(_HOSTILE_FOLDERS):
        home.write(f"cwd-{number}.jsonl", home.record(cwd=cwd) + home.record(cwd=cwd))


def _agents(home: HostileHome) -> None:
    """Plain logs of the other agents, under odd names; one session in several files; a copy of another's history."""
    item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]}
    rollout = [
        {"timestamp": "2026-06-05T10:00:00Z", "type": "session_meta", "payload": {"id": "../x", "cwd": "/h"}},
        {"timestamp": "2026-06-05T10:00:01Z", "type": "response_item", "payload": item},
    ]
    lines = b"".join(json.dumps(line).encode() + b"\n" for line in rollout)
    home.write(b"rollout-\xff.jsonl", lines, folder=home.root / ".codex" / "sessions" / "2026" / "06" / "05")
    update = {"params": {"update": {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": "hi"}}}}
    folder = Path(os.fsdecode(os.fsencode(home.root / ".grok" / "sessions" / "%2Fx") + b"/\xff\xfe"))
    home.write("updates.jsonl", json.dumps(update).encode() + b"\n", folder=folder)
    home.write("whole.jsonl", home.record(sessionId="whole") + home.record(sessionId="whole"))
    for number in (1, 2):
        home.write(f"agent-whole-{number}.jsonl", home.record(sessionId="whole") + home.record(sessionId="whole"))
    first = home.write("resumed-from.jsonl", home.records(4))
    home.write("resumed-into.jsonl", first.read_bytes() + home.records(2))


def _forbidden(home: HostileHome) -> None:
    """Credentials beside the transcripts, some named almost like them."""
    names = (
        ".claude/.credentials.json", ".claude/settings.json", ".claude.json", ".codex/auth.json", ".codex/config.toml",
        ".grok/auth.json", ".netrc", ".ssh/id_ed25519", ".claude/projects/-home-u-shop/.env",
        ".claude/projects/-home-u-shop/auth.json", ".codex/sessions/2026/06/05/auth.json",
        ".grok/sessions/%2Fx/credentials.json", ".claude/file-history/x/y@v1", "outside/secret.jsonl",
    )  # fmt: skip
    for number, name in enumerate(names):
        path = home.root / name
        home.forbidden.add(
            home.write(path.name, home.secret(f"forbiddenfruit{number:04d}").encode(), folder=path.parent)
        )


def _special_files(home: HostileHome) -> None:
    """Links, pipes, sockets, devices and folders where transcripts are expected."""
    outside = home.root / "outside"
    targets: dict[str, Path | str] = {
        "link-out.jsonl": outside / "secret.jsonl",
        "link-credentials.jsonl": home.root / ".claude" / ".credentials.json",
        "link-nowhere.jsonl": "/nonexistent",
        "link-process.jsonl": "/proc/self/environ",
    }
    for name, target in targets.items():
        (home.project / name).symlink_to(target)
        home.skipped.add(home.project / name)
    (home.project / "link-folder").symlink_to(outside)
    (home.project / "link-loop").symlink_to(home.project)
    linked = home.project.parent / "-linked"
    linked.symlink_to(outside)
    home.skipped.add(linked)
    os.mkfifo(home.project / "pipe.jsonl")
    (home.project / "folder.jsonl").mkdir()
    home.skipped |= {home.project / "pipe.jsonl", home.project / "folder.jsonl"}
    with socket.socket(socket.AF_UNIX) as plug:
        here = Path.cwd()
        os.chdir(home.project)  # the path of a socket may be 108 bytes long
        plug.bind("socket.jsonl")
        os.chdir(here)
    home.skipped.add(home.project / "socket.jsonl")


def _secrets(home: HostileHome) -> None:
    """Secrets in every place of a record, and across every edge where a reader may cut."""
    token = home.secret("ghp_" + "wK3xTq8ZbV5nRf2YhJ7mLc9PdS4gAe6UtB1i")
    other = home.secret("sk-ant-api03-" + "Hq7Xv2" * 15 + "abcAA")
    lines = home.record(message={"role": "user", "content": f"export TOKEN={token}\n\x1b[32m{other}\x1b[0m"})
    lines += home.record(cwd=f"/home/u/{token}", gitBranch=token, **{other: "as a key"})
    lines += json.dumps({"type": "summary", "summary": f"used {token}"}).encode() + b"\n"
    home.write("secrets.jsonl", lines)
    edges = []
    for number, edge in enumerate((0, 100, 200, 256, 512, 1024, 4096, 8192, 65536, 131072, 1 << 20, 4 << 20)):
        secret = home.secret("ghp_" + f"{number:02d}" + "Zx7Kq2Wv9Rt4Yb6Nm1Lp8Js3Hd5Gf0CaQe"[:34])
        edges.append(home.record(message={"role": "user", "content": "w " * (edge // 2) + secret + " tail"}))
    home.write("edges.jsonl", b"".join(edges))


def _big_line(home: HostileHome) -> None:
    with home.write("big.jsonl", home.records()).open("ab") as file:
        file.write(b'{"type":"user","message":{"content":"')
        for _ in range(200):
            file.write(b"lorem ipsum dolor sit amet 0123456789 " * 27_594)
        file.write(b'"}}\n' + home.records())
    home.bad_lines[home.project / "big.jsonl"] = 1
