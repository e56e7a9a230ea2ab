"""The server process of `helix up` with the product's own threads: `serve.up` starts it as `python -m`.

Belongs here: what each thread is given. Not here: what they do (`serve.watch`), and the process (`serve.process`).
"""

import threading
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

import helix_assets.store.arrow  # noqa: F401 - before there are threads: it loads pyarrow without pandas
from helix_assets.defs import follow
from helix_assets.hooks.inbox import inbox_of
from helix_assets.prove.doctor import UNWATCHED
from helix_assets.serve.process import run
from helix_assets.serve.watch import watch
from helix_assets.settings import load_settings

_woken = threading.Event()


def _folders() -> Iterator[Path]:
    """The agents' folders and the hooks' inbox, as the settings have them now."""
    settings = load_settings()
    yield inbox_of(settings.data_dir)
    for roots in settings.roots.values():
        yield from roots


def _watch(instance: dg.DagsterInstance, stop: threading.Event) -> None:
    place = Path(instance.root_directory) / UNWATCHED

    def note(reason: str) -> None:
        if reason:
            place.write_text(reason, encoding="utf-8")
        else:
            place.unlink(missing_ok=True)

    watch(_folders, _woken, stop, note)


def _follow(instance: dg.DagsterInstance, stop: threading.Event) -> None:
    follow.follow(instance, _woken, stop)


if __name__ == "__main__":
    follow.is_expected = load_settings().up.in_process  # otherwise the sensor is the way in, and ticks more often
    run({"watcher": _watch, "follower": _follow})
