"""A connection to the catalog: the standard library's, with rows that have names and JSON that is decoded.

Belongs here: how statements are run and what errors become. Not here: any statement about a table.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from helix_assets.model.errors import DiskFullError, StoreError

_MANY = 5_000
_ROOM_TO_READ = 64 << 10
_JSON = {"facts", "last_row", "parser_state", "told", "counters", "path_keys", "record"}
"""Columns of these names are JSON, in every table."""
_SETTINGS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "busy_timeout=60000", "secure_delete=ON")

sqlite3.register_converter("JSON", json.loads)
sqlite3.register_converter("BOOLEAN", lambda value: value != b"0")


Parameters = Sequence[Any] | Mapping[str, Any]


class Row(sqlite3.Row):
    """A row whose columns are attributes. As a sequence it is in the order of the query."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except IndexError:
            raise AttributeError(f"the row has no column {name!r}") from None

    def as_dict(self) -> dict[str, Any]:
        """The row's values by column."""
        return dict(zip(self.keys(), self, strict=True))


class Connection(sqlite3.Connection):
    """One connection. Column and table names in the calls below come from the program, never from data."""

    def value(self, statement: str, parameters: Parameters = ()) -> Any:
        """The first column of the first row; None if there is no row."""
        row = self.execute(statement, parameters).fetchone()
        return None if row is None else row[0]

    def column(self, statement: str, parameters: Parameters = ()) -> list[Any]:
        """The first column of all rows."""
        return [row[0] for row in self.tuples(statement, parameters)]

    def rows(self, statement: str, parameters: Parameters = ()) -> list[Row]:
        """All rows."""
        found: list[Row] = self.execute(statement, parameters).fetchall()
        return found

    def row(self, statement: str, parameters: Parameters = ()) -> Row | None:
        """The first row, None if there is none."""
        found: Row | None = self.execute(statement, parameters).fetchone()
        return found

    def tuples(self, statement: str, parameters: Parameters = ()) -> list[tuple[Any, ...]]:
        """All rows as plain tuples, which take least time."""
        cursor = self.cursor()
        cursor.row_factory = None
        return cursor.execute(statement, parameters).fetchall()

    def for_each(self, statement: str, values: Collection[Any], parameters: Sequence[Any] = ()) -> Iterator[Row]:
        """Run a statement that contains `IN ({})` for any number of values. `parameters` come before them."""
        for part in in_parts(values):
            yield from self.execute(statement.format(marks(part)), (*parameters, *part)).fetchall()

    def run_for(self, statement: str, values: Collection[Any], parameters: Sequence[Any] = ()) -> None:
        """As `for_each`, of a statement that returns no rows."""
        for _ in self.for_each(statement, values, parameters):
            pass

    def insert(self, table: str, rows: Sequence[Mapping[str, Any]], *, or_: str = "ABORT") -> None:
        """Add rows, which all have the same columns. `or_` says what happens to a row that exists."""
        if rows:
            names = ", ".join(f'"{name}"' for name in rows[0])
            values = ", ".join(f":{name}" for name in rows[0])
            self.executemany(f"INSERT OR {or_} INTO {table} ({names}) VALUES ({values})", map(_bindable, rows))

    def upsert(
        self, table: str, rows: Sequence[Mapping[str, Any]], by: Collection[str], keep: Collection[str] = ()
    ) -> None:
        """Add rows, or update those that exist `by` these columns; columns in `keep` are written only once."""
        if rows:
            names = ", ".join(f'"{name}"' for name in rows[0])
            values = ", ".join(f":{name}" for name in rows[0])
            changes = ", ".join(f'"{name}" = excluded."{name}"' for name in rows[0] if name not in {*by, *keep})
            conflict = f"ON CONFLICT ({', '.join(by)}) DO UPDATE SET {changes}"
            self.executemany(f"INSERT INTO {table} ({names}) VALUES ({values}) {conflict}", map(_bindable, rows))

    def update(self, table: str, changes: Mapping[str, Any], where: str, *parameters: Any) -> int:
        """Change columns of the rows that `where` names. Returns how many there are."""
        names = ", ".join(f'"{name}" = ?' for name in changes)
        values = (*_bindable(changes).values(), *parameters)
        return int(self.execute(f"UPDATE {table} SET {names} WHERE {where}", values).rowcount)


def in_parts(values: Collection[Any]) -> Iterator[list[Any]]:
    """The values in parts of the size that one statement may contain."""
    items = list(values)
    for start in range(0, len(items), _MANY):
        yield items[start : start + _MANY]


def marks(values: Collection[Any]) -> str:
    """A question mark for each value."""
    return ", ".join("?" * len(values))


def as_json(value: Any) -> str:
    """A value as a JSON column stores it."""
    return json.dumps(value)


def _bindable(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: as_json(value) if name in _JSON and value is not None else value for name, value in row.items()}


def connect(path: Path) -> Connection:
    """Open the catalog's file, which need not exist."""
    connection = sqlite3.connect(
        path,
        timeout=60,
        isolation_level=None,  # transactions are begun by the caller, so that reads are snapshots too
        check_same_thread=False,
        detect_types=sqlite3.PARSE_DECLTYPES,
        factory=Connection,
    )
    connection.row_factory = Row
    try:
        for setting in _SETTINGS:
            connection.execute(f"PRAGMA {setting}")
    except BaseException:  # it is not a database, for example
        connection.close()
        raise
    return connection


@contextmanager
def plainly(path: Path, what: str) -> Iterator[None]:
    """Describe damage, a full disk and the like in one sentence. Errors of a wrong statement stay as they are."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise
    except (sqlite3.DatabaseError, json.JSONDecodeError, UnicodeDecodeError) as exc:
        if isinstance(exc, sqlite3.DatabaseError) and _is_disk_full(exc, path):
            raise DiskFullError(
                f"{path} cannot be {what}: the disk is full. Make room, or set a lower cap and evict "
                "(HELIX_RAW_SOFT_CAP_BYTES=1GiB helix evict --apply); the next run goes on"
            ) from exc
        reason = exc if isinstance(exc, sqlite3.DatabaseError) else "a value in it is damaged"
        raise StoreError(
            f"{path} cannot be {what}: {reason}. `helix verify` says what is damaged; restore that from a backup"
        ) from exc


def _is_disk_full(error: sqlite3.DatabaseError, path: Path) -> bool:
    """Whether SQLite failed because the disk is full. Even reading needs some room, or SQLite reports an I/O error."""
    name = getattr(error, "sqlite_errorname", "")
    is_io_error = name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN"))
    return name == "SQLITE_FULL" or (is_io_error and shutil.disk_usage(path.parent).free < _ROOM_TO_READ)
