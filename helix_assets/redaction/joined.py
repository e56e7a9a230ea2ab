"""Messages that an agent writes in many small records: their texts are redacted together.

A secret may be split across records, none of which contains enough of it to be found. The records of a run are held
until it ends and their texts are redacted as one. Those that contained a part of a secret are rewritten: the first gets
the mark, the others nothing. Belongs here: holding and releasing records, wherever they come from. Not here: which
records are pieces of a message (`agents`), or where they are read (`sweep.read`, `again`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import orjson

from helix_assets.model.event import Piece, Pieces
from helix_assets.redaction.redactor import Redactor, stand_in

_MOST_HELD = 20_000
_MOST_CHARS = 4 << 20
"""How many pieces of a run are redacted together. A longer run goes on with half of these and the next ones."""

_MARK = "[redacted:"

T = TypeVar("T")
_Object = dict[str, Any]


@dataclass(slots=True)
class _Held(Generic[T]):
    """A record that waits for its own run or after another's. `text` is what it contained before it was redacted."""

    item: T
    obj: _Object | None = None
    order: int = 0
    text: str = ""
    waits: bool = False


@dataclass(slots=True)
class _Run(Generic[T]):
    first: Piece
    held: list[_Held[T]] = field(default_factory=list)
    chars: int = 0


class Joiner(Generic[T]):
    """Takes records and returns them in the same order, those of a run once it has ended.

    `renewed` makes the rewritten record from the old one, its redacted line and its object. `heals` is for records that
    were redacted one by one before: text after a mark that ended its record is removed with it.
    """

    def __init__(
        self, redactor: Redactor, pieces: Pieces, renewed: Callable[[T, bytes, _Object], T], *, heals: bool = False
    ) -> None:
        self._redactor = redactor
        self._pieces = pieces
        self._renewed = renewed
        self._heals = heals
        self._runs: dict[int, _Run[T]] = {}
        self._queue: deque[_Held[T]] = deque()
        self.hits = self.withheld = 0
        self.ended_within = False
        """Whether the input ended within a run, so that its last records may be continued."""

    def is_piece(self, native_type: str) -> bool:
        """Whether such a record is a piece of a message."""
        return native_type in self._pieces.kinds

    def take(
        self, item: T, file: int, native_type: str, obj: _Object | None, before: _Object | None = None
    ) -> Iterable[T]:
        """Add a record of a file. Returns all records that no longer wait. `before` is its object as it was logged."""
        if obj is not None and self.is_piece(native_type):
            piece = self._pieces.piece(before or obj)
            if piece.kind == native_type:  # a line that was withheld has no text
                self._take_piece(item, file, obj, piece)
                return self._released()
        if native_type in self._pieces.ends:
            self._close(file)
        if not self._queue:
            return (item,)
        self._queue.append(_Held(item))
        return self._released()

    def close(self) -> Iterable[T]:
        """End all runs. Returns all records that still wait."""
        self.ended_within = bool(self._runs)
        for file in list(self._runs):
            self._close(file, is_open=True)
        return self._released()

    def _take_piece(self, item: T, file: int, obj: _Object, piece: Piece) -> None:
        run = self._runs.get(file)
        if run is None or not piece.continues(run.first):
            self._close(file)
            run = self._runs[file] = _Run(piece)
        before = run.held[-1].order if run.held else 0
        held = _Held(item, obj, before if piece.order is None else piece.order, piece.text, waits=True)
        run.held.append(held)
        run.chars += len(held.text)
        self._queue.append(held)
        if len(run.held) >= _MOST_HELD or (run.chars > _MOST_CHARS and len(run.held) > 1):
            half = run.held[: len(run.held) // 2]
            self._redact(run.held, half)
            run.held = run.held[len(half) :]
            run.chars = sum(len(held.text) for held in run.held)

    def _close(self, file: int, *, is_open: bool = False) -> None:
        run = self._runs.pop(file, None)
        if run is None:
            return
        if is_open or len(run.held) > 1:  # a single record was redacted as a line already
            self._redact(run.held, run.held, is_open=is_open)
        for held in run.held:
            held.waits = False

    def _redact(self, run: list[_Held[T]], done: list[_Held[T]], *, is_open: bool = False) -> None:
        """Redact the text of the run as one. Of the other records only those that share a secret with `done` change."""
        placed = sorted(run, key=lambda held: held.order)
        redacted = self._redactor.pieces([held.text for held in placed], is_open=is_open, heals=self._heals)
        for held in done:
            held.waits = False
        if not redacted.hits:
            return
        settled = {place for place, held in enumerate(placed) if not held.waits}
        for first, last in redacted.across:
            places = range(first, last + 1)
            if not settled.isdisjoint(places):
                settled.update(places)
        for place in settled:
            held, text = placed[place], redacted.texts[place]
            if text != held.text:
                self._rewrite(held, text)

    def _rewrite(self, held: _Held[T], text: str) -> None:
        assert held.obj is not None
        held.text = text
        before = self._pieces.piece(held.obj).text
        if before == text:
            return  # redacting the record by itself was enough
        self.hits += max(0, text.count(_MARK) - before.count(_MARK))
        try:
            lines = self._redactor.lines(orjson.dumps(self._pieces.with_text(held.obj, text)))
            raw, withheld = lines.data, lines.withheld
        except (TypeError, RecursionError):
            raw, withheld = stand_in(orjson.dumps(text)), 1
        self.withheld += withheld
        held.obj = orjson.loads(raw)
        held.item = self._renewed(held.item, raw, held.obj)

    def _released(self) -> Iterable[T]:
        queue = self._queue
        if not queue or queue[0].waits:
            return ()
        done = []
        while queue and not queue[0].waits:
            done.append(queue.popleft().item)
        return done
