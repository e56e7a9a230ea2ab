"""What tokens cost by a price table: bands of long contexts, kinds of cache, prices that changed over time.

Belongs here: the arithmetic, in whole picodollars, so that sums are exact in any order. Pure given the table. Not here:
where prices come from (`helix_assets.sweep.pricing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

PICO = 1_000_000_000_000
"""Picodollars in a dollar."""
MTOK_PICO = 1_000_000
"""Picodollars per token at one dollar per million tokens."""
_DAY_US = 86_400_000_000


class Rates(NamedTuple):
    """Picodollars per token, by kind."""

    input: int
    output: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int


class Band(NamedTuple):
    """The rates of all tokens of a request whose whole input is larger than `above` tokens."""

    above: int
    rates: Rates


class Period(NamedTuple):
    """Bands, the lowest first, and when they apply: from a time on, and between two times of the UTC day."""

    bands: tuple[Band, ...]
    since_us: int | None = None
    from_us: int | None = None
    to_us: int | None = None

    def holds(self, ts_us: int) -> bool:
        """Whether the period's prices apply at this time."""
        if self.since_us is not None and ts_us < self.since_us:
            return False
        if self.from_us is None or self.to_us is None:
            return True
        at = ts_us % _DAY_US
        if self.to_us < self.from_us:
            return at >= self.from_us or at < self.to_us
        return self.from_us <= at < self.to_us


ModelPrices = tuple[Period, ...]
"""The last period that holds decides; if none does, the first."""


class Spent(NamedTuple):
    """Tokens of one request, the kinds disjoint."""

    input: int
    output: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int

    @property
    def whole_input(self) -> int:
        return self.input + self.cache_read + self.cache_write_5m + self.cache_write_1h


@dataclass(frozen=True)
class PriceTable:
    """Prices by model. `own` are the user's, by glob, and win. `version` is stored with what the table priced."""

    version: str
    models: Mapping[str, ModelPrices | None] = field(default_factory=dict)
    own: tuple[tuple[str, ModelPrices], ...] = ()

    def prices_of(self, model: str) -> ModelPrices | None:
        """The model's prices, None if they are unknown."""
        name = model.lower()
        for pattern, prices in self.own:
            if fnmatchcase(name, pattern):
                return prices
        return self.models.get(model)


def cost_pico(prices: ModelPrices, spent: Spent, ts_us: int | None, *, is_one_request: bool = True) -> int:
    """What a request cost, in picodollars. A sum of several requests has no known band and takes the lowest."""
    period = next(
        (p for p in reversed(prices) if ts_us is not None and p.holds(ts_us)), prices[-1 if ts_us is None else 0]
    )
    rates = period.bands[0].rates
    for band in period.bands[1:] if is_one_request else ():
        if spent.whole_input > band.above:
            rates = band.rates
    return sum(tokens * rate for tokens, rate in zip(spent, rates, strict=True))


def dollars(pico: int) -> float:
    """Picodollars as dollars. Below nine thousand dollars `picodollars` restores them exactly."""
    return pico / PICO


def picodollars(usd: float) -> int:
    """Dollars as whole picodollars."""
    return round(usd * PICO)


def own_rates(price: Mapping[str, float]) -> ModelPrices:
    """The user's price of a model. Missing cache prices follow from the price of input.

    Reading costs a tenth of it, writing for five minutes a quarter more than it, writing for an hour twice as much.
    """
    base = price.get("input", 0.0)
    write = price.get("cache_write", base * 1.25)
    dollars_per_mtok = (
        base, price.get("output", 0.0), price.get("cache_read", base / 10), write, price.get("cache_write_1h", base * 2)
    )  # fmt: skip
    return (Period((Band(0, Rates(*(round(usd * MTOK_PICO) for usd in dollars_per_mtok))),)),)
