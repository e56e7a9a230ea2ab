"""Files and folders that turn into links, and back, while they are opened.

    python -m helix_assets_tests.faults.swap_race [--tries 10000]

Behind the links lies a file that must never be read.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import tempfile
from multiprocessing.synchronize import Event
from pathlib import Path

import click

from helix_assets.agents.jsonl import open_source
from helix_assets.model.errors import SkipSource

_GOOD, _FORBIDDEN = b'{"type":"user"}\n', b'{"type":"forbidden"}\n'


def _swap(folder: Path, started: Event, stop: Event) -> None:
    """Turn a file, and the folder of another, into links and back until told to stop."""
    inside, outside = folder / "inside", folder / "outside"
    for number in itertools.count():
        if stop.is_set():
            return
        if number == 100:
            started.set()
        fresh = folder / "fresh"
        if number % 2:
            fresh.write_bytes(_GOOD)
        else:
            fresh.symlink_to(outside / "log.jsonl")
        fresh.replace(inside / "log.jsonl")
        project = inside / "project"
        if project.is_symlink():
            project.unlink()
            (folder / "aside").rename(project)
        else:
            project.rename(folder / "aside")
            project.symlink_to(outside)


def race(folder: Path, tries: int) -> tuple[int, int, int]:
    """Open both files so many times: how often the good one was read, it was skipped, the forbidden one was read."""
    folder = Path(os.path.realpath(folder))
    for name, text in (("inside/project", _GOOD), ("outside", _FORBIDDEN)):
        (folder / name).mkdir(parents=True)
        (folder / name / "log.jsonl").write_bytes(text)
    (folder / "inside" / "log.jsonl").write_bytes(_GOOD)
    context = multiprocessing.get_context("spawn")
    started, stop = context.Event(), context.Event()
    swapper = context.Process(target=_swap, args=(folder, started, stop))
    swapper.start()
    started.wait(30)
    read = {_GOOD: 0, _FORBIDDEN: 0}
    skipped = 0
    for number in range(tries):
        path = folder / "inside" / ("log.jsonl" if number % 2 else "project/log.jsonl")
        try:
            fd = open_source(str(path))
        except SkipSource:
            skipped += 1
            continue
        text = os.read(fd, 100)
        os.close(fd)
        if text:  # a fresh file is empty for a moment
            read[text] += 1
    stop.set()
    swapper.join()
    return read[_GOOD], skipped, read[_FORBIDDEN]


@click.command()
@click.option("--tries", default=10_000)
def main(tries: int) -> None:
    """Race for a file behind a link; exit code 1 when it was read."""
    with tempfile.TemporaryDirectory() as folder:
        good, skipped, forbidden = race(Path(folder), tries)
    click.echo(f"{tries} tries: {good} read, {skipped} skipped, {forbidden} forbidden ones read")
    raise SystemExit(bool(forbidden))


if __name__ == "__main__":
    main()
