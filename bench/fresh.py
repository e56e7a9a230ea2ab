"""How soon a line that an agent wrote can be read: in the digest, and in Dagster's record of its partition.

python bench/fresh.py    answers each uid on stdin with a line: the digest as `digest_lookup` prints it, or nothing

The lookup runs in a process that stays, with the settings of the store in its environment and with the Python of the
checkout that is measured: a process for each look would keep a core busy. It belongs to no measured tree.
"""

from __future__ import annotations

import contextlib
import io
import json
import runpy
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

DOOR = "helix_assets.digest_lookup"
_LOOK_S = 0.05
_ASKS_DAGSTER_S = 0.5
_TOLD = """select max(timestamp) from event_logs where dagster_event_type = 'ASSET_MATERIALIZATION'
    and asset_key = '["session_digests"]' and partition = ?"""


class Lookup:
    """The digest of a session, as often as wanted; a context manager."""

    def __init__(self, python: str, environ: Mapping[str, str], folder: Path) -> None:
        # Safe path: neither this file's folder nor the current one comes before the checkout that is measured.
        command = [python, "-P", __file__]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, env=dict(environ), cwd=folder, stdin=pipe, stdout=pipe, text=True)

    def __enter__(self) -> Lookup:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def digest(self, uid: str) -> str:
        """As it is in the store now; empty if it is not there."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(uid + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


def until(look: Callable[[], Any], seconds: float, pause: float) -> Any:
    """The first true result; None if there was none in time."""
    deadline = time.monotonic() + seconds
    while not (found := look()) and time.monotonic() < deadline:
        time.sleep(pause)
    return found or None


def readable_after(lookup: Lookup, uid: str, before: str, written: float, patience: float) -> float | None:
    """Seconds from the writing of a turn to a digest other than the one before it."""
    seen = until(lambda: lookup.digest(uid) not in ("", before), patience, _LOOK_S)
    return time.time() - written if seen else None


def reported_after(state: Path, digest: str, written: float, patience: float) -> float | None:
    """Seconds from the writing of a turn to the latest materialization of its session's partition."""
    partition = partition_of(digest)
    reported = until(lambda: _later(latest_report(state, partition), written), patience, _ASKS_DAGSTER_S)
    return reported - written if reported else None


def _later(moment: float | None, than: float) -> float | None:
    return moment if moment and moment > than else None


def partition_of(digest: str) -> str:
    """Dagster's name of the partition that a session is in: the day of its first record, and its agent."""
    content = json.loads(digest)
    return f"{content['started_at'][:10]}|{content['flavor']}"


def latest_report(state: Path, partition: str) -> float | None:
    """When Dagster was last informed of the digests of a partition."""
    from bench.dagster_tree import read

    (moment,) = read(state, "history/runs/index", _TOLD, partition)[0]
    return datetime.fromisoformat(moment).replace(tzinfo=UTC).timestamp() if moment else None


def main() -> None:
    """Answer until stdin ends."""
    for line in sys.stdin:
        sys.argv = [DOOR, line.strip(), "--json"]
        said, errors = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO())
        with said as text, errors, contextlib.suppress(SystemExit):
            runpy.run_module(DOOR, run_name="__main__")
        print(text.getvalue().strip(), flush=True)


if __name__ == "__main__":
    main()
