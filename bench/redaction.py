"""The speed of redaction compared with a bare orjson decode of the same lines, on one core, in one run.

python -m bench.redaction HOME [ROUNDS]

The first round is printed separately: in it the engines build their automata, which each process does once. The last
line is the first round of another process, which has the line filter that this one built, like all sweeps of a store
but the first.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

import orjson

from bench.bare import log_files
from helix_assets.redaction import Redactor

_CHUNK = 16 << 20


def chunks_of(home: Path) -> list[bytes]:
    """All logs below a home, in chunks of whole lines."""
    data = b"".join(Path(entry.path).read_bytes() + b"\n" for entry in log_files(home))
    chunks, at = [], 0
    while at < len(data):
        end = data.rfind(b"\n", at, at + _CHUNK) + 1 or data.find(b"\n", at) + 1
        chunks.append(data[at:end])
        at = end
    return chunks


def decode(chunks: list[bytes]) -> None:
    """Decode every line and drop it."""
    for chunk in chunks:
        for line in chunk.split(b"\n"):
            try:
                orjson.loads(line)
            except ValueError:
                continue


def redact(chunks: list[bytes], redactor: Redactor) -> None:
    """Redact every chunk and drop it."""
    for chunk in chunks:
        redactor.lines(chunk)


def _seconds(work: Callable[[], None]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _round(chunks: list[bytes], redactor: Redactor) -> tuple[float, float]:
    return _seconds(lambda: decode(chunks)), _seconds(lambda: redact(chunks, redactor))


def _print_speeds(name: str, chunks: list[bytes], bare: float, ours: float) -> None:
    megabytes = sum(map(len, chunks)) / 1e6
    speeds = f"decode {megabytes / bare:.0f} MB/s, redact {megabytes / ours:.0f} MB/s"
    print(f"{megabytes:.0f} MB, {name}: {speeds}, ratio {bare / ours:.2f}", flush=True)


def main(home: Path, rounds: int) -> None:
    """Print MB/s of both and their ratio: first round, then the median of the others, interleaved."""
    chunks = chunks_of(home)
    redactor = Redactor(b"bench")
    _print_speeds("first round", chunks, *_round(chunks, redactor))
    decoding, redacting = zip(*(_round(chunks, redactor) for _ in range(rounds)), strict=True)
    _print_speeds(f"median of {rounds}", chunks, statistics.median(decoding), statistics.median(redacting))
    if built := redactor.built():
        with NamedTemporaryFile() as file:
            file.write(built)
            file.flush()
            subprocess.run([sys.executable, "-m", "bench.redaction", str(home), "--kept", file.name], check=True)


def with_kept(home: Path, kept: Path) -> None:
    """Print the same for the first round of a process that has the line filter already."""
    chunks = chunks_of(home)
    _print_speeds("first round, line filter kept", chunks, *_round(chunks, Redactor(b"bench", kept=kept.read_bytes)))


if __name__ == "__main__":
    if sys.argv[2:3] == ["--kept"]:
        with_kept(Path(sys.argv[1]), Path(sys.argv[3]))
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
