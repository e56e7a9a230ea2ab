"""What runs all day, and how it is started: `helix up` of one or two checkouts, bare `dagster dev`, `agentsview serve`.

Belongs here: commands, environments, when a server answers, when it has come to rest. Not here: what is measured.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.contenders import AGENTSVIEW_VERSION, agentsview_environ, find_agentsview, our_environ
from bench.dagster_tree import read
from bench.processes import bare_environ
from bench.stage import note
from bench.trees import Server

CHECKOUT = Path(__file__).resolve().parents[1]
NOW, BEFORE, DAGSTER, AGENTSVIEW = "now", "before", "bare dagster dev", "agentsview"
START_S, REST_S = 900, 1200
_LOOK_S = 5
# A server that looks at its logs every 30 s uses less in 5 s, a run more.
_AT_REST_CPU_S = 1.0
_BARE = """import dagster as dg

@dg.asset
def one_asset() -> int:
    return 1

@dg.sensor(target=[one_asset], default_status=dg.DefaultSensorStatus.RUNNING)
def one_sensor(context: dg.SensorEvaluationContext) -> dg.SkipReason:
    return dg.SkipReason("nothing new")

defs = dg.Definitions(assets=[one_asset], sensors=[one_sensor])
"""


@dataclass(frozen=True)
class Contender:
    """A program that stays up: on which folder of its own, and how it is started on a port."""

    name: str
    state: Path
    environ: Mapping[str, str]
    command: Callable[[int], list[str]]
    answers_at: str
    python: str = sys.executable

    @property
    def is_ours(self) -> bool:
        """Whether it is this product, of whatever age."""
        return self.name in (NOW, BEFORE)

    @contextmanager
    def running(self) -> Iterator[Server]:
        """The server, from its first answer on."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
        note(f"starting {self.name}")
        with Server(self.command(port), self.environ, self.state.parent / f"{self.state.name}.txt") as server:
            self._wait(server, f"http://127.0.0.1:{port}{self.answers_at}")
            yield server

    def _wait(self, server: Server, url: str) -> None:
        deadline = time.monotonic() + START_S
        while not _answers(url):
            if said := server.ended():
                raise RuntimeError(f"{self.name} ended at its start: {said}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} did not answer at {url} in {START_S} s; see {server.log}")
            time.sleep(0.2)

    def runs(self) -> list[tuple[float | None]]:
        """When each run that Dagster knows of ended; None where it is under way."""
        if not (self.state / "dagster" / "storage" / "history" / "runs.db").exists():
            return []
        return [(ended,) for (ended,) in read(self.state, "history/runs", "select end_time from runs")]

    def rest(self, server: Server, seconds: float) -> None:
        """Wait until it has done what was to be done: so long no run, and little CPU in any few seconds."""
        deadline, since, last = time.monotonic() + REST_S, time.monotonic(), server.spent()
        while time.monotonic() - since < seconds:
            if time.monotonic() > deadline:
                note(f"{self.name} did not come to rest in {REST_S} s: measured as it is")
                return
            time.sleep(min(_LOOK_S, seconds))
            now = server.spent()
            if (now - last).cpu_s > _AT_REST_CPU_S or (None,) in self.runs():
                since = time.monotonic()
            last = now


def ours(name: str, folder: Path, home: Path, checkout: Path) -> Contender:
    """`helix up` of a checkout, with its own environment if it has one."""
    state = folder / name / "state"
    own = checkout / ".venv" / "bin" / "python"
    python = str(own) if own.exists() and checkout != CHECKOUT else sys.executable
    config = folder / name / "helix.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.touch()
    environ = our_environ(home, state) | {"PYTHONPATH": str(checkout), "HELIX_CONFIG": str(config)}
    return Contender(
        name,
        state,
        environ,
        lambda port: [python, "-m", "helix_assets", "up", "--port", str(port)],
        "/server_info",
        python,
    )


def bare_dagster(folder: Path) -> Contender:
    """`dagster dev` with one asset and one sensor, which finds nothing every 30 s."""
    state = folder / "dagster" / "state"
    state.mkdir(parents=True)
    (state / "dagster.yaml").write_text("telemetry: {enabled: false}\nnux: {enabled: false}\n")
    (state / "bare.py").write_text(_BARE)
    environ = bare_environ(folder / "dagster" / "home") | {"DAGSTER_HOME": str(state), "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-m", "dagster", "dev", "-f", str(state / "bare.py"), "-h", "127.0.0.1"]
    return Contender(DAGSTER, state, environ, lambda port: [*command, "-p", str(port)], "/server_info")


def agentsview(folder: Path, home: Path, program: str) -> Contender:
    """`agentsview serve` on the same logs, with its watcher."""
    state = folder / "agentsview" / "state"
    state.mkdir(parents=True)
    command = [program, "serve", "--no-browser", "--no-update-check"]
    return Contender(
        AGENTSVIEW, state, agentsview_environ(home, state), lambda port: [*command, "--port", str(port)], "/"
    )


def installed_agentsview(named: str | None) -> tuple[str | None, str]:
    """The program named, that on the PATH, or one in an environment of its own below this checkout, made if need be."""
    program, about = find_agentsview(named)
    if program or named:
        return program, about
    own = CHECKOUT / ".bench-cache" / f"agentsview-{AGENTSVIEW_VERSION}"
    if not (own / "bin" / "agentsview").exists():
        note(f"installing agentsview {AGENTSVIEW_VERSION} into {own}")
        subprocess.run([sys.executable, "-m", "venv", str(own)], check=True)
        pip = [str(own / "bin" / "pip"), "install", "--quiet", f"agentsview=={AGENTSVIEW_VERSION}"]
        if subprocess.run(pip, check=False, stdout=sys.stderr).returncode:
            return None, about
    return find_agentsview(str(own / "bin" / "agentsview"))


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except (urllib.error.HTTPError, OSError):
        return False
