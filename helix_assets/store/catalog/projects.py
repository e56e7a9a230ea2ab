"""Files of executions in people's projects, and their records: the tables `execution_files` and `executions`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from helix_assets.store.catalog.connection import Connection, Row


def file(connection: Connection, path_key: str) -> Row | None:
    """A file by its name; None if it was never read."""
    return connection.row("SELECT * FROM execution_files WHERE path_key = ?", (path_key,))


def put_file(connection: Connection, values: Mapping[str, Any]) -> int:
    """Record what is known of a file, by its `path_key`. Returns its number."""
    connection.upsert("execution_files", [values], ["path_key"])
    return int(connection.value("SELECT id FROM execution_files WHERE path_key = ?", (values["path_key"],)))


def records(connection: Connection) -> list[Row]:
    """Every record with its number, its line and its file, in their order."""
    query = """SELECT executions.id, path_key, project, agent, executions.line, record FROM executions
        JOIN execution_files ON execution_files.id = file_id ORDER BY path_key, executions.line"""
    return connection.rows(query)


def records_naming(connection: Connection, uids: Collection[str]) -> Iterator[Row]:
    """The records that name these sessions."""
    return connection.for_each("SELECT id, session_uid, record FROM executions WHERE session_uid IN ({})", uids)


def put_records(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add records of files."""
    connection.insert("executions", rows)


def change_record(connection: Connection, number: int, **values: Any) -> None:
    """Change some columns of a record."""
    connection.update("executions", values, "id = ?", number)


def drop_records(connection: Connection, file_id: int) -> None:
    """Remove the records of a file, which is read from the start."""
    connection.execute("DELETE FROM executions WHERE file_id = ?", (file_id,))
