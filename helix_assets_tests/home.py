"""A small home of agents' logs and the memory made of it, for tests that sweep for real."""

from __future__ import annotations

import io
import itertools
import json
import os
import shutil
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import NAMESPACE_OID, uuid5

import orjson
import pytest

from helix_assets.ask.export import export
from helix_assets.model.digest_text import whole_digest, written_digest
from helix_assets.settings import load_settings
from helix_assets.settings.folders import agent_variables
from helix_assets.store.catalog import live_files, sessions
from helix_assets.store.catalog.catalog import Catalog
from helix_assets.store.catalog.connection import Connection, Row, connect
from helix_assets.store.fact_files import FactFile
from helix_assets.store.store import Store, open_store
from helix_assets.sweep.sweep import sweep
from helix_assets.sweep.sweep_report import SweepReport
from helix_assets.sweep.warm import Warm

NOW = datetime(2026, 6, 20, 12, 0, tzinfo=UTC)
Given = ParamSpec("Given")
Answer = TypeVar("Answer")


def ask(
    store: Store,
    question: Callable[Concatenate[Connection, Given], Answer],
    *values: Given.args,
    **named: Given.kwargs,
) -> Answer:
    """What the catalog answers to one of its questions."""
    with store.catalog.reading() as connection:
        return question(connection, *values, **named)


def rows_of(store: Store, table: str) -> list[Row]:
    """All rows of a table of the catalog."""
    with store.catalog.reading() as connection:
        return list(connection.execute(f"SELECT * FROM {table}"))


def line(kind: str, uuid: str, at: str, **more: Any) -> bytes:
    """A Claude record as one line; `at` is hh:mm:ss on 2026-06-05. The uuid is made of any short name."""
    uuid = str(uuid5(NAMESPACE_OID, uuid)) if uuid else ""
    record = {"type": kind, "uuid": uuid, "timestamp": f"2026-06-05T{at}.000Z", "cwd": "/home/u/shop", **more}
    return json.dumps(record).encode() + b"\n"


def prompt(uuid: str, at: str, text: str, **more: Any) -> bytes:
    """What a person typed."""
    return line("user", uuid, at, message={"role": "user", "content": text}, **more)


def answer(uuid: str, at: str, text: str, *, message: str, output: int = 10, **more: Any) -> bytes:
    """A text of the agent, one line of the API message `message`."""
    body = {
        "id": message.ljust(20, "0"),
        "model": "claude-opus-4-5",
        "content": [{"type": "text", "text": text}],
        "usage": {"input_tokens": 3, "output_tokens": output},
    }
    return line("assistant", uuid, at, message=body, **more)


def call(uuid: str, at: str, tool: str, call_id: str, **arguments: Any) -> bytes:
    """A tool call of the agent."""
    block = {"type": "tool_use", "id": call_id, "name": tool, "input": arguments}
    body = {
        "id": f"msg_{uuid}".ljust(20, "0"),
        "model": "claude-opus-4-5",
        "content": [block],
        "usage": {"input_tokens": 1, "output_tokens": 5},
    }
    return line("assistant", uuid, at, message=body)


def result(uuid: str, at: str, call_id: str, text: str, *, failed: bool = False) -> bytes:
    """What the tool gave back."""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": failed}
    return line("user", uuid, at, message={"role": "user", "content": [block]})


@dataclass
class Memory:
    """A temporary home with its store. `write` puts lines where Claude would; `sweep` takes them in.

    The store is closed when nobody needs this any longer.
    """

    folder: Path
    environ: Mapping[str, str] = field(default_factory=dict)
    now: datetime = NOW

    def __post_init__(self) -> None:
        (self.folder / "home").mkdir(parents=True, exist_ok=True)
        self.store: Store = open_store(load_settings(self.variables))
        weakref.finalize(self, self.store.close)

    @property
    def variables(self) -> dict[str, str]:
        """The environment in which a process finds this home and its store."""
        home = self.folder / "home"
        return {
            "HOME": str(home),
            "HELIX_DATA_DIR": str(self.folder / "data"),
            **{variable: str(home / agent) for agent, variable in agent_variables().items()},
            "HELIX_SWEEP_WORKERS": "1",
            **self.environ,
        }

    @property
    def projects(self) -> Path:
        return self.folder / "home" / "claude" / "projects"

    def path(self, name: str, project: str = "-home-u-shop") -> Path:
        path = self.projects / project / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write(self, name: str, *lines: bytes, project: str = "-home-u-shop", append: bool = False) -> Path:
        path = self.path(name, project)
        with path.open("ab" if append else "wb") as file:
            file.write(b"".join(lines))
        return path

    def put(self, place: str, data: bytes, *, append: bool = False) -> Path:
        """Put bytes at a place under the home, such as `codex/sessions/rollout-x.jsonl`."""
        path = self.folder / "home" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab" if append else "wb") as file:
            file.write(data)
        return path

    def link(self, place: str | bytes, target: Path | str) -> Path:
        """Put a link at a place under the home."""
        path = Path(os.fsdecode(os.path.join(os.fsencode(self.folder / "home"), os.fsencode(place))))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
        return path

    def sweep(self, warm: Warm | None = None) -> SweepReport:
        return sweep(self.store, clock=lambda: self.now, warm=warm)

    def exported(self) -> bytes:
        out = io.BytesIO()
        export(self.store, out)
        return out.getvalue()

    def digest(self, uid: str) -> dict[str, Any]:
        whole: dict[str, Any] = orjson.loads(written_digest(whole_digest(self.digest_text(uid))))
        return whole

    def digest_text(self, uid: str) -> str:
        """A session's digest as it is stored."""
        with self.store.catalog.reading() as connection:
            (text,) = connection.column("SELECT digest FROM digests WHERE session_uid = ?", (uid,))
        return str(text)

    def row(self, uid: str) -> Row:
        """A session's row."""
        return ask(self.store, sessions.one, uid)

    def parts(self, uid: str) -> list[Row]:
        """A session's live part files, in order."""
        number = self.row(uid).id
        return ask(self.store, live_files.parts_of, [number]).get(number, [])

    def raw_usage(self) -> int:
        return ask(self.store, live_files.raw_usage)

    def fact_files(self) -> list[FactFile]:
        return ask(self.store, live_files.fact_files)

    def close(self) -> None:
        self.store.close()


can_lose_powers = os.geteuid() != 0 or shutil.which("setpriv") is not None


@contextmanager
def statements_of(catalog: Catalog) -> Iterator[list[str]]:
    """What the catalog is asked meanwhile, with values filled in."""
    asked: list[str] = []
    catalog._close_idle()  # connections are opened again when they are needed
    with pytest.MonkeyPatch.context() as patch:

        def connect_and_listen(path: Path) -> Connection:
            connection = connect(path)
            connection.set_trace_callback(asked.append)
            return connection

        patch.setattr("helix_assets.store.catalog.catalog.connect", connect_and_listen)
        yield asked
        catalog._close_idle()


def without_powers(environ: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a process without capabilities: modes count even where the tests run as root."""
    without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    command = [*without, sys.executable, "-m", "helix_assets", *arguments]
    return subprocess.run(command, env={**os.environ, **environ}, capture_output=True, check=False)


def swept_without_powers(environ: Mapping[str, str]) -> dict[str, Any]:
    """The report of a sweep by such a process."""
    done = without_powers(environ, "sweep", "--json")
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def conversation(turns: int, *, start: int = 0, session: str = "a") -> list[bytes]:
    """A plain conversation with a tool call in every turn, in file order."""
    lines: list[bytes] = []
    for turn in range(start, start + turns):
        at = [f"10:{turn:02d}:{second:02d}" for second in (0, 5, 10, 20)]
        key = f"{session}{turn}"
        lines += [
            prompt(f"p{key}", at[0], f"please do step {turn}"),
            call(f"c{key}", at[1], "Bash", f"toolu_{key}", command="pytest -q"),
            result(f"r{key}", at[2], f"toolu_{key}", f"Exit code {turn % 2}\n{turn} failed", failed=bool(turn % 2)),
            answer(f"a{key}", at[3], f"step {turn} is done", message=f"msg_a{key}", output=10 + turn),
        ]
    return lines


def cut(data: bytes, places: Sequence[int]) -> list[bytes]:
    """The bytes in pieces, cut at these places."""
    edges = [0, *sorted(p % (len(data) + 1) for p in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]
