"""Messages that an agent writes in many small records: what they say together is redacted together.

A secret may lie across records, none of which holds enough of it to be found. The records of a run are held until it
ends, their texts are redacted as one, and those that held a part of a secret are written anew: the first has its mark,
the others nothing. Belongs here: holding and handing on, whatever the records come from. Not here: which records are
pieces of a message (adapters), or where they are read (`sweep.read`, `again`).
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
"""So many pieces of a run are redacted together; of a longer one then follow half of these and the next ones."""

_MARK = "[redacted:"

T = TypeVar("T")
_Object = dict[str, Any]


@dataclass(slots=True)
class _Held(Generic[T]):
    """A record that waits, for its own run or behind another's. `text` is what it said before it was redacted."""

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
    """Takes records in their order and gives them back in the same, those of a run once it has ended.

    `renewed` makes a record that was written anew of the one that was, its redacted line and its object. `heals` is for
    records that were redacted one by one before: what followed a mark that ended its record goes with it.
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
        """Whether what there was ended within a run, so that its last records may go on."""

    def is_piece(self, native_type: str) -> bool:
        """Whether such a record is a piece of a message."""
        return native_type in self._pieces.kinds

    def take(
        self, item: T, file: int, native_type: str, obj: _Object | None, before: _Object | None = None
    ) -> Iterable[T]:
        """Hand over a record of a file; gives all that wait no more. `before` is its object as it was logged."""
        if obj is not None and self.is_piece(native_type):
            piece = self._pieces.piece(before or obj)
            if piece.kind == native_type:  # a line that was withheld says nothing
                self._take_piece(item, file, obj, piece)
                return self._released()
        if native_type in self._pieces.ends:
            self._close(file)
        if not self._queue:
            return (item,)
        self._queue.append(_Held(item))
        return self._released()

    def close(self) -> Iterable[T]:
        """The end of what there is: all that still waits."""
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
        if is_open or len(run.held) > 1:  # one record alone was redacted as the line that it is
            self._redact(run.held, run.held, is_open=is_open)
        for held in run.held:
            held.waits = False

    def _redact(self, run: list[_Held[T]], done: list[_Held[T]], *, is_open: bool = False) -> None:
        """Redact what the run says as one; of what is not `done` only what lies across both is settled."""
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
                self._write_anew(held, text)

    def _write_anew(self, held: _Held[T], text: str) -> None:
        assert held.obj is not None
        held.text = text
        told = self._pieces.piece(held.obj).text
        if told == text:
            return  # the record by itself showed as much
        self.hits += max(0, text.count(_MARK) - told.count(_MARK))
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
