"""The bare limits, as programs: only decoding, only looking for files.

python -m bench.bare decode HOME              every line through orjson, in two processes
python -m bench.bare no-change HOME ROUNDS    the product's sweep without news against scandir+stat
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path

PROCESSES = 2
_CHUNK = 4 << 20


def log_files(home: Path) -> Iterator[os.DirEntry[str]]:
    """Every JSON Lines file below a home."""
    folders = [str(home)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif entry.name.endswith(".jsonl"):
                    yield entry


def decode_all(home: Path) -> dict[str, float]:
    """Decode all files, the largest first."""
    files = sorted(((entry.stat().st_size, entry.path) for entry in log_files(home)), reverse=True)
    begin = time.perf_counter()
    with get_context("fork").Pool(PROCESSES) as pool:
        lines = sum(pool.imap_unordered(_decode, [path for _, path in files], chunksize=1))
    return {"seconds": time.perf_counter() - begin, "bytes": sum(size for size, _ in files), "lines": lines}


def _decode(path: str) -> int:
    import orjson

    lines = 0
    with open(path, "rb") as file:
        for line in file:
            lines += 1
            try:
                orjson.loads(line)
            except ValueError:
                continue
    return lines


def stat_all(folders: list[Path]) -> int:
    """Look at every file as a scan must: list each folder, stat each log."""
    return sum(entry.stat(follow_symlinks=False).st_size >= 0 for folder in folders for entry in log_files(folder))


def no_change(home: Path, rounds: int) -> dict[str, list[float]]:
    """CPU seconds of sweeps that find nothing new, in turns with a bare look at the same files."""
    from helix_assets.settings import load_settings
    from helix_assets.store.store import open_store
    from helix_assets.sweep.look import scan
    from helix_assets.sweep.sweep import sweep

    store = open_store(load_settings())
    folders = [home / "claude" / "projects", home / "codex" / "sessions", home / "grok" / "sessions"]
    folders = [folder for folder in folders if folder.is_dir()]
    seconds: dict[str, list[float]] = {"sweep": [], "scan": [], "stat": []}
    for number in range(rounds + 1):
        for name, work in (
            ("sweep", lambda: sweep(store).files_changed),
            ("stat", lambda: stat_all(folders)),
            ("scan", lambda: scan(store)),
        ):
            begin = time.process_time()
            found = work()
            if number:  # the first round warms up
                seconds[name].append(time.process_time() - begin)
            if name == "sweep" and found:
                raise SystemExit(f"{found} files changed while nothing should change")
    return seconds


if __name__ == "__main__":
    if sys.argv[1] == "decode":
        print(json.dumps(decode_all(Path(sys.argv[2]))))
    else:
        print(json.dumps(no_change(Path(sys.argv[2]), int(sys.argv[3]))))
