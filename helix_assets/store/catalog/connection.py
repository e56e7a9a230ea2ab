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
from weakref import WeakSet

from helix_assets.model.errors import BusyError, DiskFullError, HelixError, NoAccessError, StoreError

_MANY = 5_000
_PATIENCE_S = 60
_ROOM_TO_READ = 64 << 10
_JSON = {"facts", "last_row", "parser_state", "told", "counters", "path_keys", "record"}
"""Columns of these names are JSON, in every table."""
_SETTINGS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON")


class DamagedValueError(sqlite3.DatabaseError):
    """A value that was read is not what the type of its column says."""


def _from_json(stored: bytes) -> Any:
    try:
        return json.loads(stored)
    except (ValueError, RecursionError):  # not JSON, not UTF-8, or nested beyond sense
        raise DamagedValueError("a value in it is damaged") from None  # the cause contains the text


sqlite3.register_converter("JSON", _from_json)
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

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._reads = WeakSet[sqlite3.Cursor]()

    def execute(self, statement: str, parameters: Any = (), /) -> sqlite3.Cursor:
        cursor = super().execute(statement, parameters)
        if cursor.description is not None:
            self._reads.add(cursor)
        return cursor

    def end(self) -> None:
        """End the transaction. A read that goes on would keep its snapshot, and give it to all that follow."""
        for cursor in list(self._reads):
            cursor.close()
        if self.in_transaction:
            self.rollback()

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
        cursor = self.execute(statement, parameters)
        cursor.row_factory = None
        return cursor.fetchall()

    def for_each(self, statement: str, values: Collection[Any], parameters: Sequence[Any] = ()) -> Iterator[Row]:
        """Run a statement that contains `IN ({})` for any number of values. `parameters` come before them."""
        for part in in_parts(values):
            yield from self.execute(statement.format(marks(part)), (*parameters, *part)).fetchall()

    def of_days(self, statement: str, column: str, days: Collection[str] | None) -> Iterator[Row]:
        """As `for_each`, with `{}` for the whole condition; None means all days. The rows of a day are in order."""
        if days is None:
            return iter(self.rows(statement.format("")))
        return self.for_each(statement.format(f"WHERE {column} IN ({{}})"), days)

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


def connect(path: Path, settings: Sequence[str] = _SETTINGS) -> Connection:
    """Open the catalog's file, which need not exist."""
    connection = _open(str(path))
    try:
        for setting in settings:
            connection.execute(f"PRAGMA {setting}")
    except BaseException:  # it is not a database, for example
        connection.close()
        raise
    return connection


def connect_read_only(path: Path) -> Connection:
    """Open the catalog's file without changing anything in it, for example a copy of a catalog."""
    return _open(f"{path.absolute().as_uri()}?mode=ro", is_uri=True)


def _open(name: str, *, is_uri: bool = False) -> Connection:
    connection = sqlite3.connect(
        name,
        uri=is_uri,
        timeout=_PATIENCE_S,
        isolation_level=None,  # transactions are begun by the caller, so that reads are snapshots too
        check_same_thread=False,
        detect_types=sqlite3.PARSE_DECLTYPES,
        factory=Connection,
    )
    connection.row_factory = Row
    return connection


@contextmanager
def plainly(path: Path, what: str) -> Iterator[None]:
    """Describe damage, a lock, a full disk and the like in one sentence. A wrong statement's error stays as it is."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise
    except sqlite3.DatabaseError as exc:
        if _is_of_statement(exc):
            raise
        raise _plain_error(exc, path, f"{path} cannot be {what}") from (None if is_of_value(exc) else exc)


def _plain_error(error: sqlite3.DatabaseError, path: Path, cannot: str) -> HelixError:
    name = getattr(error, "sqlite_errorname", "")
    if _is_disk_full(name, path):
        return DiskFullError(
            f"{cannot}: the disk is full. Make room, or set a lower cap and evict "
            "(HELIX_RAW_SOFT_CAP_BYTES=1GiB helix evict --apply); the next run goes on"
        )
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return BusyError(f"{cannot}: another program keeps it locked. Try again when that has ended")
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return NoAccessError(
            f"{cannot}: {error}. The file system is read-only, or rights are missing: even readers need to write in "
            f"{path.parent}. Make that possible, or set HELIX_DATA_DIR to a copy of it"
        )
    reason = "a value in it is damaged" if is_of_value(error) else error
    return StoreError(f"{cannot}: {reason}. `helix verify` says what is damaged; restore that from a backup")


def _is_of_statement(error: sqlite3.DatabaseError) -> bool:
    """Whether the statement is wrong, not the file. JSON that SQLite itself cannot read is damage, too."""
    return getattr(error, "sqlite_errorname", "") == "SQLITE_ERROR" and str(error) != "malformed JSON"


def is_of_value(error: sqlite3.Error) -> bool:
    """Whether a row was found, but a value in it cannot be read. Python's message about that quotes the value."""
    return not hasattr(error, "sqlite_errorname")


def _is_disk_full(name: str, path: Path) -> bool:
    """Whether an error of this name is due to a full disk. Even reading needs some room, or there is an I/O error."""
    is_io_error = name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN"))
    return name == "SQLITE_FULL" or (is_io_error and shutil.disk_usage(path.parent).free < _ROOM_TO_READ)
