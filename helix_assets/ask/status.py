"""Figures that several commands show: sessions, events, bytes and tokens by agent, and the state of the store.

Belongs here: counting from the catalog alone; no raw file is opened. Not here: how it is formatted (`cli`).
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from helix_assets.agents import ADAPTERS
from helix_assets.ask.coverage import versions
from helix_assets.ask.withheld import Withheld, count_withheld
from helix_assets.model.digest_text import parsed_digest
from helix_assets.model.event import DIGEST_VERSION
from helix_assets.settings import Settings
from helix_assets.store.catalog import digests, live_files, losses, problems, sessions, sources, sweeps
from helix_assets.store.catalog.catalog import index_bytes
from helix_assets.store.catalog.connection import Connection
from helix_assets.store.catalog.retries import FailedSession, failed_sessions
from helix_assets.store.catalog.schema import CATALOG_VERSION
from helix_assets.store.key import text_hash
from helix_assets.store.lock import holder, is_locked
from helix_assets.store.store import Store

NEWEST = 5
TOKEN_KINDS = ("input", "output", "cache_read", "cache_write")


@dataclass(frozen=True)
class AgentFigures:
    """What the memory contains of one agent. Tokens and events are those of the digests."""

    flavor: str
    sessions: int
    evicted: int
    damaged: int
    events: int
    raw_bytes: int
    source_bytes: int
    tokens: Mapping[str, int]


@dataclass(frozen=True)
class Usage:
    """Bytes used against the caps."""

    raw_bytes: int
    raw_soft_cap_bytes: int
    raw_hard_cap_bytes: int
    distilled_bytes: int
    distilled_cap_bytes: int


@dataclass(frozen=True)
class BadPlace:
    """A place in a log that could not be read."""

    path: str
    line: int | None
    offset: int | None
    reason: str
    seen_at: str


@dataclass(frozen=True)
class Trouble:
    """What a person may want to look at: counts, and the newest by name, unless names are withheld."""

    uncovered: int
    failed: tuple[FailedSession, ...]
    failed_count: int
    problems: tuple[BadPlace, ...]
    problem_count: int
    lost_sessions: int
    never_read: int
    records_withheld: int


@dataclass(frozen=True)
class Held:
    """How many sessions were made by each version of some rules, and the current version, None if there is none."""

    current: int | str | None
    sessions: Mapping[str, int]


@dataclass(frozen=True)
class Versions:
    """Which rules made what is stored."""

    catalog: int
    parsers: Mapping[str, Held]
    derivation: Held
    redaction: Held


@dataclass(frozen=True)
class LastSweep:
    """The last sweep that found anything, what it counted, and the raw cache after it."""

    id: int
    started_at: str
    ended_at: str | None
    seconds: float | None
    counters: Mapping[str, float]
    raw_bytes: int | None
    soft_cap_bytes: int | None
    hard_cap_bytes: int | None


@dataclass(frozen=True)
class Status:
    """The state of a store."""

    data_dir: str
    agents: tuple[AgentFigures, ...]
    usage: Usage
    sources: Mapping[str, int]
    trouble: Trouble
    versions: Versions
    withheld: Withheld
    last_sweep: LastSweep | None
    writer: str | None


def figures_by_agent(store: Store) -> tuple[AgentFigures, ...]:
    """One row per agent that has sessions. A damaged digest is counted, but not added up."""
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    with store.catalog.reading() as connection:
        sums = {row.flavor: tuple(row)[1:] for row in sessions.sums_by_agent(connection)}
        for flavor, text, mark in digests.texts(connection):
            if text_hash(store.key, text.encode()) != mark:
                counted[flavor]["damaged"] += 1
                continue
            digest = parsed_digest(text)
            counted[flavor]["events"] += digest["event_count"]
            counted[flavor].update({kind: digest["tokens"][kind] or 0 for kind in TOKEN_KINDS})
    return tuple(
        _figures(flavor, counted[flavor], *sums.get(flavor, (0, 0, 0, 0))) for flavor in sorted({*sums, *counted})
    )


def _figures(  # noqa: PLR0913, PLR0917 - the columns of one row
    flavor: str, counted: Counter[str], count: int, evicted: int, raw_bytes: int, source_bytes: int
) -> AgentFigures:
    tokens = {kind: counted[kind] for kind in TOKEN_KINDS}
    return AgentFigures(flavor, count, evicted, counted["damaged"], counted["events"], raw_bytes, source_bytes, tokens)


def read_status(store: Store) -> Status:
    """Everything that `helix status` reports, without opening a raw file or waiting for a writer."""
    settings = store.settings
    agents = figures_by_agent(store)
    policy = settings.retention
    with store.catalog.reading() as connection:
        usage = Usage(
            raw_bytes=_raw_cache_bytes(connection, store),
            raw_soft_cap_bytes=policy.raw_soft_cap_bytes,
            raw_hard_cap_bytes=policy.raw_hard_cap_bytes,
            distilled_bytes=_distilled_bytes(settings),
            distilled_cap_bytes=policy.distilled_cap_bytes,
        )
        return Status(
            data_dir=str(settings.data_dir),
            agents=agents,
            usage=usage,
            sources=sources.count_by_status(connection),
            trouble=_trouble(connection, store),
            versions=_versions(connection, store.rules_version),
            withheld=count_withheld(store, connection),
            last_sweep=LastSweep(*last) if (last := sweeps.newest(connection)) is not None else None,
            writer=holder(settings.data_dir) if is_locked(settings.data_dir) else None,
        )


def raw_cache_bytes(store: Store) -> int:
    """Bytes of what counts towards the caps: the raw files and the search index."""
    with store.catalog.reading() as connection:
        return _raw_cache_bytes(connection, store)


def _raw_cache_bytes(connection: Connection, store: Store) -> int:
    return live_files.raw_usage(connection) + index_bytes(store.data_dir)


def last_sweep_number(store: Store) -> int:
    """The number of the last sweep that changed anything; 0 before the first."""
    with store.catalog.reading() as connection:
        return sweeps.last(connection)


def count_sessions(store: Store) -> int:
    """How many sessions there are."""
    with store.catalog.reading() as connection:
        return sessions.count(connection)


def _counts(connection: Connection, column: str) -> dict[str, int]:
    """How many sessions have each value of a column."""
    rows = sessions.count_by(connection, column)
    return {"none" if value is None else str(value): count for value, count in rows}


def _distilled_bytes(settings: Settings) -> int:
    """Bytes on disk of what is never evicted: the catalog with its log, and the facts."""
    catalog = settings.catalog_path
    paths = [catalog, catalog.with_name(catalog.name + "-wal")]
    paths += [path for path in (settings.data_dir / "memory").rglob("*") if path.is_file()]
    return bytes_of(paths)


def bytes_of(paths: Iterable[Path]) -> int:
    """Bytes on disk of those files that exist; a writer may replace some at any time."""
    total = 0
    for path in paths:
        with suppress(FileNotFoundError):
            total += os.stat(path).st_size
    return total


def _trouble(connection: Connection, store: Store) -> Trouble:
    failed = failed_sessions(connection)
    named = NEWEST if store.is_memory_redacted() else 0
    return Trouble(
        uncovered=sessions.count_uncovered(connection, versions()),
        failed=tuple(failed[:named]),
        failed_count=len(failed),
        problems=tuple(BadPlace(*row) for row in problems.newest(connection, named)),
        problem_count=problems.count(connection),
        lost_sessions=losses.count_sessions(connection),
        never_read=sources.count_never_read(connection),
        records_withheld=sweeps.sum_of(connection, "records_withheld"),
    )


def _versions(connection: Connection, redaction_version: str) -> Versions:
    by_parser: dict[str, dict[str, int]] = {}
    for flavor, version, count in sessions.count_by(connection, "flavor", "parser_version"):
        by_parser.setdefault(flavor, {})[str(version)] = count
    return Versions(
        catalog=CATALOG_VERSION,
        parsers={
            flavor: Held(ADAPTERS[flavor].version if flavor in ADAPTERS else None, held)
            for flavor, held in sorted(by_parser.items())
        },
        derivation=Held(DIGEST_VERSION, _counts(connection, "derivation_version")),
        redaction=Held(redaction_version, _counts(connection, "redaction_version")),
    )
