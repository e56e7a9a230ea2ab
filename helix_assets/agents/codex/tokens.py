"""What a Codex thread spent, from cumulative totals that repeat, restart and occur in two kinds of records.

Belongs here: token_count and token_usage_record. Not here: which of them are another thread's (`replay`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from helix_assets.agents.jsonl import count_or_zero
from helix_assets.agents.spec import JsonObject
from helix_assets.model.event import Usage


class Figures(NamedTuple):
    """One token usage as Codex writes it: `cached` and `written` are part of `input`, `reasoning` of `output`."""

    input: int
    cached: int
    written: int
    output: int
    reasoning: int

    def usage(self) -> Usage:
        cached = min(self.cached, self.input)
        written = min(self.written, self.input - cached)
        return Usage(self.input - cached - written, self.output, cached, written, 0, self.reasoning)


class TokenMeter:
    """Takes the counts of one file in order and returns what each adds."""

    def __init__(self, state: JsonObject | None = None) -> None:
        known = state or {}
        self._total: list[int] | None = known.get("total")
        self._last: list[int] | None = known.get("last")
        self._is_recorded: bool = known.get("told", False)  # stored states have this key

    def state(self) -> JsonObject:
        return {"total": self._total, "last": self._last, "told": self._is_recorded}

    def count(self, body: JsonObject) -> Usage | None:
        """What a token_count adds, None if it repeats another one or a usage record."""
        spent = self._spent(body.get("info"))
        is_recorded, self._is_recorded = self._is_recorded, False
        return None if spent is None or is_recorded or not any(spent) else spent.usage()

    def skip(self, body: JsonObject) -> None:
        """Take in a copied token_count: nothing was spent, but later totals may continue from it."""
        self._spent(body.get("info"))

    def record(self, body: JsonObject) -> Usage | None:
        """What a token_usage_record adds: one response. The token_count after it repeats that."""
        usage = _figures(body.get("usage"))
        self._is_recorded = self._is_recorded or usage is not None
        return usage.usage() if usage is not None and any(usage) else None

    def _spent(self, info: Any) -> Figures | None:
        """`last` of a changed total, the difference of the totals if there is no `last`, None for a repeat."""
        if type(info) is not dict:
            return None
        total, last = _figures(info.get("total_token_usage")), _figures(info.get("last_token_usage"))
        before, before_last = self._total, self._last
        self._total = list(total) if total else before
        self._last = list(last) if last else before_last
        if total is None:
            return None if last is None or self._last == before_last else last
        if self._total == before and (last != total or self._last == before_last):
            return None
        if last is not None:
            return last
        grown = [now - then for now, then in zip(total, before or [0] * 5, strict=True)]
        return total if min(grown) < 0 else Figures(*grown)


def after_spending(spent: Sequence[int] | None) -> JsonObject | None:
    """The state of a meter that knows only what was spent: input, output, cache read, cache written, reasoning."""
    if not spent:
        return None
    fresh, output, cached, written, reasoning = spent
    total = [fresh + cached + written, cached, written, output, reasoning]
    return {"total": total, "last": total}  # the same for a first response


def _figures(usage: Any) -> Figures | None:
    if type(usage) is not dict:
        return None
    return Figures(
        count_or_zero(usage.get("input_tokens")),
        count_or_zero(usage.get("cached_input_tokens")),
        count_or_zero(usage.get("cache_write_input_tokens")),
        count_or_zero(usage.get("output_tokens")),
        count_or_zero(usage.get("reasoning_output_tokens")),
    )
