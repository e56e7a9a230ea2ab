"""What could not be read: files, folders and lines, each with its reason."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helix_assets.model.errors import Problem
from helix_assets.store.catalog.connection import Connection, Row

if TYPE_CHECKING:
    from helix_assets.store.store import Store


def of_places(connection: Connection) -> dict[tuple[str, str], bool]:
    """Problems of whole files and folders by path key and reason, and whether the path is a source."""
    query = """SELECT problems.path_key, reason, sources.id IS NOT NULL FROM problems
        LEFT JOIN sources ON sources.path_key = problems.path_key WHERE problems.line = 0"""
    return {(path_key, reason): bool(is_source) for path_key, reason, is_source in connection.tuples(query)}


def newest(connection: Connection, count: int) -> list[Row]:
    """The problems that were found last."""
    return connection.rows(
        'SELECT path, line, "offset", reason, seen_at FROM problems ORDER BY id DESC LIMIT ?', (count,)
    )


def count(connection: Connection) -> int:
    return int(connection.value("SELECT count(*) FROM problems"))


def put(connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
    """Record what could not be read, once each."""
    connection.insert("problems", rows, or_="IGNORE")


def drop(connection: Connection, ones: Collection[tuple[str, str]]) -> None:
    """Remove problems of whole files and folders, by path key and reason."""
    connection.executemany("DELETE FROM problems WHERE path_key = ? AND reason = ? AND line = 0", ones)


def forget(connection: Connection, paths: Collection[str]) -> None:
    """Remove the problems of files that only forgotten sessions had, under whatever name."""
    for path in paths:
        connection.execute("DELETE FROM problems WHERE path_key = ? OR path = ?", (path, path))


def clear(connection: Connection, read_from: Mapping[str, int]) -> None:
    """Remove the problems of files that are read again: by path key, from which line on (0 for the whole file)."""
    connection.executemany("DELETE FROM problems WHERE path_key = ? AND line >= ?", read_from.items())


def problem_rows(
    store: Store, flavor: str, found: Collection[Problem], keys: Mapping[str, str], at: str
) -> list[dict[str, Any]]:
    """Problems as rows of the catalog, their paths made safe to show."""
    rows = []
    for problem in found:
        shown = store.shown_path(problem.path)
        rows.append(
            {
                "path_key": keys.get(problem.path, shown),
                "path": shown,
                "flavor": flavor,
                "line": problem.line or 0,
                "offset": problem.offset,
                "reason": problem.reason[:300],
                "seen_at": at,
            }
        )
    return rows
