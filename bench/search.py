"""What search costs and finds on a corpus with planted needles, swept into a folder of its own; truth.json names them.

python -m bench.search HOME

HOME has `claude`, `codex`, `grok` and `truth.json`. Needles that stand in no log are left out. Times are of one process
that has opened the index, on wall clock and in CPU seconds: these are steadier where other work runs beside.
"""

from __future__ import annotations

import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson

from bench.bare import log_files
from helix_assets.ask.search import Finder
from helix_assets.ask.sql import ask
from helix_assets.settings import load_settings
from helix_assets.store.catalog import live_files
from helix_assets.store.catalog.catalog import index_bytes
from helix_assets.store.store import Store, open_store
from helix_assets.store.words.keep import index_of, update_index
from helix_assets.sweep.sweep import sweep

QUERIES = 100
_WORD = re.compile(rb"(?<![A-Za-z\\])[A-Za-z]{3,12}(?![A-Za-z\":])")
_REPORTS = (
    "select ts::date as day, flavor, model, sum(output), sum(cost_usd) from token_usage group by all",
    "select tool, count(*), count(*) filter (status = 'ok'), avg(duration_ms) from tool_calls group by all",
    "select repo, count(*), sum(cost_usd) from sessions group by all",
    "select kind, count(*) from events group by all",
)


def needles(home: Path) -> list[tuple[str, str]]:
    """Session and word of each needle that is in a log."""
    logs = b"".join(Path(entry.path).read_bytes() for entry in log_files(home))
    there = set(re.findall(rb"zqneedle[0-9a-f]+", logs))
    sessions = orjson.loads((home / "truth.json").read_bytes())["sessions"]
    return [(one["session_uid"], needle["term"]) for one in sessions for needle in one["needles"]
            if needle["term"].encode() in there]  # fmt: skip


def words(home: Path) -> tuple[list[str], list[str]]:
    """Words that are in most logs, and some that are in few; each is searched for in all its forms."""
    held = Counter[bytes]()
    for entry in log_files(home):
        held.update(set(_WORD.findall(Path(entry.path).read_bytes()[: 1 << 20].lower())))
    ordered = [word.decode() for word, _ in held.most_common()]
    return ordered[:QUERIES], ordered[-QUERIES:]


def timed(queries: Sequence[str], run: Callable[[str], Any]) -> str:
    """The 50th and 95th percentile of wall clock and CPU, in milliseconds."""
    wall, cpu = list[float](), list[float]()
    for query in queries:
        begin, used = time.perf_counter(), time.process_time()
        run(query)
        wall.append(time.perf_counter() - begin)
        cpu.append(time.process_time() - used)
    return ", ".join(f"{name} {_percentiles(times)}" for name, times in (("wall", wall), ("CPU", cpu)))


def _percentiles(times: list[float]) -> str:
    middle, high = (1e3 * sorted(times)[len(times) * share // 100] for share in (50, 95))
    return f"p50 {middle:.1f} p95 {high:.1f} ms"


def main(home: Path) -> None:
    """Sweep, index once more only to measure it, search, ask."""
    with tempfile.TemporaryDirectory() as folder:
        environ = {f"{agent}_HOME": str(home / agent.lower()) for agent in ("CODEX", "GROK")}
        environ |= {"CLAUDE_CONFIG_DIR": str(home / "claude"), "HOME": folder, "HELIX_DATA_DIR": f"{folder}/data",
                    "HELIX_BACKUP_SCHEDULE": "off"}  # fmt: skip
        with closing(open_store(load_settings(environ))) as store:
            sweep(store)
            _measure(store, home)


def _measure(store: Store, home: Path) -> None:
    source = sum(entry.stat().st_size for entry in log_files(home))
    with store.catalog.reading() as connection:
        raw, index = live_files.raw_usage(connection), index_bytes(store.data_dir)
    print(f"source {source / 1e6:.0f} MB, raw {raw / source:.3f}, index {index / source:.3f} of it")
    index_of(store).remove()
    used = time.process_time()
    update_index(store)
    used = time.process_time() - used
    print(f"index: {used:.2f} CPU seconds, {source / 1e6 / used:.0f} MB/s of source")
    finder, planted = Finder(store), needles(home)
    finder.find("warm")
    missed = [uid for uid, word in planted if uid not in {hit.session_uid for hit in finder.find(word).hits}]
    print(f"needles: {len(planted) - len(missed)} of {len(planted)} found")
    common, few = words(home)
    print("needles:", timed([word for _, word in planted[:QUERIES]], finder.find))
    print("words in few logs:", timed(few, finder.find))
    print("words in most logs:", timed(common, finder.find))
    print("the same, exactly:", timed([f'"{word}"' for word in common], finder.find))
    for query in _REPORTS:
        print(f"sql, {timed([query] * 3, lambda one: ask(store, one))}: {query}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
