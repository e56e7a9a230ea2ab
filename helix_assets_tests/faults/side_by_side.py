"""Processes that sweep, evict and read one store at the same time.

    python -m helix_assets_tests.faults.side_by_side [--rounds 10] [--processes 8]

In each round the logs grow and every process does its part once, through the command line. Writers end well or give way
with exit code 75; readers end well, always, and never see half a session.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click

from helix_assets.prove.verify import verify
from helix_assets_tests.home import Memory, conversation

_BUSY = 75
_RECORDS_PER_TURN = 4
_WRITERS = (("sweep",), ("sweep",), ("evict", "--apply"))
_READERS = (("export",), ("verify",), ("sessions", "--json"), ("status", "--json"), ("export", "--sessions"))
_PARTS = tuple(part for both in zip(_WRITERS, _READERS, strict=False) for part in both) + _READERS[len(_WRITERS) :]


def run_rounds(folder: Path, *, rounds: int, processes: int) -> list[str]:
    """What went wrong, over all rounds."""
    memory = Memory(folder, {"HELIX_RAW_SOFT_CAP_BYTES": "64KiB", "HELIX_RAW_HARD_CAP_BYTES": "1GiB"})
    environ = {**os.environ, **memory.variables}
    wrong: list[str] = []
    for round_number in range(rounds):
        for session in range(12):
            turns = conversation(2, start=round_number * 2 % 50, session=f"s{session}r{round_number}-")
            memory.write(f"session-{session}", *turns, append=True)
        parts = [_PARTS[number % len(_PARTS)] for number in range(processes)]
        running = [(part, _start(part, environ)) for part in parts]
        for part, process in running:
            out, err = process.communicate()
            wrong += [f"round {round_number}: {what}" for what in _judge(part, process.returncode, out, err)]
    memory.sweep()
    wrong += [f"{v.check}: {v.what}" for v in verify(memory.store)]
    digests = [json.loads(line)["digest"] for line in memory.exported().splitlines() if b'"digest":' in line]
    counted = sum(digest["record_count"] for digest in digests if digest)
    if counted != (written := rounds * 12 * 2 * _RECORDS_PER_TURN):
        wrong.append(f"the digests count {counted} records, {written} were written")
    memory.close()
    return wrong


def _start(part: tuple[str, ...], environ: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "helix_assets", *part]
    return subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _judge(part: tuple[str, ...], code: int, out: bytes, err: bytes) -> list[str]:
    is_writer = part in _WRITERS
    if code != 0 and not (is_writer and code == _BUSY):
        return [f"{' '.join(part)} ends with {code}: {(err or out).decode(errors='replace')[-300:]}"]
    return _half_sessions(out) if part == ("export",) else []


def _half_sessions(out: bytes) -> list[str]:
    """Sessions of which an export shows a number of records that was never committed."""
    records: dict[str, int] = {}
    for line in out.splitlines():
        row = json.loads(line)
        records.setdefault(row["session_uid"], 0)
        records[row["session_uid"]] += "raw" in row
    return [f"{uid} has {n} records" for uid, n in records.items() if n % (2 * _RECORDS_PER_TURN)]


@click.command()
@click.option("--rounds", default=10)
@click.option("--processes", default=8)
def main(rounds: int, processes: int) -> None:
    """Sweep, evict and read side by side; exit code 1 when a reader fails or the store is not sound."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        wrong = run_rounds(Path(folder), rounds=rounds, processes=processes)
    click.echo(f"{rounds} rounds of {processes} processes, {len(wrong)} wrong, {time.monotonic() - begin:.0f} s")
    for line in wrong[:20]:
        click.echo(f"  {line}")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
