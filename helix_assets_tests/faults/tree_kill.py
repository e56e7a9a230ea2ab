"""The whole process tree of `helix up` killed while a Dagster run sweeps, and started again.

    python -m helix_assets_tests.faults.tree_kill [--sessions 4000]

Every process of the tree is struck at once: parent, server, run and workers. At the next start the run counts as
failed, the next sweep starts within a minute, and in the end every log is taken in, once.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click
from dagster import DagsterInstance, DagsterRunStatus, RunsFilter

from helix_assets.prove.verify import verify
from helix_assets.serve.dagster_home import prepare_dagster_home
from helix_assets.settings import load_settings
from helix_assets.store.lock import is_locked
from helix_assets.store.store import open_store
from helix_assets_tests.faults.many_files import make_files
from helix_assets_tests.home import conversation

PATIENCE_S = 120
T = TypeVar("T")


@dataclass(frozen=True)
class Restarted:
    """What the start after the kill did: how the struck run ended, when the next sweep began, and the next run."""

    struck: int
    ended_as: str
    next_sweep_s: float
    next_run_s: float
    wrong: tuple[str, ...]


def kill_and_restart(folder: Path, sessions: int) -> Restarted:
    """Serve, let news come, kill everything in the sweep of it, serve again."""
    os.umask(0o077)  # this process opens Dagster's records too, and makes what of them is missing
    home = folder / "home"
    make_files(home, 10)
    environ = _environ(folder)
    instance = DagsterInstance.from_config(str(prepare_dagster_home(folder / "data")))
    with _served(environ, folder) as tree:
        _wait(lambda: bool(_finished(instance)) and not _started(instance), "the first recorded sweep")
        before = {run.run_id for run in instance.get_runs()}
        _news(home, sessions)
        struck_run = _wait(lambda: next((r for r in _started(instance) if r not in before), ""), "a sweep of the news")
        victims = _tree_of(tree.pid)
        for pid in victims:
            os.kill(pid, signal.SIGKILL)
        tree.wait()
    begin = time.monotonic()
    with _served(environ, folder):
        _wait(lambda: is_locked(folder / "data"), "the next sweep")
        after = time.monotonic() - begin
        _wait(lambda: next((r for r in _runs(instance) if r not in before | {struck_run}), ""), "the next run")
        next_run = time.monotonic() - begin
        _wait(lambda: _count(environ) == sessions + 10, "all logs to be taken in")
        _wait(lambda: not _started(instance), "the sweep to end")
        run = instance.get_run_by_id(struck_run)
    instance.dispose()
    ended_as = run.status.value if run else "gone"
    return Restarted(len(victims), ended_as, after, next_run, tuple(_wrong(environ)))


def _environ(folder: Path) -> dict[str, str]:
    home = folder / "home"
    own = {"HOME": folder, "HELIX_DATA_DIR": folder / "data", "CLAUDE_CONFIG_DIR": home / "claude",
           "CODEX_HOME": home / "codex", "GROK_HOME": home / "grok"}  # fmt: skip
    return {**os.environ, **{name: str(value) for name, value in own.items()}}


def _news(home: Path, sessions: int) -> None:
    for number in range(sessions):
        folder = home / "claude" / "projects" / f"-home-u-news-{number // 500}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"news-{number}.jsonl").write_bytes(b"".join(conversation(3, session=f"news{number}-")))


@contextmanager
def _served(environ: Mapping[str, str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "helix_assets", "up", "--port", str(port)]
    with (folder / "up.log").open("ab") as log:
        tree = subprocess.Popen(command, env=dict(environ), stdout=log, stderr=log)
        try:
            yield tree
        finally:
            if tree.poll() is None:
                tree.terminate()
                tree.wait(60)


def _tree_of(root: int) -> list[int]:
    """The process and all that descend from it, the root first."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(pid): int(parent) for pid, parent in (line.split() for line in listing.splitlines())}
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def _runs(instance: DagsterInstance) -> list[str]:
    return [run.run_id for run in instance.get_runs() if run.status is not DagsterRunStatus.QUEUED]


def _started(instance: DagsterInstance) -> list[str]:
    return [run.run_id for run in instance.get_runs(RunsFilter(statuses=[DagsterRunStatus.STARTED]))]


def _finished(instance: DagsterInstance) -> list[str]:
    return [run.run_id for run in instance.get_runs(RunsFilter(statuses=[DagsterRunStatus.SUCCESS]))]


def _count(environ: Mapping[str, str]) -> int:
    store = open_store(load_settings(environ))
    try:
        with store.catalog.reading() as connection:
            return int(connection.value("select count(*) from digests"))
    finally:
        store.close()


def _wrong(environ: Mapping[str, str]) -> list[str]:
    store = open_store(load_settings(environ))
    try:
        return [f"{v.check}: {v.session_uid} {v.what}" for v in verify(store)]
    finally:
        store.close()


def _wait(ask: Callable[[], T], what: str) -> T:
    give_up = time.monotonic() + PATIENCE_S
    while not (answer := ask()):
        if time.monotonic() > give_up:
            raise RuntimeError(f"waited {PATIENCE_S} s for {what}")
        time.sleep(0.05)
    return answer


@click.command()
@click.option("--sessions", default=4_000)
def main(sessions: int) -> None:
    """Kill the whole tree; exit code 1 when the next start does not mend it within a minute."""
    with tempfile.TemporaryDirectory() as scratch:
        done = kill_and_restart(Path(scratch), sessions)
    click.echo(
        f"{done.struck} processes killed; the run ended as {done.ended_as}; the next sweep began after "
        f"{done.next_sweep_s:.0f} s, the next Dagster run after {done.next_run_s:.0f} s; {len(done.wrong)} wrong"
    )
    for line in done.wrong[:20]:
        click.echo(f"  {line}")
    raise SystemExit(done.ended_as != "FAILURE" or done.next_sweep_s > 60 or bool(done.wrong))


if __name__ == "__main__":
    main()
