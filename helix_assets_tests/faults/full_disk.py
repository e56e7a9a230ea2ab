"""A store on a disk of its own that is full to the last byte: what still works, and what the rest says.

    python -m helix_assets_tests.faults.full_disk [--megabytes 16] [--sessions 60]

The disk is a tmpfs in a mount namespace of this process alone, so it takes Linux, and `unshare` that may make one. For
each amount of room left eviction has to free what it ought to; nothing else may end in a traceback or name no file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from helix_assets.demo import make_home
from helix_assets.demo.growth import append
from helix_assets.store.reserve import RESERVE

_ROOM_KB = (0, 4, 16, 64, 256)
_UNSHARE = ("unshare", "--map-root-user", "--mount")


def can_mount() -> bool:
    """Whether this machine lets us have a small disk."""
    return shutil.which("unshare") is not None and _in_namespace("mount -t tmpfs none /mnt") == 0


def _in_namespace(script: str) -> int:
    return subprocess.run([*_UNSHARE, "sh", "-c", script], capture_output=True, check=False).returncode


class Disk:
    """A small disk with a store on it, and the logs of its agents elsewhere."""

    def __init__(self, folder: Path, sessions: int) -> None:
        self.root, self.home = folder / "disk", folder / "home"
        make_home(self.home, sessions=sessions, seed=1, dirty=False)
        home = {"CLAUDE_CONFIG_DIR": "claude", "CODEX_HOME": "codex", "GROK_HOME": "grok"}
        self._environ = {
            **os.environ,
            "HOME": str(folder),
            "HELIX_DATA_DIR": str(self.root / "data"),
            **{name: str(self.home / place) for name, place in home.items()},
        }

    @property
    def free(self) -> int:
        return shutil.disk_usage(self.root).free

    @property
    def raw_bytes(self) -> int:
        """What the raw cache takes, with its index."""
        folders = (self.root / "data" / name for name in ("raw", "search"))
        return sum(path.stat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())

    def fill(self, leave: int) -> None:
        """Leave so many bytes."""
        with (self.root / "ballast").open("ab", buffering=0) as file:
            while (spare := self.free - leave) > 0:
                file.write(bytes(min(spare, 1 << 20)))

    def clear(self) -> None:
        (self.root / "ballast").unlink(missing_ok=True)

    def helix(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """A command's exit code, and all that it said."""
        command = [sys.executable, "-m", "helix_assets", *arguments]
        done = subprocess.run(
            command, env=self._environ | variables, capture_output=True, text=True, errors="replace", check=False
        )
        return done.returncode, done.stdout + done.stderr


def try_all(folder: Path, megabytes: int, sessions: int) -> Iterator[str]:
    """What goes wrong on a full disk; for a process in a mount namespace of its own."""
    disk = Disk(folder, sessions)
    disk.root.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "none", disk.root], check=True)
    for number, room in enumerate(_ROOM_KB):
        yield from _judged(disk, 0, "sweep")
        append(disk.home, share=0.5, seed=number)
        disk.fill(room << 10)
        for command in ("status", "doctor", "verify", "sweep", "backup"):
            yield from (f"{room} KiB free: {what}" for what in _judged(disk, None, command))
        for share in (0.5, 0):  # texts alone, then whole files
            yield from (f"{room} KiB free: {what}" for what in _evicted(disk, share))
        disk.clear()
        yield from _judged(disk, 0, "verify")
    yield from _filled_by_a_sweep(disk)


def _filled_by_a_sweep(disk: Disk) -> Iterator[str]:
    """A first sweep that takes all the room there is; then eviction, and then again a sweep."""
    shutil.rmtree(disk.root / "data")
    disk.fill(4 << 20)
    code, said = disk.helix("sweep")
    if not code:
        yield f"the sweep found room: {said}"
    yield from _complaints("sweep", code, said, disk)
    disk.fill(0)
    yield from _evicted(disk, 0)
    disk.clear()
    yield from _judged(disk, 0, "sweep")
    yield from _judged(disk, 0, "verify")


def _evicted(disk: Disk, share: float) -> Iterator[str]:
    """What is wrong with an eviction down to a share of what is there: it has to free room, and to keep some."""
    before, cap = disk.free, str(1 + int(share * disk.raw_bytes))
    yield from _judged(disk, 0, "evict", "--apply", HELIX_RAW_SOFT_CAP_BYTES=cap)
    if disk.free <= before:
        yield "eviction freed nothing"
    if not (disk.root / "data" / RESERVE).exists():
        yield "no room is kept for the next eviction"


def _judged(disk: Disk, good: int | None, *command: str, **variables: str) -> Iterator[str]:
    code, said = disk.helix(*command, **variables)
    if good not in (None, code):
        yield f"{command[0]} ends with {code}: {said[-400:]}"
    yield from _complaints(command[0], code, said, disk)


def _complaints(command: str, code: int, said: str, disk: Disk) -> Iterator[str]:
    """What a command ought not to say: all is well, a traceback, or that something is wrong with an unnamed file."""
    if "Traceback" in said:
        yield f"{command}: {said[-400:]}"
    elif code and str(disk.root) not in said:
        yield f"{command} names no file: {said[-400:]}"
    elif command == "doctor" and not code:
        yield "doctor says that all is well"


def run(folder: Path, *, megabytes: int = 16, sessions: int = 60) -> list[str]:
    """`try_all` in a process with a mount namespace of its own; gives what was wrong."""
    command = [sys.executable, "-m", __spec__.name, "--here", str(folder)]
    command += ["--megabytes", str(megabytes), "--sessions", str(sessions)]
    done = subprocess.run([*_UNSHARE, *command], capture_output=True, text=True, check=False, env=dict(os.environ))
    return done.stdout.splitlines() + ([done.stderr] if done.returncode else [])


@click.command()
@click.option("--megabytes", default=16)
@click.option("--sessions", default=60)
@click.option("--here", type=click.Path(path_type=Path), hidden=True)
def main(megabytes: int, sessions: int, here: Path | None) -> None:
    """Try a full disk; exit code 1 when something is wrong."""
    os.umask(0o077)
    if here is not None:
        for what in try_all(here, megabytes, sessions):
            click.echo(what)
        return
    with tempfile.TemporaryDirectory() as folder:
        wrong = run(Path(folder), megabytes=megabytes, sessions=sessions)
    click.echo(f"a disk of {megabytes} MB with {_ROOM_KB} KB free, {len(wrong)} wrong")
    for what in wrong[:20]:
        click.echo(f"  {what}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
