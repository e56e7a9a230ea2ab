"""Two sweepers, an evictor and every reader beside a writer that grows, cuts, rewrites and rotates logs, and kills.

    python -m helix_assets_tests.faults.all_at_once [--seconds 600] [--seed 1]

Each part is a process group of its own; every few seconds one of them gets SIGKILL and is started again. No reader may
fail. At the end all logs are whole, and after a last sweep each session's digest has to be that of a store that met
nothing but the whole logs, unless a loss record names it.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, StringIO, TextIOWrapper
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import click

from helix_assets.cli.main import run
from helix_assets.keep.evict import apply
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.model.errors import BusyError, RetryLater
from helix_assets.prove.verify import verify
from helix_assets_tests.home import NOW, Memory, conversation

_EVERYTHING = RetentionPolicy(1, 1 << 50, 36_500, 1 << 50)
_BACKUP = {"HELIX_BACKUP_SCHEDULE": "off"}
_SESSIONS = 8
_BUSY = 75
# What a torn line leaves, and what depends on the store's place, key and generations.
_LEFT_OUT = ("coverage", "signals", "unparsed_lines", "source_path", "discovered_at")


def name_of(number: int) -> str:
    return f"{number:08d}-1111-4111-8111-111111111111"


def lines_of(number: int) -> list[bytes]:
    return conversation(50, session=f"n{number}-")


# -- the parts -------------------------------------------------------------------------------------------------------


def write(folder: Path, seed: int, _errors: Path) -> None:
    """Do everything to the logs that an agent, an editor or a rotation does; for ever."""
    chance = random.Random(seed)
    memory = Memory(folder, _BACKUP)
    logs = {number: lines_of(number) for number in range(_SESSIONS)}
    reached = {number: chance.randrange(1, 100) for number in logs}
    while True:
        number = chance.randrange(_SESSIONS)
        reached[number] = min(len(logs[number]), reached[number] + chance.randrange(6))
        lines = logs[number][: reached[number]]
        path = memory.path(name_of(number), chance.choice(["-home-u-shop"] * 9 + ["-home-u-till"]))
        way = chance.randrange(6)
        if way == 0:  # rotated: what was there goes, the log begins with what came last
            path.unlink(missing_ok=True)
            path.write_bytes(b"".join(lines[-8:]))
        elif way == 1:  # cut
            path.write_bytes(b"".join(lines)[: chance.randrange(20_000)])
        elif way == 2:  # replaced
            path.with_suffix(".new").write_bytes(b"".join(lines))
            os.replace(path.with_suffix(".new"), path)
        else:  # written anew in place, in pieces
            with path.open("wb", buffering=0) as file:
                for line in lines:
                    file.write(line)
                    if chance.random() < 0.01:
                        time.sleep(0.01)
        time.sleep(chance.random() * 0.05)


def sweep_on(folder: Path, _seed: int, errors: Path) -> None:
    _again(errors, "sweep", lambda: _in_store(folder, lambda memory: memory.sweep()))


def evict_on(folder: Path, _seed: int, errors: Path) -> None:
    def evict(memory: Memory) -> None:
        apply(memory.store, clock=lambda: NOW, policy=_EVERYTHING, allow_loss=False)
        time.sleep(0.2)

    _again(errors, "evict", lambda: _in_store(folder, evict))


def read_on(folder: Path, seed: int, errors: Path) -> None:
    """Every way to read, one after the other."""
    chance = random.Random(seed)
    os.environ.update(environ_of(folder))
    uid = f"claude:{name_of(chance.randrange(_SESSIONS))}"
    for command in (
        ("sql", "select count(*), sum(size) from messages"),
        ("sql", "select kind, count(*) from events group by all"),
        ("sql", "select sum(output_tokens) from digests"),
        ("search", "step"),
        ("status",),
        ("sessions",),
        ("show", uid),
        ("digest", uid),
        ("export",),
        ("report", "tool_report"),
    ):
        out, err = TextIOWrapper(BytesIO()), StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run(command)
        if code and ("no session" not in err.getvalue() and "no digest" not in err.getvalue()):
            _note(errors, f"{command[0]} ends with {code}: {err.getvalue()[-300:]}")
        with errors.with_suffix(".reads").open("a") as reads:
            reads.write(f"{command[0]}\n")


def read_memory_on(folder: Path, _seed: int, errors: Path) -> None:
    from helix_assets import Memory as Reader

    os.environ.update(environ_of(folder))
    with Reader(folder / "data" / "helix.db") as reader:
        for ask in (reader.digests, reader.events, lambda: reader.facts("tool_calls"), reader.hook_events):
            ask().fetchall()
            with errors.with_suffix(".reads").open("a") as reads:
                reads.write("Memory\n")


def environ_of(folder: Path) -> dict[str, str]:
    home = folder / "home"
    return {"HOME": str(home), "HELIX_DATA_DIR": str(folder / "data"), "CLAUDE_CONFIG_DIR": str(home / "claude"),
            "CODEX_HOME": str(home / "codex"), "GROK_HOME": str(home / "grok"), "HELIX_SWEEP_WORKERS": "2",
            **_BACKUP}  # fmt: skip


def _in_store(folder: Path, work: Callable[[Memory], object]) -> None:
    memory = Memory(folder, {**_BACKUP, "HELIX_SWEEP_WORKERS": "2"})
    try:
        work(memory)
    finally:
        memory.close()


def _again(errors: Path, what: str, work: Callable[[], object]) -> None:
    while True:
        try:
            work()
        except (BusyError, RetryLater):
            time.sleep(0.1)
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is told
            _note(errors, f"{what}: {type(exc).__name__}: {exc}")
            return


def _note(errors: Path, what: str) -> None:
    with errors.open("a") as file:
        file.write(what.replace("\n", " ") + "\n")


def _group(part: Callable[[Path, int, Path], None], folder: Path, seed: int, errors: Path) -> None:
    """Run a part in a process group of its own; a reader's for as long as it is let."""
    os.setsid()
    os.umask(0o077)
    while True:
        try:
            part(folder, seed, errors)
        except Exception as exc:  # noqa: BLE001 - as above
            _note(errors, f"{part.__name__}: {type(exc).__name__}: {exc}")
        seed += 1


# -- the whole -------------------------------------------------------------------------------------------------------

PARTS = (write, sweep_on, sweep_on, evict_on, read_on, read_on, read_memory_on)


def watch(folder: Path, *, seconds: float, seed: int) -> tuple[dict[str, int], list[str]]:
    """How often what was done, and what is wrong."""
    chance, errors = random.Random(seed), folder / "errors"
    _in_store(folder, lambda memory: memory.sweep())
    spawn = multiprocessing.get_context("spawn")

    def start(number: int) -> SpawnProcess:
        process = spawn.Process(target=_group, args=(PARTS[number], folder, chance.randrange(1 << 30), errors))
        process.start()
        return process

    running, kills, give_up = [start(number) for number in range(len(PARTS))], 0, time.monotonic() + seconds
    try:
        while time.monotonic() < give_up:
            time.sleep(chance.uniform(1, 4))
            victim = chance.randrange(len(PARTS))
            _kill(running[victim])
            kills += 1
            running[victim] = start(victim)
    finally:
        for process in running:
            _kill(process)
    done = {"kills": kills}
    for line in errors.with_suffix(".reads").read_text().splitlines():
        done[line] = done.get(line, 0) + 1
    wrong = errors.read_text().splitlines() if errors.exists() else []
    return done, wrong + list(_judge(folder))


def _kill(process: SpawnProcess) -> None:
    try:
        os.killpg(process.pid or 0, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()  # it has not come to lead a group yet
    process.join()


def _judge(folder: Path) -> list[str]:
    ours, theirs = Memory(folder, _BACKUP), Memory(folder / "fresh", _BACKUP)
    for number in range(_SESSIONS):
        ours.path(name_of(number), "-home-u-till").unlink(missing_ok=True)
        for memory in (ours, theirs):
            memory.write(name_of(number), *lines_of(number))
    for memory in (ours, theirs):
        memory.sweep()
    wrong = [str(violation) for violation in verify(ours.store)]
    with ours.store.catalog.reading() as connection:
        lost = set(connection.column("SELECT session_uid FROM losses"))
        uids = set(connection.column("SELECT session_uid FROM digests"))
    for number in range(_SESSIONS):
        uid = f"claude:{name_of(number)}"
        if uid not in uids:
            wrong.append(f"{uid} has no digest")
        elif uid not in lost:
            is_partial = ours.row(uid).is_partial
            wrong += [f"{uid}: {what}" for what in (*_differs(ours.digest(uid), theirs.digest(uid)),
                                                    *(["is partial"] if is_partial else []))]  # fmt: skip
    ours.close()
    theirs.close()
    return wrong


def _differs(digest: dict[str, Any], should: dict[str, Any]) -> list[str]:
    names = digest.keys() - set(_LEFT_OUT)
    return [f"{name}: {digest[name]}, not {should[name]}" for name in sorted(names) if digest[name] != should[name]]


@click.command()
@click.option("--seconds", default=600.0)
@click.option("--seed", default=1)
def main(seconds: float, seed: int) -> None:
    """All at once; exit code 1 when a reader failed or anything was counted wrongly."""
    os.umask(0o077)
    with tempfile.TemporaryDirectory() as scratch:
        done, wrong = watch(Path(scratch), seconds=seconds, seed=seed)
    click.echo(f"{done}, {len(wrong)} wrong")
    for line in wrong[:30]:
        click.echo(f"  {line[:600]}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
