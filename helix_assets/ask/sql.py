"""A person's query in SQL: checked, then answered from the views, within limits of time and memory.

Belongs here: which statements may run, and running one. There are three safeguards: the parsed statement must be one
SELECT over our views with functions that only compute; DuckDB runs in memory with locked settings and can open only
the live files; and the limits. Not here: what the views are (`ask.views`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from helix_assets.ask.query import is_utf8
from helix_assets.ask.views import MEMORY, VIEWS, Views, with_views
from helix_assets.model.errors import QueryError
from helix_assets.store.store import Store

if TYPE_CHECKING:
    import duckdb

SECONDS = 60.0
ROWS = 10_000
_QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_TABLES_FROM_NOTHING = frozenset({"generate_series", "json_each", "json_tree", "range", "unnest"})
_DESCRIBES = frozenset({"DESCRIBE", "SUMMARY"})
# Functions that do more than compute: they use settings, sequences or the log, or wait.
_REFUSED = frozenset({
    "current_query", "current_setting", "currval", "getenv", "getvariable", "nextval", "pg_sleep", "set_config",
    "setseed", "setval", "sleep_ms", "write_log",
})  # fmt: skip


@dataclass(frozen=True)
class Answer:
    """An answer's rows. `is_cut`: there were more than asked for. `left_out` names what is damaged and missing,
    `withheld` counts the sessions whose rows are missing because of new redaction rules.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[Any, ...]]
    is_cut: bool
    left_out: tuple[str, ...]
    withheld: int


def ask(store: Store, query: str, *, rows: int = ROWS, seconds: float = SECONDS, memory: str = MEMORY) -> Answer:
    """Answer one SELECT over the views. QueryError says what is wrong with it."""
    import duckdb

    def answer(views: Views) -> Answer:
        with _time_limit(views.connection, seconds):
            cursor = views.connection.execute(query)
            columns = tuple(column[0] for column in cursor.description or ())
            found = cursor.fetchmany(rows + 1)
        return Answer(columns, found[:rows], len(found) > rows, views.left_out, views.withheld)

    wanted = admit(query)
    try:
        return with_views(store, wanted, answer, memory=memory)
    except duckdb.InterruptException as exc:
        raise QueryError(f"the query took longer than {seconds:g} s: ask for less, or for fewer views") from exc
    except duckdb.OutOfMemoryException as exc:
        raise QueryError(f"the query needs more than {memory} of memory: ask for fewer rows or columns") from exc
    except duckdb.Error as exc:
        raise QueryError(_plainly(exc)) from exc


@contextmanager
def _time_limit(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    timer = threading.Timer(seconds, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


def admit(query: str) -> frozenset[str]:
    """The views that a query reads. QueryError unless it is one SELECT over them that only computes."""
    import duckdb

    if not is_utf8(query):
        raise QueryError("the query contains a byte that is not UTF-8")
    try:
        statements = duckdb.extract_statements(query)
    except duckdb.Error as exc:
        raise QueryError(_plainly(exc)) from exc
    if len(statements) != 1:
        raise QueryError(f"one SELECT at a time; this is {len(statements)} statements")
    try:
        kind = statements[0].type.name
    except ValueError:  # a type without a name in the Python package
        kind = "something else"
    if kind == "MULTI":
        raise QueryError(
            "DuckDB makes several statements of this: give PIVOT its values, as in `pivot ... on x in ('a', 'b')`"
        )
    if kind != duckdb.StatementType.SELECT.name:
        raise QueryError(f"only SELECT is answered, and this is {kind}: only sweeps change the memory")
    with duckdb.connect() as connection:
        row = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [query]).fetchone()
    tree = orjson.loads(row[0]) if row else {"error": True}
    if tree["error"]:
        raise QueryError(f"this SELECT cannot be checked ({tree.get('error_message', 'no answer')})")
    nodes = list(_nodes(tree))
    views = frozenset(view for node, named in nodes if (view := _view(node, named)))
    for node, _ in nodes:
        _refuse(node)
    return views


def _nodes(value: Any) -> Iterator[tuple[dict[str, Any], frozenset[str]]]:
    """Every object of the parsed statement, with the names that a WITH around it defines."""
    waiting: list[tuple[Any, frozenset[str]]] = [(value, frozenset())]
    while waiting:
        one, named = waiting.pop()
        if isinstance(one, list):
            waiting += [(item, named) for item in one]
        if not isinstance(one, dict):
            continue
        for given in (one.get("cte_map") or {}).get("map", ()):
            name = frozenset({given["key"].lower()})
            is_recursive = given["value"]["query_node"]["type"] == "RECURSIVE_CTE_NODE"
            waiting.append((given["value"], named | name if is_recursive else named))
            named |= name
        yield one, named
        waiting += [(item, named) for key, item in one.items() if key != "cte_map"]


def _view(node: dict[str, Any], named: frozenset[str]) -> str | None:
    """The view that an object reads. QueryError if it reads a table that is neither a view nor named by a WITH."""
    if node.get("type") != "BASE_TABLE":
        return None
    name = node["table_name"].lower()
    is_plain = not node["schema_name"] and not node["catalog_name"]
    if is_plain and name in named:
        return None
    if is_plain and name in VIEWS:
        return str(name)
    raise QueryError(f"there is no view {node['table_name']!r}; there are {', '.join(VIEWS)}")


def _refuse(node: dict[str, Any]) -> None:
    """Refuse what writes, reads files or settings, or hides a statement in a text."""
    kind = str(node.get("type"))
    if kind.endswith("_NODE") and kind not in _QUERY_NODES:
        raise QueryError(f"only SELECT is answered, and this has {kind.removesuffix('_NODE').replace('_', ' ')}")
    if kind == "SHOW_REF" and (node["show_type"] not in _DESCRIBES or not node["query"]):
        raise QueryError(f"there is no such list; the views are {', '.join(VIEWS)}")
    if kind == "TABLE_FUNCTION":
        name = node["function"]["function_name"].lower()
        if name not in _TABLES_FROM_NOTHING:
            raise QueryError(f"{name}() is not allowed: a query reads the views and nothing else")
    if kind == "FUNCTION" and ((name := node["function_name"].lower()) in _REFUSED or name.startswith("_")):
        raise QueryError(f"{name}() is not allowed: a query only computes")


def _plainly(exc: Exception) -> str:
    """DuckDB's message without the name of the error."""
    return str(exc).partition(" Error: ")[2].strip() or str(exc)
