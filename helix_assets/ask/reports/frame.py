"""What a report is made of: figures, tables and charts over a span of days, asked of the views in DuckDB.

Belongs here: the shapes, and asking. Which reports there are stands in the package's first page, how one becomes files
in `files`. A column that is `private` holds words of a session (a path, a repository, a model): files may show it,
because they go with the session; Dagster's records may not, because they outlive one that is forgotten, and no new
redaction rule reaches them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import TYPE_CHECKING, Any

from helix_assets.ask.plots import Chart
from helix_assets.model.errors import QueryError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

SHOWN_ROWS = 25
"""Rows of a table that a person is shown; the files hold all."""


@dataclass(frozen=True)
class Span:
    """Days, the first and the last one included; None is open. UTC."""

    since: date | None = None
    until: date | None = None

    def __post_init__(self) -> None:
        if self.since and self.until and self.since > self.until:
            raise QueryError(f"{self.since} is later than {self.until}: the first day comes first, the last day second")

    def holds(self, day: str) -> str:
        """An SQL condition on an expression that gives a day."""
        bounds = [f"{day} >= DATE '{self.since}'"] if self.since else []
        bounds += [f"{day} <= DATE '{self.until}'"] if self.until else []
        return " AND ".join(bounds) or "true"

    def __str__(self) -> str:
        if not self.since and not self.until:
            return "all days"
        return f"{self.since or 'the first day'} to {self.until or 'the last day'}"


@dataclass(frozen=True)
class ReportTable:
    """Rows under named columns; `private` ones hold words of a session."""

    name: str
    title: str
    data: pa.Table
    private: frozenset[str] = frozenset()

    @property
    def columns(self) -> list[str]:
        return list(self.data.column_names)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows, by column."""
        rows: list[dict[str, Any]] = self.data.to_pylist()
        return rows


@dataclass(frozen=True)
class Note:
    """What the State Hub is told of a week: numbers, ids, names of repositories and our own words."""

    at: str
    week: str
    figures: Mapping[str, int | float]
    text: str


@dataclass(frozen=True)
class Report:
    """What was found. `edition` tells reports of one name apart that stand side by side, such as weeks."""

    title: str
    span: Span
    figures: Mapping[str, int | float | None]
    tables: Sequence[ReportTable]
    charts: Mapping[str, Chart] = field(default_factory=dict)
    notes: Sequence[str] = ()
    edition: str | None = None
    note: Note | None = None
    left_out: Sequence[str] = ()

    def table(self, name: str) -> ReportTable:
        """The table of this name; QueryError names those there are."""
        found = next((table for table in self.tables if table.name == name), None)
        if found is None:
            there = ", ".join(table.name for table in self.tables)
            raise QueryError(f"this report has no table {name!r}; it has {there}")
        return found


@dataclass(frozen=True)
class Asking:
    """The open views, the days that are asked for, and the day on which it is asked."""

    connection: duckdb.DuckDBPyConnection
    span: Span
    today: date

    def run(self, sql: str) -> None:
        """Make something ready for the questions that follow."""
        self.connection.execute(sql)

    def table(self, name: str, title: str, sql: str, private: Collection[str] = ()) -> ReportTable:
        """The answer to a SELECT as a table of the report."""
        return ReportTable(name, title, self.connection.sql(sql).to_arrow_table(), frozenset(private))

    def rows(self, sql: str) -> list[dict[str, Any]]:
        """The answer to a SELECT, a dictionary per row."""
        rows: list[dict[str, Any]] = self.connection.sql(sql).to_arrow_table().to_pylist()
        return rows

    def figures(self, sql: str) -> dict[str, Any]:
        """The only row of an answer."""
        (row,) = self.rows(sql)
        return row

    def by_day(self, sql: str) -> dict[str, dict[str, float]]:
        """An answer of name, day and number, as a chart takes it."""
        series: dict[str, dict[str, float]] = {}
        for name, day, number in self.connection.execute(sql).fetchall():
            series.setdefault(str(name), {})[str(day)] = float(number or 0)
        return series
