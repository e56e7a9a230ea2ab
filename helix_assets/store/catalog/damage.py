"""What is wrong with a catalog: pages, indexes, references, and values that cannot be read; also in a copy of one.

Belongs here: what a database can say about itself, whatever its version. Not here: whether its rows say what is true
of the files (`prove.promises`).
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Iterator
from contextlib import closing

from helix_assets.store.catalog.connection import Connection, is_of_value
from helix_assets.store.catalog.texts import tables

# Not by the converter of JSON: it returns None for an empty text, too.
_FACTS = """SELECT session_uid FROM sessions
    WHERE CASE WHEN json_valid(facts) THEN json_type(facts) != 'object' ELSE 1 END ORDER BY session_uid"""
_KEYS = """SELECT DISTINCT session_uid FROM session_keys JOIN sessions ON sessions.id = session_id
    WHERE length(records) % 8 OR length(bad_lines) % 8 OR length(messages) % 16"""


def damage(connection: Connection) -> Iterator[str]:
    """Everything that is wrong. Reads every row of every table once."""
    for line in connection.column("PRAGMA integrity_check"):
        if line != "ok":
            yield str(line)
    for table, *_ in connection.tuples("PRAGMA foreign_key_check"):
        yield f"a row of {table} points nowhere"
    names = tables(connection)
    unreadable = {table: why for table in names if (why := _unreadable(connection, table))}
    yield from unreadable.values()
    readable = set(names) - unreadable.keys()
    if "sessions" in readable:
        for uid in connection.column(_FACTS):
            yield f"the facts of {uid} are not a JSON object"
    if {"sessions", "session_keys"} <= readable:  # earlier versions recorded no keys
        for uid in connection.column(_KEYS):
            yield f"what {uid} counts is recorded in numbers that are cut"


def _unreadable(connection: Connection, table: str) -> str | None:
    """What is wrong with a table of which not every value can be read."""
    try:
        with closing(connection.execute(f'SELECT * FROM "{table}"')) as rows:
            deque(rows, maxlen=0)
    except sqlite3.DatabaseError as exc:
        return f"{table} has values that cannot be read" if is_of_value(exc) else f"{table} cannot be read: {exc}"
    return None
