"""Facts about the store itself, by name."""

from __future__ import annotations

from collections.abc import Collection

from helix_assets.store.catalog.connection import Connection

ORDER = "order"


def value(connection: Connection, name: str) -> str | None:
    """What is remembered under this name."""
    found: str | None = connection.value("SELECT value FROM meta WHERE name = ?", (name,))
    return found


def every(connection: Connection) -> dict[str, str]:
    """All that is remembered."""
    return dict(connection.tuples("SELECT name, value FROM meta"))


def put(connection: Connection, name: str, value: str) -> None:
    """Remember it."""
    connection.upsert("meta", [{"name": name, "value": value}], ["name"])


def next_order(connection: Connection) -> int:
    """The next number in the order of work."""
    number = int(value(connection, ORDER) or 0) + 1
    put(connection, ORDER, str(number))
    return number


def drop(connection: Connection, names: Collection[str]) -> None:
    """Remember it no longer."""
    connection.run_for("DELETE FROM meta WHERE name IN ({})", names)
