"""The house: which room may import which, no circle, no hidden import, pure rooms, modules that say what they are."""

import ast
import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from helix_assets.agents import AGENTS

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "helix_assets"
TESTS = CHECKOUT / "helix_assets_tests"

# Each room, and the rooms that it may import. Rooms still to come stand here already.
ROOMS = {
    "model": set[str](),
    "redaction": {"model"},
    "derive": {"model"},
    "agents": {"model", "derive"},
    "settings": {"model", "redaction", "derive", "agents"},
    "store": {"model", "redaction", "settings"},
    "ask": {"model", "redaction", "derive", "settings", "agents", "store"},
    "kaizen": {"model", "derive", "agents", "store", "ask"},
    "hooks": {"model", "settings", "agents", "store"},
    "keep": {"model", "settings", "agents", "store", "ask", "kaizen", "hooks"},
    "sweep": {"model", "redaction", "derive", "settings", "agents", "store", "ask", "kaizen", "hooks", "keep"},
    "prove": {"model", "redaction", "derive", "settings", "agents", "store", "ask", "hooks", "keep", "sweep"},
    "demo": {"model"},
    "fleet": {"model", "settings", "store", "ask"},
    "serve": {"model", "settings", "store"},
    "serve/api": {"model", "settings", "ask", "prove"},
    "serve/mcp": {"model", "settings", "ask", "prove"},
    "serve/page": set[str](),
}
SKINS = {"cli", "defs"}
# The root holds the entry points, and doors at names that are written down outside of this checkout.
DOORS = {"hook", "digest_lookup", "dagster_storage", "search"}
ROOT = {"__init__", "__main__", "definitions", *DOORS}
# Imports of another room within a function. Modules that any other may import so: each spares most processes a library
# that they do not need.
BIG = {
    "store.arrow": "pyarrow",
    "store.parquet": "pyarrow",
    "store.fact_files": "pyarrow",
    "store.words.segment": "numpy",
    "derive.merge": "the classes of a digest, whose making takes longer than a sweep without news may",
    "redaction.engine": "re2",
    "ask.plots": "matplotlib",
    "ask.reports.markdown": "pyarrow",
    "prove.verify_secrets": "pyarrow",
    "demo": "what only the sample home needs",
    "kaizen.derived": "pyarrow",
    "kaizen.metrics": "what few homes have",
    "keep.report_folder": "what few sweeps need",
}
LAZY = {
    ("__init__", "ask.memory"): "all of the read layer, for who imports the package alone",
    ("__main__", "cli.listing"): "a hook ends before the command line is loaded",
    ("__main__", "cli.main"): "as above",
    ("__main__", "hooks.hook"): "as above",
    ("__main__", "settings"): "as above",
    ("ask.digest_lookup", "settings"): "five milliseconds for who names the store",
    ("ask.digest_lookup", "store.store"): "as above, unless the redaction rules may have changed",
    ("cli.main", "ask.query"): "only an error needs it",
    ("cli.main", "ask.reading"): "as above",
    ("cli.main", "redaction"): "as above",
    ("cli.main", "redaction.encoded"): "as above",
    ("cli.main", "settings"): "as above",
    ("cli.main", "store.store"): "as above",
    ("cli.redact", "settings"): "only for rules of the person's own",
    ("store.store", "redaction"): "a sweep without news and a reader of figures need no rules",
    ("store.store", "redaction.encoded"): "as above",
}
# Who imports modules by a name that is computed: the agents of the list, and commands.
BY_NAME = {"agents", "cli.main"}
# Pure rooms decide from what they are given: nothing that reads a disk, a clock or the environment, and no engine.
PURE = {"model", "derive", "redaction"}
NEVER_PURE = {
    *("dagster", "duckdb", "pandas", "pyarrow", "sqlalchemy", "sqlite3"),
    *("glob", "io", "os", "shutil", "socket", "subprocess", "tempfile", "time"),
}
NEVER_PURE_NAMES = {"Path", "PosixPath", "open"}
NEVER_PURE_METHODS = {"now", "today", "utcnow", "read_text", "read_bytes", "write_text", "write_bytes"}


def dotted(path: Path) -> str:
    """A module's name below the package."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


MODULES = {dotted(path): path for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text(encoding="utf-8"))


def imports(node: ast.AST, kind: str = "top") -> Iterator[tuple[str, str]]:
    """The dotted names that are imported below a node, and whether at the top, for types alone or within a function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from ((alias.name, kind) for alias in child.names)
        elif isinstance(child, ast.ImportFrom) and child.module:
            yield from ((f"{child.module}.{alias.name}", kind) for alias in child.names)
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            yield from imports(child, "types")
        else:
            if isinstance(child, ast.Call) and _called(child) in IMPORTERS:
                yield _literal(child) or COMPUTED, kind
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from imports(child, "lazy" if is_function and kind == "top" else kind)


IMPORTERS = {"import_module", "__import__"}
COMPUTED = "a computed name"


def _called(call: ast.Call) -> str:
    """The last name of what is called."""
    return getattr(call.func, "attr", getattr(call.func, "id", ""))


def _literal(call: ast.Call) -> str | None:
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


@cache
def ours(module: str) -> frozenset[tuple[str, str]]:
    """Modules of ours that a module imports."""
    found = set()
    for name, kind in imports(tree(module)):
        if name.startswith("helix_assets."):
            wanted = name.removeprefix("helix_assets.")
            while wanted and wanted not in MODULES:
                wanted = wanted.rpartition(".")[0]
            if wanted and wanted != module:
                found.add((wanted, kind))
    return frozenset(found)


def room(module: str) -> str:
    """The room that a module is in; a module of the root is one of its own."""
    parts = module.split(".")
    inner = "/".join(parts[:2])
    return inner if inner in ROOMS else parts[0]


def test_each_room_imports_only_what_it_may() -> None:
    wrong = [
        f"{module} imports {other}"
        for module in MODULES
        for other, _ in ours(module)
        if room(module) in ROOMS and room(other) not in {room(module), *ROOMS[room(module)]}
    ]
    assert wrong == []


def test_rooms_are_those_of_the_table() -> None:
    folders = {path.name for path in PACKAGE.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    packages = {path.parent for path in PACKAGE.rglob("*.py")}
    assert [path for path in packages if not (path / "__init__.py").exists()] == []
    assert folders <= ROOMS.keys() | SKINS | {"adapters", "core"}  # doors that have to be packages
    assert {path.stem for path in PACKAGE.glob("*.py")} == ROOT


def test_only_the_entry_points_import_the_skins() -> None:
    may = SKINS | {"__main__", "definitions"}
    wrong = [f"{m} imports {o}" for m in MODULES for o, _ in ours(m) if room(o) in SKINS and room(m) not in may]
    assert wrong == []


def test_no_import_is_hidden_in_a_function_without_a_reason() -> None:
    lazy = {(m or "__init__", o) for m in MODULES for o, kind in ours(m) if kind == "lazy" and room(o) != room(m)}
    assert {(module, other) for module, other in lazy if other not in BIG} == LAZY.keys()
    assert BIG.keys() <= {other for _, other in lazy}


def test_modules_are_imported_by_a_computed_name_in_few_places() -> None:
    assert {module for module in MODULES for name, _ in imports(tree(module)) if name == COMPUTED} == BY_NAME


def test_an_import_by_a_call_counts_like_any_other() -> None:
    source = """
import_module("helix_assets.a.b")
def late():
    return importlib.import_module("helix_assets.c")
late(__import__(f"{x}.d"))
"""
    found = [("helix_assets.a.b", "top"), ("helix_assets.c", "lazy"), (COMPUTED, "top")]
    assert list(imports(ast.parse(source))) == found


def test_the_table_allows_only_imports_that_there_are() -> None:
    used = {(room(module), room(other)) for module in MODULES for other, _ in ours(module)}
    allowed = {(one, other) for one, others in ROOMS.items() for other in others if (PACKAGE / one).is_dir()}
    assert allowed - used == set()


def test_no_modules_import_each_other_in_a_circle() -> None:
    left = {module: {other for other, kind in ours(module) if kind != "types"} for module in MODULES}
    while free := {module for module, needs in left.items() if not needs & left.keys()}:
        left = {module: needs for module, needs in left.items() if module not in free}
    assert left == {}


def test_pure_rooms_read_no_disk_no_clock_and_no_environment() -> None:
    wrong = []
    for module in MODULES:
        if room(module) in PURE:
            nodes = list(ast.walk(tree(module)))
            names = {node.id for node in nodes if isinstance(node, ast.Name)} & NEVER_PURE_NAMES
            methods = {node.attr for node in nodes if isinstance(node, ast.Attribute)} & NEVER_PURE_METHODS
            libraries = {name.split(".")[0] for name, _ in imports(tree(module))} & NEVER_PURE
            wrong += [f"{module}: {name}" for name in (*names, *methods, *libraries)]
    assert wrong == []


# Names that another release of Dagster may move; its libraries for its own use count as private, too.
_PRIVATE = re.compile(r"\bdagster(?:_\w+)?(?:\.[a-z]\w*)*\._\w|\bdagster_(?:graphql|pipes|shared|webserver)\b")
ADAPTER = "serve.dagster_private"


def test_private_modules_of_dagster_are_used_by_the_adapter_alone() -> None:
    wrong = []
    for module in MODULES.keys() - {ADAPTER}:
        named = {name for name, _ in imports(tree(module))}
        for node in ast.walk(tree(module)):
            named |= {str(node.value)} if isinstance(node, ast.Constant) and isinstance(node.value, str) else set()
            named |= {ast.unparse(node).replace("dg.", "dagster.", 1)} if isinstance(node, ast.Attribute) else set()
        wrong += [(module, name) for name in named if _PRIVATE.search(name)]
    assert wrong == []


def test_each_private_import_of_dagster_has_a_reason() -> None:
    lines = MODULES[ADAPTER].read_text(encoding="utf-8").splitlines()
    private = [n for n, line in enumerate(lines) if line.lstrip().startswith("from dagster") and _PRIVATE.search(line)]
    first = [n for n in private if not lines[n - 1].lstrip().startswith("from dagster")]
    assert len(private) > len(first) > 5
    assert [lines[n] for n in first if not lines[n - 1].lstrip().startswith("#")] == [
        "        from dagster_webserver.webserver import DagsterWebserver"  # has its reason where its type is imported
    ]


def test_each_module_says_what_belongs_in_it() -> None:
    assert [module for module in MODULES if not ast.get_docstring(tree(module))] == []


def test_no_two_modules_of_the_rooms_have_the_same_name() -> None:
    # The agents are alike on purpose; a command or an asset is named after what it shows.
    alike = tuple(f"agents.{agent}." for agent in AGENTS)
    names = Counter(
        module.rpartition(".")[2]
        for module, path in MODULES.items()
        if path.name != "__init__.py" and room(module) in ROOMS and not module.startswith(alike)
    )
    assert [name for name, count in names.items() if count > 1] == []


_NAMED = re.compile(f"(?<![a-z])(?:{'|'.join(AGENTS)})(?![a-z])", re.I)  # as a word, also within an identifier


def test_an_agent_is_named_in_its_folder_the_list_and_the_demo_alone() -> None:
    folders = tuple(f"agents/{agent}/" for agent in AGENTS)
    # The rules name who issues a key, and what kind of a token it is: words that a person knows it by.
    may = ("agents/__init__.py", "demo/", "redaction/rules.py", *folders)
    files = {path.relative_to(PACKAGE).as_posix(): path for path in PACKAGE.rglob("*") if path.is_file()}
    wrong = [
        f"{name}:{number}: {line.strip()}"
        for name, path in files.items()
        if path.suffix != ".pyc" and not name.startswith(may)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if _NAMED.search(line)
    ]
    assert wrong == []


def test_an_agent_is_one_line_of_the_list() -> None:
    lines = MODULES["agents"].read_text(encoding="utf-8").splitlines()
    assert [line.strip() for line in lines if _NAMED.search(line)] == [f'"{agent}",' for agent in AGENTS]
    assert {path.name for path in (PACKAGE / "agents").iterdir() if (path / "__init__.py").exists()} == {*AGENTS}


def test_tests_mirror_the_rooms() -> None:
    besides = {"repository", "faults", "fixtures", "outcomes", "__pycache__"}
    folders = {entry.name for entry in os.scandir(TESTS) if entry.is_dir()}
    assert folders - besides <= {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    assert {path.name for path in TESTS.glob("*.py")} == {"__init__.py", "conftest.py", "home.py"}


def test_each_room_has_tests() -> None:
    tested = defaultdict(int, {entry.name: 1 for entry in os.scandir(TESTS) if entry.is_dir()})
    assert [name for name in ROOMS if (PACKAGE / name).is_dir() and not tested[name.split("/")[0]]] == []


# Why these make files by hand: a hook starts without the store, a lock and a token are not replaced, `agents` knows no
# store, the catalog is made by SQLite, the demo writes logs as an agent would.
MAKES_FILES = {"store.durable", "hooks.hook", "store.lock", "serve.token", "agents.database", "store.catalog.catalog"}


def test_new_files_are_made_by_the_functions_for_that() -> None:
    makes = {module for module, path in MODULES.items() if "O_CREAT" in path.read_text(encoding="utf-8")}
    assert {module for module in makes if room(module) != "demo"} == MAKES_FILES
