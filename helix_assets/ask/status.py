"""Figures that several commands show: sessions, events, bytes and tokens by agent, and the state of the store.

Belongs here: counting from the catalog alone; no raw file is opened. Not here: how it is formatted (`cli`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, func, select

from helix_assets.agents import ADAPTERS
from helix_assets.ask.coverage import is_covered
from helix_assets.model.event import DIGEST_VERSION
from helix_assets.redaction.again import value_again
from helix_assets.settings import Settings
from helix_assets.store.before_restore import BeforeRestore, read_before_restore
from helix_assets.store.catalog.catalog import Catalog, index_bytes
from helix_assets.store.catalog.old_tables import (
    CATALOG_VERSION,
    digests,
    losses,
    problems,
    sessions,
    sources,
    sweeps,
)
from helix_assets.store.catalog.retries import failed_sessions
from helix_assets.store.key import text_hash
from helix_assets.store.lock import holder, is_locked
from helix_assets.store.store import Store

NEWEST = 5
TOKEN_KINDS = ("input", "output", "cache_read", "cache_write")


@dataclass
class AgentFigures:
    """What the memory contains of one agent. Tokens and events are those of the digests."""

    flavor: str
    sessions: int = 0
    evicted: int = 0
    damaged: int = 0
    events: int = 0
    raw_bytes: int = 0
    source_bytes: int = 0
    tokens: dict[str, int] = field(default_factory=lambda: dict.fromkeys(TOKEN_KINDS, 0))


@dataclass(frozen=True)
class Usage:
    """Bytes used against the caps."""

    raw_bytes: int
    raw_soft_cap_bytes: int
    raw_hard_cap_bytes: int
    distilled_bytes: int
    distilled_cap_bytes: int


@dataclass(frozen=True)
class Trouble:
    """What a person may want to look at: counts, and the newest by name."""

    uncovered: int
    failed: list[dict[str, Any]]
    failed_count: int
    problems: list[dict[str, Any]]
    problem_count: int
    lost_sessions: int
    never_read: int
    records_withheld: int


@dataclass(frozen=True)
class Status:
    """The state of a store."""

    data_dir: str
    agents: list[AgentFigures]
    usage: Usage
    sources: dict[str, int]
    trouble: Trouble
    versions: dict[str, Any]
    last_sweep: dict[str, Any] | None
    writer: str | None
    set_aside: BeforeRestore


def figures_by_agent(catalog: Catalog, key: bytes) -> list[AgentFigures]:
    """One row per agent that has sessions. A damaged digest is counted, but not added up."""
    s = sessions.c
    with catalog.reading() as connection:
        grouped = select(
            s.flavor, func.count(), func.count(s.evicted_at), func.sum(s.raw_bytes), func.sum(s.source_bytes)
        ).group_by(s.flavor)
        agents = {
            flavor: AgentFigures(flavor, count, evicted, raw_bytes=raw, source_bytes=source)
            for flavor, count, evicted, raw, source in connection.execute(grouped)
        }
        # Columns, not ORM rows: this is the one query that touches every digest.
        for flavor, text, mark in connection.execute(select(digests.c.flavor, digests.c.digest, digests.c.hash)):
            agent = agents.setdefault(flavor, AgentFigures(flavor))
            if text_hash(key, text.encode()) != mark:
                agent.damaged += 1
                continue
            digest = orjson.loads(text)
            agent.events += digest["event_count"]
            for kind in TOKEN_KINDS:
                agent.tokens[kind] += digest["tokens"][kind] or 0
    return [agents[flavor] for flavor in sorted(agents)]


def read_status(store: Store) -> Status:
    """Everything that `helix status` reports, without opening a raw file or waiting for a writer."""
    settings, catalog = store.settings, store.catalog
    agents = figures_by_agent(catalog, store.key)
    policy = settings.retention
    with catalog.reading() as connection:
        usage = Usage(
            raw_bytes=catalog.raw_usage() + index_bytes(store.data_dir),
            raw_soft_cap_bytes=policy.raw_soft_cap_bytes,
            raw_hard_cap_bytes=policy.raw_hard_cap_bytes,
            distilled_bytes=_distilled_bytes(settings),
            distilled_cap_bytes=policy.distilled_cap_bytes,
        )
        return Status(
            data_dir=str(settings.data_dir),
            agents=agents,
            usage=usage,
            sources=_counts(connection, sources.c.status),
            trouble=_trouble(connection, store),
            versions=_versions(connection, store.redactor.version),
            last_sweep=_last_sweep(connection),
            writer=holder(settings.data_dir) if is_locked(settings.data_dir) else None,
            set_aside=read_before_restore(store),
        )


def _counts(connection: Connection, column: ColumnElement[Any]) -> dict[str, int]:
    rows = connection.execute(select(column, func.count()).group_by(column))
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
    s, p = sessions.c, problems.c
    alive = s.evicted_at.is_(None)
    failed = failed_sessions(connection)
    newest = select(p.path, p.line, p.offset, p.reason, p.seen_at).order_by(p.id.desc()).limit(NEWEST)

    def count(table: Any, *conditions: ColumnElement[bool]) -> int:
        return int(connection.execute(select(func.count()).select_from(table).where(*conditions)).scalar_one())

    return Trouble(
        uncovered=count(sessions, alive, ~is_covered()),
        failed=[_shown(store, asdict(one)) for one in failed[:NEWEST]],
        failed_count=len(failed),
        problems=[_shown(store, row._mapping) for row in connection.execute(newest)],
        problem_count=count(problems),
        lost_sessions=int(connection.execute(select(func.count(losses.c.session_uid.distinct()))).scalar_one()),
        never_read=count(sources, sources.c.status == "gone", sources.c.ingested_at.is_(None)),
        records_withheld=_withheld(connection),
    )


def _shown(store: Store, row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row redacted by the current rules, which may be newer than those it was written by."""
    path = {"path": store.shown_path(row["path"])} if "path" in row else {}
    return {**value_again(store.redactor, dict(row)), **path}


def _withheld(connection: Connection) -> int:
    """Records that could not be redacted, over all sweeps; a line that says so replaces each."""
    counted = sweeps.c.counters["records_withheld"].as_integer()
    return int(connection.execute(select(func.coalesce(func.sum(counted), 0))).scalar_one())


def _versions(connection: Connection, redaction_version: str) -> dict[str, Any]:
    """Which rules made what is stored: how many sessions have which version, and the current version."""
    s = sessions.c
    parsed = select(s.flavor, s.parser_version, func.count()).group_by(s.flavor, s.parser_version)
    by_parser: dict[str, dict[str, int]] = {}
    for flavor, version, count in connection.execute(parsed):
        by_parser.setdefault(flavor, {})[str(version)] = count
    return {
        "catalog": CATALOG_VERSION,
        "parsers": {
            flavor: {"current": ADAPTERS[flavor].version if flavor in ADAPTERS else None, "sessions": held}
            for flavor, held in sorted(by_parser.items())
        },
        "derivation": {"current": DIGEST_VERSION, "sessions": _counts(connection, s.derivation_version)},
        "redaction": {"current": redaction_version, "sessions": _counts(connection, s.redaction_version)},
    }


def _last_sweep(connection: Connection) -> dict[str, Any] | None:
    row = connection.execute(select(sweeps).order_by(sweeps.c.id.desc()).limit(1)).one_or_none()
    return None if row is None else dict(row._mapping)
