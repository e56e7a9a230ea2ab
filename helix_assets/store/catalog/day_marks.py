"""The marks by which the store counts its days: one row for each day of work (`model.days` says what they mean)."""

from __future__ import annotations

from datetime import datetime

from helix_assets.model.days import DayMark, next_mark
from helix_assets.model.time import iso, microseconds
from helix_assets.store.catalog import meta
from helix_assets.store.catalog.catalog import Catalog
from helix_assets.store.catalog.connection import Connection, Row


def count_day(catalog: Catalog, now: datetime) -> None:
    """Mark a day of work, once a day; every eviction calls it, and each sweep does the same. Needs the writer lock."""
    with catalog.writing() as connection:
        order = int(meta.value(connection, meta.ORDER) or 0)
        if (mark := next_mark(last_mark(connection), order, now)) is not None:
            put(connection, mark)


def last_mark(connection: Connection) -> DayMark | None:
    """The newest mark, None before the first."""
    row = connection.row("SELECT * FROM day_marks ORDER BY id DESC LIMIT 1")
    return None if row is None else _mark(row)


def put(connection: Connection, mark: DayMark) -> None:
    """Set a mark."""
    connection.insert("day_marks", [{"order": mark.order, "days": mark.days, "at": iso(microseconds(mark.at))}])


def read_marks(connection: Connection) -> list[DayMark]:
    """All marks, oldest first."""
    return [_mark(row) for row in connection.execute("SELECT * FROM day_marks ORDER BY id")]


def last_at(connection: Connection) -> str | None:
    """The latest time at which any work was marked."""
    at: str | None = connection.value("SELECT max(at) FROM day_marks")
    return at


def _mark(row: Row) -> DayMark:
    return DayMark(row.order, row.days, datetime.fromisoformat(row.at))
