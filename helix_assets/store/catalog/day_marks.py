"""The marks by which the store counts its days: one row for each day of work (`model.days` says what they mean)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from helix_assets.model.days import DayMark, next_mark
from helix_assets.model.time import iso, microseconds
from helix_assets.store.catalog.catalog import Catalog
from helix_assets.store.catalog.schema import day_marks


def count_day(catalog: Catalog, now: datetime) -> None:
    """Mark a day of work, once a day; every sweep and eviction calls it. Needs the writer lock."""
    newest = select(day_marks).order_by(day_marks.c.id.desc()).limit(1)
    with catalog.reading() as connection:
        last = connection.execute(newest).one_or_none()
    mark = next_mark(_mark(last) if last is not None else None, int(catalog.meta_value("order") or 0), now)
    if mark is not None:
        with catalog.writing() as connection:
            at = iso(microseconds(mark.at))
            connection.execute(insert(day_marks).values(order=mark.order, days=mark.days, at=at))


def read_marks(connection: Connection) -> list[DayMark]:
    """All marks, oldest first."""
    return [_mark(row) for row in connection.execute(select(day_marks).order_by(day_marks.c.id))]


def _mark(row: Row[Any]) -> DayMark:
    return DayMark(row.order, row.days, datetime.fromisoformat(row.at))
