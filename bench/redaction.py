"""The speed of redaction beside a bare orjson decode of the same lines, on one core, in one run.

python -m bench.redaction HOME [ROUNDS]

The first round is told apart: in it the engines build what they search with, which each process does once.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from bench.bare import log_files
from helix_assets.core.redaction import Redactor

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


def main(home: Path, rounds: int) -> None:
    """Print MB/s of both and their ratio: first round, then the median of the others, interleaved."""
    chunks = chunks_of(home)
    megabytes = sum(map(len, chunks)) / 1e6
    redactor = Redactor(b"bench")
    pairs = [(_seconds(lambda: decode(chunks)), _seconds(lambda: redact(chunks, redactor))) for _ in range(rounds + 1)]
    decoding, redacting = (statistics.median(times) for times in zip(*pairs[1:], strict=True))
    for name, bare, ours in (("first round", *pairs[0]), (f"median of {rounds}", decoding, redacting)):
        speeds = f"decode {megabytes / bare:.0f} MB/s, redact {megabytes / ours:.0f} MB/s"
        print(f"{megabytes:.0f} MB, {name}: {speeds}, ratio {bare / ours:.2f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5)
