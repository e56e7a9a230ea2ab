"""Cuts texts with many sessions into blocks, and finds where reading can continue later.

Belongs here: lines to blocks, and when a text rests. Not here: what begins a block (the adapters' splitters).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import datetime
from hashlib import blake2b
from io import BytesIO
from typing import NamedTuple

from helix_assets.agents.jsonl import CHUNK_BYTES, FIRST_BYTES, MAX_LINE_BYTES
from helix_assets.agents.kinds import Block, Splitter
from helix_assets.model.time import microseconds

RESTS_S = 60
"""After so many seconds without a change the last block of a text counts as complete."""
MAX_BLOCK_BYTES = MAX_LINE_BYTES
"""The largest block that is stored, as with lines."""


def rests(mtime_ns: int, now: datetime) -> bool:
    """Whether a text has not changed for a while; a time in the future counts as that."""
    return not 0 <= microseconds(now) - mtime_ns // 1000 < RESTS_S * 1_000_000


def reader(fd: int, offset: int, until: int) -> Callable[[int], bytes]:
    """A function that reads an open text from `offset` up to `until`, piece by piece."""

    def read(size: int) -> bytes:
        nonlocal offset
        data = os.pread(fd, max(0, min(size, until - offset)), offset)
        offset += len(data)
        return data

    return read


class Cut(NamedTuple):
    """A block with the positions of its beginning and end. If it `is_too_long`, it was made of its beginning alone."""

    block: Block
    line: int
    offset: int
    end: int
    is_too_long: bool = False


class Cutting:
    """The blocks of what `read` returns, which begins at `offset` of a text, in line `line`. Holds one block in memory.

    The last block is yielded only if the text `is_over` for now. It may still grow, so in both cases the next reading
    starts at it: `offset`, `line`, `state` and `hashed` are always those at the end of the last complete block.
    `hashed` continues a hash of the text before `offset`.
    """

    def __init__(  # noqa: PLR0913 - where the last reading ended
        self,
        read: Callable[[int], bytes],
        splitter: Splitter,
        offset: int = 0,
        line: int = 1,
        *,
        is_over: bool,
        hashed: blake2b | None = None,
    ) -> None:
        self._read, self._splitter, self._is_over = read, splitter, is_over
        self._ahead = hashed or blake2b()
        self._open, self._size = list[bytes](), 0
        self.offset, self.line, self.state, self.hashed = offset, line, splitter.state(), self._ahead.copy()

    def __iter__(self) -> Iterator[Cut]:
        number = self.line
        for piece, is_start in _pieces(self._read):
            if is_start and self._begins(piece) and self._size:
                cut = self._cut()
                self.offset, self.line, self.state = cut.end, number, self._splitter.state()
                self.hashed = self._ahead.copy()
                self._open, self._size = [], 0
                yield cut
            self._add(piece)
            number += piece.endswith(b"\n")
        if self._is_over and self._size:
            yield self._cut()

    def _begins(self, piece: bytes) -> bool:
        """Whether a block begins here. The beginning of a line without its end may still change."""
        is_known = piece.endswith(b"\n") or len(piece) > MAX_BLOCK_BYTES
        return is_known and self._splitter.begins(_text(piece))

    def _add(self, piece: bytes) -> None:
        was_short = self._size <= MAX_BLOCK_BYTES
        self._ahead.update(piece)
        self._size += len(piece)
        if was_short:
            self._open.append(piece)
            if self._size > MAX_BLOCK_BYTES:
                self._open = [b"".join(self._open)[:FIRST_BYTES]]

    def _cut(self) -> Cut:
        block = self._splitter.block(_text(b"".join(self._open)), self.line)
        return Cut(block, self.line, self.offset, self.offset + self._size, self._size > MAX_BLOCK_BYTES)


def _pieces(read: Callable[[int], bytes]) -> Iterator[tuple[bytes, bool]]:
    """Lines with their line feeds, which alone end a line. Too long ones come in pieces; True marks the first one."""
    held, size, is_start = list[bytes](), 0, True
    while data := read(CHUNK_BYTES):
        for piece in BytesIO(data):
            held.append(piece)
            size += len(piece)
            if (is_whole := piece.endswith(b"\n")) or size > MAX_BLOCK_BYTES:
                yield b"".join(held), is_start
                held, size, is_start = [], 0, is_whole
    if held:
        yield b"".join(held), is_start


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
