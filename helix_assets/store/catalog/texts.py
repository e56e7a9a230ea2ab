"""One walk over the texts in all tables of the catalog, whatever they mean: for what concerns every stored text.

A table and a column count unless they are named here as the store's own, so that a new one is not forgotten. Not here:
what becomes of a text (`sweep.rescan`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from helix_assets.store.catalog.connection import Connection

_PAGE = 1_000
_OUR_TABLES = frozenset(
    {"meta", "raw_files", "fact_files", "ledger", "ledger_news", "session_keys", "forgotten", "sweeps"}
)
"""Hashes, numbers and our own words. A mark in `forgotten` is a hash, and its name goes when the forgetting ends."""
_OUR_COLUMNS = frozenset({"flavor", "role", "status", "outcome", "day", "read_hash", "file_key", "hash",
                          "redaction_version", "digest"})  # fmt: skip
"""A digest is proven by its hash, so whoever changes it does that apart."""


def rewrite_texts(connection: Connection, change: Callable[[str, Mapping[str, Any]], Mapping[str, Any]]) -> int:
    """Pass the texts of each row to `change(table, texts)`, and store what it returns. Returns how many rows changed.

    JSON is passed as the value that it means.
    """
    changed = 0
    for table, columns in _texts(connection).items():
        for number, row in rows_of(connection, table, columns):
            if values := change(table, {name: value for name, value in row.items() if value}):
                connection.update(table, values, "rowid = ?", number)
                changed += 1
    return changed


def rows_of(connection: Connection, table: str, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Some columns of each row, with the number of the row. Rows may be changed meanwhile."""
    names = ", ".join(f'"{name}"' for name in columns)
    query = f'SELECT rowid, {names} FROM "{table}" WHERE rowid > ? ORDER BY rowid LIMIT {_PAGE}'
    last = -1
    while page := connection.tuples(query, (last,)):
        for number, *values in page:
            yield number, dict(zip(columns, values, strict=True))
        last = page[-1][0]


def tables(connection: Connection) -> list[str]:
    """The names of all tables, also of those that an earlier version made."""
    return connection.column("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")


def _texts(connection: Connection) -> dict[str, list[str]]:
    """The columns of each table that contain texts, or JSON with texts."""
    found = {}
    for table in tables(connection):
        columns = connection.tuples(f'PRAGMA table_info("{table}")')
        texts = [name for _, name, kind, *_ in columns if kind in {"TEXT", "JSON"} and not _is_ours(name)]
        if texts and table not in _OUR_TABLES:
            found[table] = texts
    return found


def _is_ours(column: str) -> bool:
    return column in _OUR_COLUMNS or column == "at" or column.endswith("_at")
