"""How long each report takes over 10,000 sessions and a million events, in process.

python -m bench.reports [--sessions 10000] [--rounds 5] [--work FOLDER]

A few hundred sessions of the project's own generator are taken in by a real sweep; their digests and facts are then
laid down again and again, under other ids and on other days, until there are enough. Reports read digests and facts
alone, so no raw rows are made.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import orjson
import pyarrow as pa

from helix_assets.ask.reports.all_reports import REPORTS, make_report
from helix_assets.ask.reports.frame import Span
from helix_assets.demo import make_home
from helix_assets.model.facts import FACTS
from helix_assets.settings import load_settings
from helix_assets.store.catalog import live_files
from helix_assets.store.fact_files import FactFile, schema_of
from helix_assets.store.key import text_hash
from helix_assets.store.store import Store, open_store
from helix_assets.sweep.sweep import sweep

BASE, BASE_BYTES, DAYS = 200, 195_000, 30
_STEP_DAYS = 4


def _store(folder: Path, home: Path) -> Store:
    places = {"CLAUDE_CONFIG_DIR": home / "claude", "CODEX_HOME": home / "codex", "GROK_HOME": home / "grok"}
    environ = {"HOME": str(folder), "HELIX_DATA_DIR": str(folder / "data")}
    return open_store(load_settings(environ | {name: str(path) for name, path in places.items()}))


def make_large(folder: Path, wanted: int) -> Store:
    """A store with this many sessions."""
    make_home(folder / "home", seed=7, sizes=[BASE_BYTES] * BASE, days=DAYS)
    base = _store(folder / "base", folder / "home")
    sweep(base)
    large = _store(folder / "large", folder / "none")
    copies = -(-wanted // BASE)
    _copy_catalog(base, large, copies)
    files = [file for fact in FACTS for file in _copy_facts(base, large, fact, copies)]
    with large.catalog.writing() as connection:
        live_files.put_fact_files(connection, files, [])
    base.close()
    return large


def _copy_catalog(base: Store, large: Store, copies: int) -> None:
    with base.catalog.reading() as connection:
        known = [row.as_dict() for row in connection.execute("SELECT * FROM sessions")]
        rows = [row.as_dict() for row in connection.execute("SELECT * FROM digests")]
    for number in range(copies):
        days = timedelta(days=number * _STEP_DAYS)
        made = [_session(row, number, days, large.redactor.version) for row in known]
        with large.catalog.writing() as connection:
            connection.insert("sessions", made)
            connection.insert("digests", [_digest(row, number, days, large.key) for row in rows])


def _session(row: Mapping[str, Any], number: int, days: timedelta, rules: str) -> dict[str, Any]:
    moved = {name: row[name] and row[name] + days // timedelta(microseconds=1) for name in ("started_us", "ended_us")}
    names = {name: f"{row[name]}-{number}" for name in ("session_uid", "native_session_id", "file_key")}
    kept = {name: value for name, value in row.items() if name != "id"}
    return kept | moved | names | {"day": _later(row["day"], days), "redaction_version": rules}


def _digest(row: Mapping[str, Any], number: int, days: timedelta, key: bytes) -> dict[str, Any]:
    digest = orjson.loads(row["digest"])
    moved: dict[str, Any] = {"session_uid": f"{row['session_uid']}-{number}"}
    moved |= {name: _later(row[name], days) for name in ("started_at", "ended_at")}
    text = orjson.dumps(digest | moved).decode()
    kept = {
        name: value for name, value in row.items() if name not in {"position", "first_position"}
    }  # triggers set them
    return {**kept, **moved, "day": _later(row["day"], days), "digest": text, "hash": text_hash(key, text.encode())}


def _later(text: str | None, days: timedelta) -> str | None:
    """An ISO day or time, some days later."""
    return text and (datetime.fromisoformat(text[:10]) + days).date().isoformat() + text[10:]


def _copy_facts(base: Store, large: Store, fact: str, copies: int) -> Iterator[FactFile]:
    """One file per agent and day, as the sweep would write it."""
    with base.catalog.reading() as connection:
        own = [file for file in live_files.fact_files(connection) if file.fact == fact]
    tables = [base.facts.read(file).append_column("day", pa.array([file.day] * file.row_count)) for file in own]
    rows = pa.concat_tables(tables)
    names = ", ".join(name for name in schema_of(fact).names if name not in ("session_uid", "ts"))
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("base", rows)
        moved = connection.sql(f"""
            SELECT session_uid || '-' || copy AS session_uid, ts + to_days({_STEP_DAYS} * copy) AS ts, {names},
                split_part(session_uid, ':', 1) AS flavor, (day::DATE + {_STEP_DAYS} * copy)::DATE::VARCHAR AS day
            FROM base, (SELECT unnest(range({copies}))::INT AS copy) ORDER BY flavor, day, session_uid
        """).to_arrow_table()
        sizes = connection.sql("SELECT flavor, day, count(*) FROM moved GROUP BY ALL ORDER BY ALL").fetchall()
    at = 0
    for flavor, day, count in sizes:
        part = moved.slice(at, count).select(schema_of(fact).names).cast(schema_of(fact))
        yield large.facts.write(fact, (flavor, day), 1, part)
        at += count


def main() -> None:
    """Print what was made and how long each report took: the median, and least to most, of some rounds."""
    parser = argparse.ArgumentParser(prog="python -m bench.reports", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=Path, help="where to make the temporary folder; some 500 MB are needed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="helix-bench-", dir=options.work) as folder:
        store = make_large(Path(folder), options.sessions)
        with store.catalog.reading() as connection:
            texts = connection.column("SELECT digest FROM digests")
            events, newest = zip(*((d["event_count"], d["started_at"]) for d in map(orjson.loads, texts)), strict=True)
            files = live_files.fact_files(connection)
        rows = sum(file.row_count for file in files)
        print(
            f"{len(events):,} sessions, {sum(events):,} events, {rows:,} fact rows in {len(files):,} files", flush=True
        )
        day = datetime.fromisoformat(max(filter(None, newest))).date() - timedelta(days=14)
        for name in REPORTS:
            wall, cpu = zip(*(_seconds(store, name, Span(until=day)) for _ in range(options.rounds)), strict=True)
            print(
                f"{name}: {median(wall):.2f} s ({min(wall):.2f} to {max(wall):.2f}), CPU {median(cpu):.2f} s",
                flush=True,
            )
        store.close()


def _seconds(store: Store, name: str, span: Span) -> tuple[float, float]:
    """The wall-clock and the CPU seconds of a report."""
    begin, worked = time.perf_counter(), time.process_time()
    make_report(store, name, span)
    return time.perf_counter() - begin, time.process_time() - worked


if __name__ == "__main__":
    main()
