"""The time that a cold sweep's libraries alone take: nothing is derived, so no sweep of this design can be faster.

    python -m bench.floor HOME

Two processes read every log, redact it, decode each line, and write one file per session, with one row per line of
which only the text differs, finding the words of the search index on the way. There are no events, digests and facts,
no catalog, no order among files, no cursors.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path

from helix_assets.agents.discover import discover
from helix_assets.agents.jsonl import WholeLines, block_reader, open_source
from helix_assets.redaction import Redactor
from helix_assets.settings import load_settings
from helix_assets.store.words.hashing import WordHasher

PROCESSES = 2
_KEY = b"k" * 32
_redactor = Redactor(_KEY)


def sessions(home: Path) -> list[list[str]]:
    """The files of each session, the largest first."""
    homes = {"CLAUDE_CONFIG_DIR": "claude", "CODEX_HOME": "codex", "GROK_HOME": "grok"}
    settings = load_settings({name: str(home / place) for name, place in homes.items()} | {"HOME": str(home)})
    found = discover(settings.roots, settings.exclude.paths)
    groups: dict[str, list[str]] = defaultdict(list)
    for file in found.files.values():
        groups[file.native_id or file.path].append(file.path)
    return sorted(groups.values(), key=lambda paths: -sum(map(os.path.getsize, paths)))


def store(task: tuple[str, Sequence[str]]) -> dict[str, float]:
    """One session through the libraries. Returns CPU seconds by step."""
    import orjson

    from helix_assets.model.event import Row
    from helix_assets.store.parquet import SessionWriter

    target, paths = task
    spent = dict.fromkeys(("read and redact", "decode", "write, with words"), 0.0)
    writer = SessionWriter(Path(target), "claude:floor", _KEY, hasher=WordHasher(_KEY))
    blank = Row(**dict.fromkeys(Row._fields) | {"seq": 0, "order_us": 0, "record_key": 0})  # type: ignore[arg-type]
    for path in paths:
        fd = open_source(path)
        try:
            chunks = iter(WholeLines(block_reader(fd, path, 0), 0, 1))
            while True:
                at = time.process_time()
                chunk = next(chunks, None)
                if chunk is None:
                    break
                lines = _redactor.lines(chunk[0]).data.split(b"\n")
                spent["read and redact"] += time.process_time() - at
                at = time.process_time()
                for line in lines:
                    try:
                        orjson.loads(line)
                    except ValueError:
                        continue
                spent["decode"] += time.process_time() - at
                at = time.process_time()
                for line in lines:
                    if line:
                        writer.add([blank._replace(raw=line.decode("utf-8", "replace").encode())])
                spent["write, with words"] += time.process_time() - at
        finally:
            os.close(fd)
    at = time.process_time()
    writer.close()
    spent["write, with words"] += time.process_time() - at
    return spent


def main() -> None:
    """Print wall clock and CPU seconds, by step."""
    parser = argparse.ArgumentParser(prog="python -m bench.floor", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("home", type=Path)
    home = parser.parse_args().home.absolute()
    groups = sessions(home)
    _redactor.prepare()
    total: dict[str, float] = defaultdict(float)
    with tempfile.TemporaryDirectory(prefix="helix-bench-") as folder:
        tasks = [(f"{folder}/{number}", paths) for number, paths in enumerate(groups)]
        begin = time.perf_counter()
        with get_context("fork").Pool(PROCESSES) as pool:
            for spent in pool.imap_unordered(store, tasks, chunksize=4):
                for step, seconds in spent.items():
                    total[step] += seconds
            pool.close()
            pool.join()
        wall = time.perf_counter() - begin
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{len(groups)} sessions: {wall:.2f} s wall clock, {used.ru_utime + used.ru_stime:.2f} CPU s, of these")
    for step, seconds in total.items():
        print(f"  {step}: {seconds:.2f}")


if __name__ == "__main__":
    main()
