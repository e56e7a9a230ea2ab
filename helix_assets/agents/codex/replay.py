"""Where a Codex thread's own lines begin, if Codex has copied another thread's history before them.

A fork, a resume (0.36) and a subagent with its parent's history start with the other thread's lines: its session_meta,
its turns, its token counts. None of it happened in this thread. The evidence is in docs/formats/codex.md.
Not here: what the lines mean (`parser`).
"""

from __future__ import annotations

from helix_assets.agents.jsonl import timestamp_us
from helix_assets.agents.loose import as_count, as_name, as_object, minted_us
from helix_assets.agents.spec import JsonObject

_SECOND = 1_000_000
_BURST_US = _SECOND
_PAUSE_US = 60 * _SECOND


class ReplayGate:
    """Distinguishes the copied lines of one file from its own.

    `copying` is false after the first own line; `begun` is when the thread was created.
    """

    def __init__(self, state: JsonObject | None = None) -> None:
        known = state or {}
        self.thread: str | None = known.get("thread")
        self.copying: bool = known.get("copying", False)
        self.begun: int | None = known.get("begun")
        self._first_own: int | None = known.get("first_own")
        self._old_times: bool = known.get("old_times", False)
        self._old_turns: bool = known.get("old_turns", False)
        self._before: int | None = known.get("before")

    def state(self) -> JsonObject:
        return {
            "thread": self.thread,
            "copying": self.copying,
            "begun": self.begun,
            "first_own": self._first_own,
            "old_times": self._old_times,
            "old_turns": self._old_turns,
            "before": self._before,
        }

    def open(self, meta: JsonObject, ts_us: int | None) -> None:
        """Take in the file's first session_meta, which is the thread's own."""
        self.thread = as_name(meta.get("id")) or ""
        made = timestamp_us(meta.get("timestamp"))
        self.begun = made if made is not None else minted_us(self.thread) or ts_us
        self._first_own = _ordinal(meta.get("subagent_history_start_ordinal"))
        base = as_object(meta.get("history_base"))
        if self._first_own is None:
            self._first_own = _ordinal(base.get("end_ordinal_exclusive"))
        self.copying = self._first_own is not None or as_name(meta.get("forked_from_id")) is not None

    def meet(self, meta: JsonObject) -> None:
        """Take in a session_meta right after the own one: if it is another thread's, that thread's history follows."""
        other = as_name(meta.get("id"))
        if other is not None and other != self.thread:
            self.copying = True

    def is_copied(self, obj: JsonObject, body: JsonObject, ts_us: int | None) -> bool:
        """Whether the line belongs to the copied history. Ask for every line, in file order, while `copying`."""
        own = self._is_own(obj, body, ts_us)
        if ts_us is not None:
            self._before = ts_us
        self.copying = not own
        return not own

    def _is_own(self, obj: JsonObject, body: JsonObject, ts_us: int | None) -> bool:
        begun, turn = self.begun, _turn_us(body)
        if begun is not None and turn is not None and turn >= begun - begun % _SECOND:
            return True
        ordinal = as_count(obj.get("ordinal"))
        if self._first_own is not None and ordinal is not None:
            return ordinal >= self._first_own
        if begun is None:
            return True
        if turn is not None:
            self._old_turns = True
            return False
        if ts_us is None:
            return False
        if ts_us < begun:
            self._old_times = True
            return False
        return self._old_times or self._paused(ts_us)

    def _paused(self, ts_us: int) -> bool:
        """Whether there was a pause: history is copied in one burst; a person or a model takes longer."""
        limit = _PAUSE_US if self._old_turns else _BURST_US
        return self._before is not None and ts_us - self._before >= limit


def _ordinal(value: object) -> int | None:
    return int(value) if type(value) is str and value.isdecimal() and len(value) < 16 else as_count(value)


def _turn_us(body: JsonObject) -> int | None:
    """When the turn of the line began, if the line shows it."""
    made = minted_us(body.get("turn_id"))
    if made is None and body.get("type") == "task_started":
        seconds = as_count(body.get("started_at"))
        made = seconds * _SECOND if seconds else None
    return made
