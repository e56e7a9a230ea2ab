"""Logs that agents delete before they are read: those already gone, and those that soon will be.

Claude Code deletes logs that were not written to for 30 days (its cleanupPeriodDays). What has been read stays in the
memory whatever happens to its log; this is about the rest. Only names and times are read here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select

from helix_assets.model.time import iso, microseconds
from helix_assets.store.catalog.schema import sources
from helix_assets.store.store import Store
from helix_assets.sweep.look import Scan, scan

NOTICE = timedelta(days=7)


@dataclass(frozen=True)
class Vanishing:
    """Counts of files. `due` ones are not read to their end and will be deleted within a week, first at `first_due`."""

    vanished: int
    due: int
    due_bytes: int
    first_due: str | None


def vanishing(store: Store, now: datetime, found: Scan | None = None) -> Vanishing:
    """What was lost unread, and what will be unless a sweep reads it first. `found` saves a scan of the disk."""
    sources_of = store.settings.sources
    found = found or scan(store)
    left_out = _left_out(store)
    horizon = microseconds(now - timedelta(days=sources_of.claude_cleanup_days) + NOTICE)
    due = [
        file
        for key in found.changes.changed
        if (file := found.found[key]).mtime_ns // 1000 < horizon
        and found.seen.flavors[file.path] == "claude"
        and key not in left_out
    ]
    first = min((file.mtime_ns // 1000 for file in due), default=None)
    return Vanishing(
        vanished=_vanished(store),
        due=len(due),
        due_bytes=sum(file.size for file in due),
        first_due=None if first is None else _deleted_at(first, sources_of.claude_cleanup_days),
    )


def _deleted_at(mtime_us: int, days: int) -> str | None:
    return iso(mtime_us + days * 86_400_000_000)


def _left_out(store: Store) -> set[str]:
    with store.catalog.reading() as connection:
        return set(connection.execute(select(sources.c.path_key).where(sources.c.status == "excluded")).scalars())


def _vanished(store: Store) -> int:
    lost = select(func.count()).where(sources.c.status == "gone", sources.c.ingested_at.is_(None))
    with store.catalog.reading() as connection:
        return int(connection.execute(lost).scalar_one())
