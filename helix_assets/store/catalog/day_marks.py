"""The marks by which the store counts its days: one row for each day of work (`model.days` says what they mean)."""

from __future__ import annotations

from datetime import datetime

from helix_assets.model.days import DayMark, next_mark
from helix_assets.model.time import iso, microseconds
from helix_assets.store.catalog import meta
from helix_assets.store.catalog.catalog import Catalog
from helix_assets.store.catalog.connection import Connection, Row


def count_day(catalog: Catalog, now: datetime) -> bool:
    """Mark a day of work, once a day; every sweep and eviction calls it. Returns whether it was the first of the day.

    Needs the writer lock.
    """
    with catalog.reading() as connection:
        last = connection.execute("SELECT * FROM day_marks ORDER BY id DESC LIMIT 1").fetchone()
        order = int(meta.value(connection, meta.ORDER) or 0)
    mark = next_mark(_mark(last) if last is not None else None, order, now)
    if mark is not None:
        with catalog.writing() as connection:
            row = {"order": mark.order, "days": mark.days, "at": iso(microseconds(mark.at))}
            connection.insert("day_marks", [row])
    return mark is not None


def read_marks(connection: Connection) -> list[DayMark]:
    """All marks, oldest first."""
    return [_mark(row) for row in connection.execute("SELECT * FROM day_marks ORDER BY id")]


def last_at(connection: Connection) -> str | None:
    """The latest time at which any work was marked."""
    at: str | None = connection.value("SELECT max(at) FROM day_marks")
    return at


def _mark(row: Row) -> DayMark:
    return DayMark(row.order, row.days, datetime.fromisoformat(row.at))
