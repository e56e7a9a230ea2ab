"""What a report is made of: figures, tables and charts over a span of days, from the views in DuckDB.

Belongs here: the shapes, and the queries. Not here: which reports there are (`all_reports`), their files (`files`).
A `private` column contains words of a session (a path, a repository, a model). Files may show it, because they are
deleted with the session. Dagster's records may not, because they stay when a session is forgotten or the redaction
rules change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from helix_assets.ask.plots import Chart
from helix_assets.model.errors import QueryError

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import pyarrow as pa

Row = TypeVar("Row", bound=NamedTuple)
Number = int | float | None
Cell = str | bool | Number | date | Sequence["Cell"]
"""What a table can contain; a time is a `datetime`, which is a `date`."""

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
SHOWN_ROWS = 25
"""The rows of a table that a person sees; the files contain all."""


@dataclass(frozen=True)
class Span:
    """Days, including the first and the last; None is open. UTC."""

    since: date | None = None
    until: date | None = None

    def __post_init__(self) -> None:
        if self.since and self.until and self.since > self.until:
            raise QueryError(f"{self.since} is later than {self.until}: give the first day, then the last")

    def holds(self, day: str) -> str:
        """An SQL condition that the day of an expression is in the span."""
        bounds = [f"{day} >= DATE '{self.since}'"] if self.since else []
        bounds += [f"{day} <= DATE '{self.until}'"] if self.until else []
        return " AND ".join(bounds) or "true"

    def __str__(self) -> str:
        if not self.since and not self.until:
            return "all days"
        return f"{self.since or 'the first day'} to {self.until or 'the last day'}"


def day_of_text(what: str, day: date | str | None) -> date | None:
    """The day that somebody wrote; None stays None. QueryError, which names `what`, if it is not a day."""
    if isinstance(day, datetime):
        return day.astimezone(UTC).date() if day.tzinfo else day.date()
    if day is None or isinstance(day, date):
        return day
    try:
        if _DAY.fullmatch(day):
            return date.fromisoformat(day)
    except (TypeError, ValueError):
        pass
    raise QueryError(f"{what} {day!r} is not a day: write it like 2026-01-31")


def rows_of(table: pa.Table, row: type[Row]) -> Sequence[Row]:
    """All rows of a table that has columns for the fields of this kind of row."""
    return list(map(row._make, zip(*table.select(row._fields).to_pydict().values(), strict=True)))


@dataclass(frozen=True)
class ReportTable:
    """Rows with named columns; `private` columns contain words of a session."""

    name: str
    title: str
    data: pa.Table
    private: frozenset[str] = frozenset()

    @property
    def columns(self) -> Sequence[str]:
        return tuple(self.data.column_names)

    @property
    def rows(self) -> Sequence[Mapping[str, Cell]]:
        """All rows, by column."""
        rows: list[Mapping[str, Cell]] = self.data.to_pylist()
        return rows

    def frame(self) -> pd.DataFrame:
        """All rows as a DataFrame."""
        from helix_assets.ask.dataframes import to_frame

        return to_frame(self.data)


@dataclass(frozen=True)
class Note:
    """What the State Hub gets about a week: numbers, ids, names of repositories and our own words."""

    at: str
    week: str
    figures: Mapping[str, int | float]
    text: str


@dataclass(frozen=True)
class Report:
    """A computed report. `edition` distinguishes reports of one name that are kept together, such as weeks."""

    title: str
    span: Span
    figures: Mapping[str, Number]
    tables: Sequence[ReportTable]
    charts: Mapping[str, Chart] = field(default_factory=dict)
    notes: Sequence[str] = ()
    edition: str | None = None
    note: Note | None = None
    left_out: Sequence[str] = ()

    def table(self, name: str) -> ReportTable:
        """The table of this name. QueryError lists the existing ones."""
        found = next((table for table in self.tables if table.name == name), None)
        if found is None:
            there = ", ".join(table.name for table in self.tables)
            raise QueryError(f"this report has no table {name!r}; it has {there}")
        return found

    def frame(self, table: str | None = None) -> pd.DataFrame:
        """A table of the report as a DataFrame, by default the first. QueryError lists the existing ones."""
        return (self.tables[0] if table is None else self.table(table)).frame()


@dataclass(frozen=True)
class Asking:
    """The open views, the days asked for, and today's date."""

    connection: duckdb.DuckDBPyConnection
    span: Span
    today: date

    def run(self, sql: str) -> None:
        """Run a statement that prepares later queries."""
        self.connection.execute(sql)

    def table(self, name: str, title: str, sql: str, private: Collection[str] = ()) -> ReportTable:
        """The answer to a SELECT as a table of the report."""
        return ReportTable(name, title, self.connection.sql(sql).to_arrow_table(), frozenset(private))

    def rows(self, sql: str, row: type[Row]) -> Sequence[Row]:
        """The answer to a SELECT of the fields of this kind of row."""
        return rows_of(self.connection.sql(sql).to_arrow_table(), row)

    def figures(self, sql: str) -> Mapping[str, Number]:
        """The only row of an answer that is numbers."""
        (row,) = self.connection.sql(sql).to_arrow_table().to_pylist()
        figures: dict[str, Number] = row
        return figures

    def by_day(self, sql: str) -> Mapping[str, Mapping[str, float]]:
        """An answer of name, day and number, in the form of a chart."""
        series: dict[str, dict[str, float]] = {}
        for name, day, number in self.connection.execute(sql).fetchall():
            series.setdefault(str(name), {})[str(day)] = float(number or 0)
        return series
