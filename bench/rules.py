"""How long new redaction rules take to reach what readers need first: digests, facts and names of 10,000 sessions.

python -m bench.rules [--sessions 10000] [--work FOLDER]

The store is that of `bench.reports`. Each round has another rule: some hide nothing, so that all is read and nothing is
written, and some a part of all paths, so that nearly all is written. The texts of the sessions, which come after that,
take the time of a sweep of them, and are not made here.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

from bench.reports import make_large
from helix_assets.settings import load_settings
from helix_assets.store.catalog import live_files
from helix_assets.store.store import open_store
from helix_assets.sweep.rescan import redact_memory

AT_MOST_S = 10
HIDDEN = ("no such word", "nor such a word", "home/[a-z]+", "/src/")


def main() -> None:
    """Print how many rows each rule changed, and how long that took."""
    parser = argparse.ArgumentParser(prog="python -m bench.rules", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--work", type=Path, help="where to make the temporary folder; some 500 MB are needed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="helix-bench-", dir=options.work) as folder:
        store = make_large(Path(folder), options.sessions)
        with store.catalog.reading() as connection:
            files = len(live_files.fact_files(connection))
        store.close()
        print(f"{options.sessions:,} sessions, {files:,} files of facts; bar: {AT_MOST_S} s", flush=True)
        for pattern in HIDDEN:
            changed, wall, cpu = _redacted(Path(folder), store.data_dir, pattern)
            print(f"{pattern}: {changed:,} rows changed, {wall:.2f} s, CPU {cpu:.2f} s", flush=True)


def _redacted(home: Path, data_dir: Path, pattern: str) -> tuple[int, float, float]:
    """How many rows of the catalog a new rule changes, and the wall-clock and CPU seconds of that."""
    rules = f"[{{name = 'word', pattern = {json.dumps(pattern)}}}]"
    environ = {"HOME": str(home), "HELIX_DATA_DIR": str(data_dir), "HELIX_REDACTION_RULES": rules}
    store = open_store(load_settings(environ))
    begin, worked = time.perf_counter(), time.process_time()
    changed = redact_memory(store)
    spent = time.perf_counter() - begin, time.process_time() - worked
    store.close()
    return changed, *spent


if __name__ == "__main__":
    main()
