"""Readers that ask one store without a pause while its logs grow, are swept and evicted.

    python -m helix_assets_tests.faults.readers [--seconds 5] [--processes 2] [--sessions 12]

Every reader opens the store, asks it one thing and closes it, over and over. It must always get an answer, and the
answer must be that of one moment: nothing is damaged, no session is half there, facts are those that the digests count.
"""

from __future__ import annotations

import io
import itertools
import json
import multiprocessing
import os
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from helix_assets import Memory as OpenMemory
from helix_assets.ask import sql
from helix_assets.ask.reading import open_existing
from helix_assets.ask.reports.all_reports import REPORTS, make_report
from helix_assets.cli.main import run
from helix_assets.defs.checks import CHECKS
from helix_assets.keep import evict
from helix_assets.prove.doctor import examine
from helix_assets.prove.verify import verify
from helix_assets.settings import load_settings
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import utc_now
from helix_assets_tests.home import Memory, conversation

_RECORDS_PER_GROWTH = 8
_PATIENCE_S = 120
_CALLS = """
    select d.session_uid from digests d left join (select session_uid, count(*) as calls from tool_calls group by all) t
    using (session_uid) where d.tool_calls <> coalesce(t.calls, 0)"""
_ROWS = "select session_uid from records group by session_uid having count(*) % 8 <> 0"


@dataclass
class Done:
    """What came of it: rounds of the writer, how often each reader asked, and what was wrong."""

    rounds: int
    evicted: int
    asked: Counter[str]
    wrong: list[str]


def _sql(store: Store) -> Iterator[str]:
    for query in (_CALLS, _ROWS):
        answer = sql.ask(store, query)
        yield from (f"{row} is not of one moment" for row in answer.rows)
        yield from answer.left_out


def _memory(store: Store) -> Iterator[str]:
    with OpenMemory(store.data_dir) as memory:
        ((uid, calls),) = memory.digests().limit(1).project("session_uid, tool_calls").fetchall()
        if len(memory.facts("tool_calls").filter(f"session_uid = '{uid}'").fetchall()) < calls:
            yield f"{uid} has fewer facts than its digest counted a moment before"
        memory.events(uid).fetchall()
        memory.events().fetchall()
        yield from memory.search("step").left_out


def _reports(store: Store) -> Iterator[str]:
    for name in REPORTS:
        yield from make_report(store, name).left_out


def _doctor(store: Store) -> Iterator[str]:
    found = examine(utc_now())
    yield from (f"{one.check}: {one.what}" for one in found if one.state == "wrong" and one.check == "store")


def _checks(store: Store) -> Iterator[str]:
    yield from (f"{check.name}: {told.figures}" for check in CHECKS if not (told := check.answer(store)).holds)


def _command(*arguments: str) -> Callable[[Store], Iterator[str]]:
    def ask(store: Store) -> Iterator[str]:
        code, out, err = _run(*(_uid(store) if one == "UID" else one for one in arguments))
        if code or "amaged" in err:
            yield f"ends with {code}: {err or out}"
        elif arguments == ("export",):
            yield from _half_sessions(out)

    return ask


def _run(*arguments: str) -> tuple[int, str, str]:
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    said = []
    for stream in (out, err):
        stream.flush()
        said.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]  # a BytesIO
    return code, *said


def _uid(store: Store) -> str:
    rows = sql.ask(store, "select session_uid from sessions order by ended_at desc").rows
    return str(rows[int(time.monotonic() * 1000) % len(rows)][0])


def _half_sessions(out: str) -> Iterator[str]:
    """Sessions of which an export shows a number of records that was never committed."""
    records: Counter[str] = Counter()
    for line in out.splitlines():
        row = json.loads(line)
        records[row["session_uid"]] += "raw" in row
    yield from (f"{uid} has {count} records" for uid, count in records.items() if count % _RECORDS_PER_GROWTH)


READERS: dict[str, Callable[[Store], Iterator[str]]] = {
    "sql": _sql,
    "Memory": _memory,
    "report": _reports,
    "search": _command("search", "step"),
    "status": _command("status", "--json"),
    "show": _command("show", "UID", "--json"),
    "digest": _command("digest", "UID"),
    "sessions": _command("sessions", "--json"),
    "export": _command("export"),
    "export --sessions": _command("export", "--sessions"),
    "verify": _command("verify"),
    "verify --secrets": _command("verify", "--secrets"),
    "doctor": _doctor,
    "checks": _checks,
}


def _read(environ: dict[str, str], first: int, until: float, told: Any) -> None:
    """Ask in turn, and tell of each reader how often it asked and what was wrong."""
    os.environ |= environ
    asked, wrong = Counter[str](), []
    for name in itertools.islice(itertools.cycle(READERS), first, None):
        if time.time() > until:
            break
        asked[name] += 1
        try:
            with closing(open_existing(load_settings())) as store:
                wrong += [f"{name}: {what}" for what in READERS[name](store)]
        except Exception:  # noqa: BLE001 - whatever it is, this reader got no answer
            wrong.append(f"{name}: {traceback.format_exc()}")
    told.put((asked, wrong))


def read_beside_a_writer(folder: Path, *, seconds: float, processes: int, sessions: int) -> Done:
    """Grow, sweep and evict for so long while the readers ask."""
    memory = Memory(folder)
    _grow(memory, sessions, 0)
    context = multiprocessing.get_context("spawn")
    told = context.Queue()
    until = time.time() + seconds
    for number in range(processes):
        first = number * len(READERS) // processes
        context.Process(target=_read, args=(memory.variables, first, until, told), daemon=True).start()
    policy = evict.policy_of(memory.store.settings.retention)
    rounds = evicted = 0
    while time.time() < until:
        rounds += 1
        _grow(memory, sessions, rounds)
        tight = replace(policy, soft_cap_bytes=memory.raw_usage() // 2 + 1)
        evicted += len(evict.apply(memory.store, clock=lambda: memory.now, policy=tight).gone)
    asked, wrong = Counter[str](), []
    for _ in range(processes):
        more, trouble = told.get(timeout=_PATIENCE_S)
        asked += more
        wrong += trouble
    wrong += [f"{violation.check}: {violation.what}" for violation in verify(memory.store)]
    memory.close()
    return Done(rounds, evicted, asked, wrong)


def _grow(memory: Memory, sessions: int, rounds: int) -> None:
    """Every session gains a few records, and is swept."""
    for number in range(sessions):
        turns = conversation(2, start=rounds * 2 % 50, session=f"s{number}r{rounds}-")
        memory.write(f"session-{number}", *turns, append=True)
    memory.sweep()


@click.command()
@click.option("--seconds", default=5.0)
@click.option("--processes", default=2)
@click.option("--sessions", default=12)
def main(seconds: float, processes: int, sessions: int) -> None:
    """Read beside a writer; exit code 1 when a reader got no answer, or a wrong one."""
    with tempfile.TemporaryDirectory() as folder:
        done = read_beside_a_writer(Path(folder), seconds=seconds, processes=processes, sessions=sessions)
    click.echo(f"{done.rounds} sweeps and evictions ({done.evicted} sessions went), {len(done.wrong)} wrong")
    click.echo(", ".join(f"{name} {count}" for name, count in done.asked.items()))
    for line in done.wrong[:20]:
        click.echo(f"  {line}")
    raise SystemExit(bool(done.wrong))


if __name__ == "__main__":
    main()
