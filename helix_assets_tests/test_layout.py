"""The direction of imports: towards core, and Dagster's definitions out of everybody's reach."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "helix_assets"
MODULES = sorted(PACKAGE.rglob("*.py"))

# What each layer may import of ours; a layer that is not listed is free but for defs and cli.
ALLOWED = {
    "core": {"core"},
    "settings": {"core", "settings", "rules_stamp"},
    "adapters": {"core", "adapters"},
    "storage": {"core", "storage"},
    "demo": {"core", "demo"},
}
# Core decides from what it is given: nothing that reads a disk, a clock or the environment, and no engine.
CORE_FORBIDDEN = {
    *("dagster", "duckdb", "pandas", "pyarrow", "sqlalchemy", "sqlite3"),
    *("glob", "io", "os", "shutil", "socket", "subprocess", "tempfile", "time"),
}
CORE_FORBIDDEN_NAMES = {"Path", "PosixPath", "open"}
CORE_FORBIDDEN_METHODS = {"now", "today", "utcnow", "read_text", "read_bytes", "write_text", "write_bytes"}


def imports(module: Path) -> Iterator[str]:
    """The dotted names that a module imports, wherever in it the statement stands."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer(dotted: str) -> str | None:
    """The first part below helix_assets of a dotted name, or None for other people's modules."""
    parts = dotted.split(".")
    return parts[1] if parts[0] == "helix_assets" and len(parts) > 1 else None


def own_layer(module: Path) -> str:
    return module.relative_to(PACKAGE).with_suffix("").parts[0]


def label(module: Path) -> str:
    return str(module.relative_to(PACKAGE))


@pytest.mark.parametrize("module", MODULES, ids=label)
def test_imports_point_at_core(module: Path) -> None:
    reached = {found for found in map(layer, imports(module)) if found}
    allowed = ALLOWED.get(own_layer(module), reached)
    assert reached <= allowed | {"__version__"}


@pytest.mark.parametrize("module", MODULES, ids=label)
def test_only_definitions_imports_defs(module: Path) -> None:
    reached = {found for found in map(layer, imports(module)) if found}
    if own_layer(module) not in ("definitions", "defs"):
        assert not reached & {"defs", "definitions"}


@pytest.mark.parametrize("module", MODULES, ids=label)
def test_only_the_command_line_imports_itself(module: Path) -> None:
    if own_layer(module) not in ("cli", "__main__"):
        assert "cli" not in set(map(layer, imports(module)))


@pytest.mark.parametrize("module", [module for module in MODULES if own_layer(module) == "core"], ids=label)
def test_core_is_pure(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    imported = {name.split(".")[0] for name in imports(module)}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    methods = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not imported & CORE_FORBIDDEN
    assert not names & CORE_FORBIDDEN_NAMES
    assert not methods & CORE_FORBIDDEN_METHODS


@pytest.mark.parametrize("module", MODULES, ids=label)
def test_module_says_what_belongs_in_it(module: Path) -> None:
    assert ast.get_docstring(ast.parse(module.read_text(encoding="utf-8")))
