"""The catalog's SQL is in `store/catalog`, SQLAlchemy almost nowhere; `ask` asks for the skins, and parses digests."""

import ast
import re
from collections.abc import Iterator
from functools import cache

from helix_assets.store.catalog.schema import TABLES
from helix_assets_tests.repository.test_layout import MODULES, SKINS, imports, ours, room, tree

SQLALCHEMY = {
    "serve.dagster_storage": "Dagster's own databases, which are SQLAlchemy's",
    "serve.old_events": "as above",
    "serve.old_runs": "as above",
}
SKINS_THAT_KNOW_IT = {"defs.columns": "the types of columns that Dagster shows: the schema, no question"}
# DuckDB's views have the names of tables, but are not the catalog.
VIEWS = ("ask.views", "ask.view_columns", "ask.reports.")
PARSED_IN = {"model.digest_text"}
DIGESTS = {
    "ask.views": "parts of a digest that DuckDB has extracted",
    "ask.digest_lookup": "five milliseconds for the command, and orjson takes nine to load",
}

_TABLE = f'(?:{{}}|"?(?:{"|".join(TABLES)})\\b)'
_STATEMENT = re.compile(
    rf"\bselect\b.*\b(?:from|join)\s+{_TABLE}|\binsert\b.*\binto\s+{_TABLE}|\bdelete\s+from\s+{_TABLE}"
    rf"|\bupdate\s+{_TABLE}.*\bset\b",
    re.IGNORECASE | re.DOTALL,
)
_WRITES = {"insert", "upsert", "update"}


def texts(node: ast.AST) -> Iterator[str]:
    """The texts in a module, except docstrings. What an f-string fills in is shown as `{}`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
            continue  # a docstring
        if isinstance(child, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in child.values)
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value
        else:
            yield from texts(child)


def writes(node: ast.AST) -> Iterator[str]:
    """The tables that are written to by a method of the connection."""
    for call in ast.walk(node):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Attribute)
            and call.func.attr in _WRITES
            and call.args
        ):
            (name, *_) = call.args
            if isinstance(name, ast.Constant) and name.value in TABLES:
                yield f"{call.func.attr} {name.value}"


def statements(module_tree: ast.AST) -> list[str]:
    """The statements about tables of the catalog in a module."""
    return [*filter(_STATEMENT.search, texts(module_tree)), *writes(module_tree)]


def parses_digest(node: ast.AST) -> bool:
    """Whether a function makes data of a digest's text."""
    names = {getattr(part, "attr", getattr(part, "id", "")) for part in ast.walk(node)}
    names |= {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    if "validate_json" in names:
        return "Digest" in names
    return "loads" in names and any(re.search(r"\bdigests?\b", name) for name in names)


def uses(module_tree: ast.AST) -> set[str]:
    """Where a module takes a store's catalog, as it is written there. The version of that name is a number."""
    taken = (part for part in ast.walk(module_tree) if isinstance(part, ast.Attribute) and part.attr == "catalog")
    return {ast.unparse(part) for part in taken} - {"versions.catalog"}


@cache
def functions(module: str) -> tuple[ast.AST, ...]:
    return tuple(part for part in ast.walk(tree(module)) if isinstance(part, ast.FunctionDef))


def test_sqlalchemy_is_for_dagsters_own_databases() -> None:
    users = {m for m in MODULES if any(name.split(".")[0] == "sqlalchemy" for name, _ in imports(tree(m)))}
    assert users == SQLALCHEMY.keys()


def test_statements_about_the_catalog_are_in_the_catalog() -> None:
    elsewhere = {
        module: found
        for module in MODULES
        if not module.startswith(("store.catalog.", *VIEWS)) and (found := statements(tree(module)))
    }
    assert elsewhere == {}


def test_the_skins_ask_the_catalog_through_ask() -> None:
    skins = [module for module in MODULES if room(module) in SKINS]
    importers = {m for m in skins if any(other.startswith("store.catalog") for other, _ in ours(m))}
    assert importers == SKINS_THAT_KNOW_IT.keys()
    assert {module: found for module in skins if (found := uses(tree(module)))} == {}


def test_a_digest_is_parsed_in_one_place() -> None:
    elsewhere = {module for module in MODULES if any(map(parses_digest, functions(module)))}
    assert elsewhere == PARSED_IN | DIGESTS.keys()


def test_this_guard_sees_a_statement_a_write_a_catalog_and_a_parsed_digest() -> None:
    assert uses(ast.parse("with self.store.catalog.reading() as c: count(opened.catalog, versions.catalog)")) == {
        "self.store.catalog",
        "opened.catalog",
    }
    assert statements(ast.parse('x = f"""SELECT {what}\n FROM sessions"""'))
    assert statements(ast.parse('connection.execute(f"DELETE FROM {table}")'))
    assert statements(ast.parse('connection.upsert("digests", rows, ["session_uid"])'))
    assert not statements(ast.parse('"""Select one from sessions."""\nhelp("insert a coin, or select from the list")'))
    assert parses_digest(ast.parse("def f(row): return orjson.loads(row.digest)"))
    assert parses_digest(ast.parse("def f(text): return TypeAdapter(Digest).validate_json(text)"))
    assert not parses_digest(ast.parse("def f(row): return orjson.loads(row.record)"))
