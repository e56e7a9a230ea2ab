"""Facts about the store itself, by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping

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
    put_all(connection, {name: value})


def put_all(connection: Connection, values: Mapping[str, str]) -> None:
    """Remember each value by its name."""
    connection.upsert("meta", [{"name": name, "value": value} for name, value in values.items()], ["name"])


def next_order(connection: Connection) -> int:
    """The next number in the order of work."""
    increase = """INSERT INTO meta (name, value) VALUES (?, '1')
        ON CONFLICT (name) DO UPDATE SET value = CAST(value AS INTEGER) + 1 RETURNING value"""
    return int(connection.column(increase, (ORDER,))[0])


def drop(connection: Connection, names: Collection[str]) -> None:
    """Remember it no longer."""
    connection.run_for("DELETE FROM meta WHERE name IN ({})", names)
