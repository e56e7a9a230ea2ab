"""The memory by agent and day: the version and the figures of each partition of a tier.

Belongs here: counts, sizes and hashes only; no text of a transcript, no path and no session id leaves this module.
Not here: how Dagster names them (`defs.partitions`), and logging them to it (`defs.record`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

from helix_assets.agents import ADAPTERS
from helix_assets.agents.spec import FoundFile
from helix_assets.model.digest_text import parsed_digest
from helix_assets.model.event import DIGEST_VERSION, SCHEMA_VERSION
from helix_assets.store.catalog import digests, sessions, sources
from helix_assets.store.catalog.connection import Connection, Row
from helix_assets.store.store import Store

Partition = tuple[str, str]
"""A flavor and a UTC day."""

SOURCE_FILES, SESSION_EVENTS, SESSION_DIGESTS = TIERS = ("source_files", "session_events", "session_digests")
"""What is stored by partition, in the order in which data flows."""

_ROWS = "rows"
_PARSERS = ".".join(f"{flavor}{adapter.version}" for flavor, adapter in ADAPTERS.items())
CODE_VERSIONS: Mapping[str, str] = {
    SOURCE_FILES: "1",
    SESSION_EVENTS: f"schema{SCHEMA_VERSION}.{_PARSERS}",
    SESSION_DIGESTS: f"digest{DIGEST_VERSION}.schema{SCHEMA_VERSION}.{_PARSERS}",
}
"""The rules that make a tier. A stored partition made by other rules shows as stale."""


@dataclass(frozen=True)
class OnDisk:
    """The agents' files as they are on disk now, by path key, and which have gone since the last sweep."""

    found: Mapping[str, FoundFile]
    gone: frozenset[str]


@dataclass(frozen=True)
class PartitionFigures:
    """The rows of a partition in a tier (files that are there, events, digests), and what else is counted by name."""

    rows: int
    counts: Mapping[str, int]


class _Questions(NamedTuple):
    """What the catalog is asked about a tier."""

    identities: Callable[[Connection, Collection[str] | None], Iterable[Row]]
    of_days: Callable[[Connection, Collection[str]], Iterable[Row]]
    row_count: Callable[[Connection], int]


_QUESTIONS: Mapping[str, _Questions] = {
    SOURCE_FILES: _Questions(sources.identities, sources.of_days, sources.count),
    SESSION_EVENTS: _Questions(sessions.identities, sessions.of_days, sessions.count_rows),
    SESSION_DIGESTS: _Questions(digests.identities, digests.of_days, digests.count),
}


def data_versions(
    store: Store, tier: str, on_disk: OnDisk | None = None, among: Collection[Partition] | None = None
) -> Mapping[Partition, str]:
    """The version of every partition of a tier: a hash of its sessions and of the code that made them.

    That of sources is over the files as the catalog knows them, or as they are on disk now if that is given. `among`
    limits the answer to the days of some partitions.
    """
    hashes: dict[Partition, Any] = {}
    days = None if among is None else {day for _, day in among}
    with store.catalog.reading() as connection:
        for row in _QUESTIONS[tier].identities(connection, days):
            partition, identity = (row[0], row[1]), tuple(row[2:])
            if tier == SOURCE_FILES and on_disk is not None:
                identity = _as_on_disk(row, on_disk)
            if partition not in hashes:
                hashes[partition] = _hasher(tier)
            hashes[partition].update(repr(identity).encode("utf-8", "surrogateescape"))
    return {partition: digest.hexdigest() for partition, digest in hashes.items()}


def empty_version(tier: str) -> str:
    """The version of a partition without sessions."""
    return str(_hasher(tier).hexdigest())


def _hasher(tier: str) -> Any:
    return blake2b(CODE_VERSIONS[tier].encode(), digest_size=16)


def _as_on_disk(source: Row, on_disk: OnDisk) -> tuple[Any, ...]:
    """The source as a sweep would record it now."""
    found = on_disk.found.get(source.path_key)
    if found is not None:
        return source.path_key, found.size, found.mtime_ns, "ok" if source.status == "gone" else source.status
    status = "gone" if source.path_key in on_disk.gone else source.status
    return source.path_key, source.size, source.mtime_ns, status


def figures_of(
    store: Store, tier: str, wanted: Collection[Partition], on_disk: OnDisk | None = None
) -> Mapping[Partition, PartitionFigures]:
    """The figures of some partitions of a tier; a partition without sessions has no rows."""
    count = {SOURCE_FILES: _count_sources, SESSION_EVENTS: _count_events, SESSION_DIGESTS: _count_digests}[tier]
    totals: dict[Partition, Counter[str]] = {partition: Counter({_ROWS: 0}) for partition in wanted}
    with store.catalog.reading() as connection:
        for row in _QUESTIONS[tier].of_days(connection, {day for _, day in wanted}):
            if (total := totals.get((row.flavor, row.day))) is not None:
                total.update(count(row, on_disk))
    return {partition: PartitionFigures(total.pop(_ROWS), total) for partition, total in totals.items()}


def row_count(store: Store, tier: str) -> int:
    """Rows of the whole tier: files that are there, events, digests."""
    with store.catalog.reading() as connection:
        return _QUESTIONS[tier].row_count(connection)


def sessions_by_partition(store: Store, first_day: str) -> Mapping[Partition, int]:
    """How many sessions each partition has, from this day on."""
    with store.catalog.reading() as connection:
        return {(flavor, day): count for flavor, day, count in sessions.count_by_day(connection, first_day)}


def _count_sources(row: Row, on_disk: OnDisk | None) -> Mapping[str, int]:
    found = on_disk.found.get(row.path_key) if on_disk is not None else None
    gone = found is None and (row.status == "gone" or (on_disk is not None and row.path_key in on_disk.gone))
    size = found.size if found is not None else row.size
    return {
        _ROWS: not gone,
        "bytes": 0 if gone else size,
        "files_gone": gone,
        "files_unreadable": row.status in ("unreadable", "damaged"),
    }


def _count_events(row: Row, _: OnDisk | None) -> Mapping[str, int]:
    return {
        _ROWS: row.row_count if row.evicted_at is None else 0,
        "sessions": 1,
        "sessions_evicted": row.evicted_at is not None,
        "records": row.record_count,
        "lines_unparsed": row.unparsed_count,
        "bytes": row.raw_bytes,
        "source_bytes": row.source_bytes,
    }


def _count_digests(row: Row, _: OnDisk | None) -> Mapping[str, int]:
    digest = parsed_digest(row.digest)
    tokens = digest["tokens"]
    return {
        _ROWS: 1,
        "input_tokens": tokens["input"],
        "output_tokens": tokens["output"],
        "cache_read_tokens": tokens["cache_read"],
        "cache_write_tokens": tokens["cache_write"],
        "turns": digest["cost"]["turns"],
        "retries": digest["cost"]["retries"],
        "tool_calls": digest["tool_calls"],
        "tool_errors": digest["tool_errors"],
        f"outcome_{row.outcome}": 1,
        "digests_of_an_older_version": row.schema_version != DIGEST_VERSION,
    }
