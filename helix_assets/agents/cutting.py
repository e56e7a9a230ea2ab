"""Cuts texts with many sessions into blocks, and finds where reading can continue later.

Belongs here: lines to blocks, and when a text rests. Not here: what begins a block (the adapters' splitters).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from helix_assets.agents.kinds import Block, Splitter
from helix_assets.model.time import microseconds

RESTS_S = 60
"""After so many seconds without a change the last block of a text counts as complete."""


def rests(mtime_ns: int, now: datetime) -> bool:
    """Whether a text has not changed for a while; a time in the future counts as that."""
    return not 0 <= microseconds(now) - mtime_ns // 1000 < RESTS_S * 1_000_000


class Cut(NamedTuple):
    """A block with the positions of its beginning and end."""

    block: Block
    line: int
    offset: int
    end: int


class Cutting:
    """The blocks of `data`, which begins at `offset` of a text, in line `line`.

    The last block is yielded only if the text `is_over` for now. In both cases the next reading starts at it: after all
    blocks, `offset`, `line` and `state` are those of its beginning.
    """

    def __init__(self, data: bytes, splitter: Splitter, offset: int, line: int, *, is_over: bool) -> None:
        self._data, self._splitter, self._is_over = data, splitter, is_over
        self._start = offset
        self.offset, self.line, self.state = offset, line, splitter.state()

    def __iter__(self) -> Iterator[Cut]:
        at, number = self.offset, self.line
        for line in _lines(self._data):
            # A line without its end may still change.
            begins = line.endswith(b"\n") and self._splitter.begins(_text(line))
            if begins and at > self.offset:
                yield self._block(at)
                self.offset, self.line, self.state = at, number, self._splitter.state()
            at += len(line)
            number += 1
        if self._is_over and at > self.offset:
            yield self._block(at)

    def _block(self, end: int) -> Cut:
        text = _text(self._data[self.offset - self._start : end - self._start])
        return Cut(self._splitter.block(text, self.line), self.line, self.offset, end)


def _lines(data: bytes) -> Iterator[bytes]:
    """Lines with their line feeds, which alone end a line."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        yield data[start:end]
        start = end


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
