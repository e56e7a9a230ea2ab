"""Prices of models from the genai-prices package, which is data and needs no network. The user's own prices win.

Belongs here: reading the package into a `derive.prices.PriceTable`, remembering lookups, pricing what a batch spent.
The package takes a third of a second to import, so it is imported only for a new model.
"""

from __future__ import annotations

import json
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, time
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from helix_assets.agents import spec_of
from helix_assets.derive.prices import (
    MTOK_PICO,
    Band,
    ModelPrices,
    Period,
    PriceTable,
    Rates,
    Spent,
    cost_pico,
    dollars,
    own_rates,
    picodollars,
)
from helix_assets.model.digest_text import whole_digest, written_digest
from helix_assets.model.errors import StopRun, StoreError
from helix_assets.model.event import FACTS_SINCE
from helix_assets.model.facts import SessionFactRows, TokenUsage
from helix_assets.model.time import EPOCH, SECOND_US, microseconds
from helix_assets.settings import Settings
from helix_assets.store.catalog import digests, live_files
from helix_assets.store.durable import sync
from helix_assets.store.fact_files import SessionRows
from helix_assets.store.key import text_hash

if TYPE_CHECKING:
    from helix_assets.model.digest import Digest
    from helix_assets.store.store import Store

_log = logging.getLogger(__name__)
REMEMBERED = "prices"
_PRICED_WITH = "priced_with"


class Prices:
    """The prices of one sweep: what earlier sweeps looked up, and what it looks up itself.

    Made of what is remembered in `meta`, and to be remembered there at the end.
    """

    def __init__(self, settings: Settings, remembered: Mapping[str, str]) -> None:
        self.settings = settings
        self._looked_up = remembered.get(REMEMBERED)
        self.priced_with = remembered.get(_PRICED_WITH)

    def table(self, models: Iterable[str]) -> PriceTable:
        """The current table with these models."""
        table, self._looked_up = load_table(self.settings, self._looked_up, sorted(models))
        return table

    def to_remember(self) -> dict[str, str]:
        """What the next sweep should know, by the names in `meta`."""
        now = {REMEMBERED: self._looked_up, _PRICED_WITH: self.priced_with}
        return {name: text for name, text in now.items() if text is not None}


def load_table(settings: Settings, remembered: str | None, models: Iterable[str]) -> tuple[PriceTable, str]:
    """The table with these models' prices, and what to remember for the next time.

    `remembered` saves lookups while the package is the same. Even its version takes a twentieth of a second.
    """
    mark = package_mark()
    kept = json.loads(remembered) if remembered is not None else {}
    if kept.get("package") != mark:
        kept = {"package": mark, "version": _package_version(), "models": {}}
    known = {model: _unpacked(packed) for model, packed in kept["models"].items()}
    for model in models:
        if model not in known:
            known[model] = _looked_up(model)
    own = tuple((pattern.lower(), own_rates(price)) for pattern, price in settings.prices.items())
    version = f"genai-prices {kept['version']}" + (f" + own {_mark(settings.prices)}" if own else "")
    return PriceTable(version, known, own), json.dumps({**kept, "models": known})


def package_mark() -> str:
    """A text that changes with the installed package, which is not imported for it."""
    spec = find_spec("genai_prices")
    if spec is None or spec.origin is None:
        raise StopRun("the package genai-prices is not installed: install helix_assets with its dependencies")
    info = os.stat(os.path.join(os.path.dirname(spec.origin), "data.py"))
    return f"{info.st_size}.{info.st_mtime_ns}"


def _package_version() -> str:
    from importlib import metadata  # slow to load

    return metadata.version("genai-prices")


def _mark(own: Mapping[str, Mapping[str, float]]) -> str:
    return blake2b(json.dumps(own, sort_keys=True).encode(), digest_size=4).hexdigest()


def _unpacked(packed: Any) -> ModelPrices | None:
    if packed is None:
        return None
    return tuple(
        Period(tuple(Band(above, Rates(*rates)) for above, rates in bands), *times) for bands, *times in packed
    )


def _looked_up(model: str) -> ModelPrices | None:
    """As `look_up`; a model for which the package fails has no price."""
    try:
        return look_up(model)
    except Exception as exc:  # noqa: BLE001 - an error of another package costs only a price
        _log.warning("a model has no price: %s in the package genai-prices", type(exc).__name__)
        return None


def look_up(model: str) -> ModelPrices | None:
    """The package's prices of a model, None if it has none; also without the provider before a slash."""
    from genai_prices.data_snapshot import get_snapshot

    for name in dict.fromkeys((model, model.rpartition("/")[2])):
        try:
            _, info = get_snapshot().find_provider_model(name, None, None, None)
        except LookupError:
            continue
        listed = info.prices if isinstance(info.prices, list) else [info]
        periods = [period for one in listed if (period := _period(one)) is not None]
        return tuple(periods) or None
    return None


def _period(priced: Any) -> Period | None:
    bands = _bands(priced.prices)
    constraint = getattr(priced, "constraint", None)
    if bands is None or constraint is None:
        return None if bands is None else Period(bands)
    if hasattr(constraint, "start_date"):
        start = constraint.start_date
        return Period(bands, since_us=microseconds(EPOCH.replace(start.year, start.month, start.day)))
    return Period(bands, None, _time_us(constraint.start_time), _time_us(constraint.end_time))


def _time_us(at: time) -> int:
    return ((at.hour * 60 + at.minute) * 60 + at.second) * SECOND_US


def _bands(price: Any) -> tuple[Band, ...] | None:
    """The package's price as bands. Tokens of a kind without a price cost as much as input."""
    named = price.__dict__
    if named.get("input_mtok") is None or named.get("output_mtok") is None:
        return None
    kinds = [named["input_mtok"], named["output_mtok"]]
    kinds += [named.get(f"{kind}_mtok") or named["input_mtok"] for kind in ("cache_read", "cache_write")]
    starts = sorted({0} | {tier.start for kind in kinds for tier in getattr(kind, "tiers", ())})
    return tuple(Band(start, _rates(named, [_at(kind, start) for kind in kinds], start)) for start in starts)


def _rates(named: Mapping[str, Any], kinds: list[int], start: int) -> Rates:
    """The rates of a band. An hour of cache costs twice the input if only the price of five minutes is listed."""
    hour = named.get("cache_write_1h_mtok")
    twice = 2 * kinds[0] if named.get("cache_write_mtok") is not None else kinds[0]
    return Rates._make([*kinds, twice if hour is None else _at(hour, start)])


def _at(price: Any, start: int) -> int:
    """Picodollars per token in the band that begins at `start`."""
    value = getattr(price, "base", price)
    for tier in getattr(price, "tiers", ()):
        if tier.start <= start:
            value = tier.price
    return int((value * MTOK_PICO).to_integral_value())


# -- pricing what was spent ------------------------------------------------------------------------------------------


def price_sessions(prices: Prices, sessions: Iterable[tuple[Digest, SessionFactRows]]) -> list[Digest]:
    """The digests with their costs; those of the `token_usage` rows are set in place."""
    batch = [
        (digest, [TokenUsage._make(row) for row in rows.get("token_usage", ())], rows) for digest, rows in sessions
    ]
    table = prices.table({row.model for _, usage, _ in batch for row in usage if row.model})
    priced = []
    for digest, usage, rows in batch:
        fresh = price_rows(table, digest.flavor, usage)
        if fresh:
            rows["token_usage"] = list(fresh)
        priced.append(replace(digest, **costs(table, fresh, digest.assistant_messages)))
    return priced


def reprice(store: Store, prices: Prices, today: date, *, is_first: bool) -> int:
    """Price again what another table priced, also evicted sessions, whose tokens are facts. Returns how many sessions.

    If nothing changed, this only checks one file. If it fails, it is tried again on another day.
    """
    in_force, in_part = _names(store, today)
    if prices.priced_with in (in_force, in_part):
        return 0
    if is_first:  # all there is was priced by this sweep
        prices.priced_with = in_force
        return 0
    version = prices.table(()).version
    stale: dict[tuple[str, str], list[Digest]] = defaultdict(list)
    for digest, partition in _digests(store):
        if digest.price_table != version and digest.schema_version >= FACTS_SINCE:
            stale[partition].append(digest)
    failed = 0
    for partition, sessions in stale.items():
        try:
            _reprice_partition(store, prices, partition, sessions)
        except OSError:
            raise
        except Exception as exc:  # noqa: BLE001 - a fault of the prices must not stop the sweep
            reason = str(exc) if isinstance(exc, StoreError) else type(exc).__name__
            _log.warning("%s/%s keeps its old prices: %s", *partition, reason)
            failed += len(sessions)
    prices.priced_with = in_part if failed else in_force
    return sum(map(len, stale.values())) - failed


def is_priced(store: Store, known: Mapping[str, str], today: date) -> bool:
    """Whether nothing is to be priced again. `known` is the table meta."""
    return known.get(_PRICED_WITH) in _names(store, today)


def _names(store: Store, today: date) -> tuple[str, str]:
    """What is noted once everything was priced by the table in force, or all that could be."""
    in_force = f"{package_mark()} {_mark(store.settings.prices)}"
    return in_force, f"{in_force}, in part on {today}"


def _digests(store: Store) -> Iterator[tuple[Digest, tuple[str, str]]]:
    with store.catalog.reading() as connection:
        rows = digests.every(connection)
    for row in rows:
        yield whole_digest(row.digest), (row.flavor, row.day)


def _reprice_partition(store: Store, prices: Prices, partition: tuple[str, str], stale: Sequence[Digest]) -> None:
    """Update one partition's costs in facts and digests, in one step."""
    with store.catalog.reading() as connection:
        old = [file for file in live_files.fact_files(connection, {partition}) if file.fact == "token_usage"]
    held: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for file in old:
        for row in store.facts.rows(file):
            held[row.session_uid] += row.rows
    rows: list[SessionFactRows] = [{"token_usage": held[digest.session_uid]} for digest in stale]
    fresh = price_sessions(prices, list(zip(stale, rows, strict=True)))
    made = [
        SessionRows(digest.session_uid, digest.coverage.generation, row["token_usage"])
        for digest, row in zip(fresh, rows, strict=True)
    ]
    new = store.facts.replace("token_usage", partition, old, made) if old else None
    files, gone = ([new], [file for file in old if file.is_recent]) if new is not None else ([], [])
    sync(store.data_dir, [store.facts.path(file.name) for file in files])
    with store.catalog.writing() as connection:
        live_files.put_fact_files(connection, files, gone)
        for digest in fresh:
            text = written_digest(digest)
            digests.change(connection, digest.session_uid, digest=text, hash=text_hash(store.key, text.encode()))
    for file in old if new is not None else ():
        store.facts.remove(file.name)


def price_rows(table: PriceTable, flavor: str, usage: Iterable[TokenUsage]) -> list[TokenUsage]:
    """The rows with the agent's own cost if it reported one, else the table's; null if the model is unknown."""
    is_one_request = spec_of(flavor).price_family == "request"
    prices_of = cache(table.prices_of)
    return [row if row.cost_from == "agent" else _priced(row, prices_of, is_one_request) for row in usage]


def _priced(row: TokenUsage, prices_of: Callable[[str], ModelPrices | None], is_one_request: bool) -> TokenUsage:
    spent = Spent(row.input, row.output, row.cache_read, row.cache_write_5m, row.cache_write_1h)
    prices = prices_of(row.model) if row.model else None
    if prices is None:
        return row._replace(cost_usd=None if any(spent) else 0.0, cost_from=None)
    pico = cost_pico(prices, spent, row.ts, is_one_request=is_one_request)
    return row._replace(cost_usd=dollars(pico), cost_from="table")


def costs(table: PriceTable, usage: Sequence[TokenUsage], assistant_messages: int) -> dict[str, Any]:
    """The digest's costs. A sum that includes an unknown price is null, never too small.

    It is also null if the agent answered but reported no tokens.
    """
    main, sub = _sum(row for row in usage if not row.is_sidechain), _sum(row for row in usage if row.is_sidechain)
    unknown = {row.model or "(unknown)" for row in usage if row.cost_usd is None}
    is_reported = bool(usage) or not assistant_messages
    if not is_reported:
        main = sub = None
    return {
        "cost_usd": None if main is None or sub is None else dollars(main + sub),
        "cost_usd_main": main if main is None else dollars(main),
        "cost_usd_subagent": sub if sub is None else dollars(sub),
        "unpriced_models": tuple(sorted(unknown)),
        "price_table": table.version,
    }


def _sum(usage: Iterable[TokenUsage]) -> int | None:
    total = 0
    for row in usage:
        if row.cost_usd is None:
            return None
        total += picodollars(row.cost_usd)
    return total
