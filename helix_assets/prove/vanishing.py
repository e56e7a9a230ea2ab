"""Logs that agents delete before they are read: those already gone, and those that soon will be.

Some agents delete logs that were not written to for some weeks. What has been read stays in the memory whatever happens
to its log; this is about the rest. Only names and times are read here.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from helix_assets.agents.spec import FoundFile
from helix_assets.model.time import iso, microseconds
from helix_assets.store.catalog import sources
from helix_assets.store.store import Store
from helix_assets.sweep.look import Scan, scan

NOTICE = timedelta(days=7)
_DAY_US = 86_400_000_000


@dataclass(frozen=True)
class Vanishing:
    """Counts of files. `due` ones are not read to their end and will be deleted within a week, first at `first_due`."""

    vanished: int
    due: int
    due_bytes: int
    first_due: str | None


def vanishing(store: Store, now: datetime, found: Scan | None = None) -> Vanishing:
    """What was lost unread, and what will be unless a sweep reads it first. `found` saves a scan of the disk."""
    found = found or scan(store)
    with store.catalog.reading() as connection:
        left_out, vanished = sources.left_out(connection), sources.vanished_unread(connection)
    unread = [found.found[key] for key in found.changes.changed if key not in left_out]
    horizon = microseconds(now + NOTICE)
    due = [
        (deleted_us, file.size)
        for file in unread
        if (deleted_us := _deleted_us(store, found.seen.flavors[file.path], file)) is not None and deleted_us < horizon
    ]
    return Vanishing(
        vanished=vanished,
        due=len(due),
        due_bytes=sum(size for _, size in due),
        first_due=iso(min(due)[0]) if due else None,
    )


def _deleted_us(store: Store, flavor: str, file: FoundFile) -> int | None:
    """When the file's agent deletes it if nothing is added; None for an agent that keeps its logs."""
    days = store.settings.sources.cleanup_days_of(flavor)
    return None if days is None else file.mtime_ns // 1000 + days * _DAY_US
