"""What `ask` answers has named fields of known types, and nobody can change it: no bare dict, no list, no Any."""

import ast
from collections.abc import Iterator

import pytest

from helix_assets_tests.repository.test_layout import MODULES, room, tree

UNTYPED = {"Any", "dict", "list", "object", "set"}
EXCEPTIONS = {"ask.sql.Answer.rows": "values of a person's own SELECT"}


def named(annotation: ast.AST | None) -> set[str]:
    """The names in an annotation, also in one that is written as a text."""
    if annotation is None:
        return {"Any"}
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return named(ast.parse(annotation.value, mode="eval"))
    return {part.attr if isinstance(part, ast.Attribute) else part.id
            for part in ast.walk(annotation) if isinstance(part, ast.Attribute | ast.Name)}  # fmt: skip


def untyped(node: ast.Module | ast.ClassDef, name: str) -> Iterator[str]:
    """Public functions that return, and public fields that hold, what is bare or can be changed."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and not part.name.startswith("_") and named(part.returns) & UNTYPED:
            yield f"{name}.{part.name}"
        elif isinstance(part, ast.ClassDef) and not part.name.startswith("_"):
            yield from untyped(part, f"{name}.{part.name}")
            made = " ".join(map(ast.unparse, part.decorator_list))
            if "dataclass" in made and "frozen=True" not in made:
                yield f"{name}.{part.name}"
        elif (
            isinstance(node, ast.ClassDef)
            and isinstance(part, ast.AnnAssign)
            and isinstance(part.target, ast.Name)
            and not part.target.id.startswith("_")
            and named(part.annotation) & UNTYPED
        ):
            yield f"{name}.{part.target.id}"


def test_answers_are_typed_and_frozen() -> None:
    found = {one for module in MODULES if room(module) == "ask" for one in untyped(tree(module), module)}
    assert found == EXCEPTIONS.keys()


@pytest.mark.parametrize(
    "source",
    [
        "def f() -> dict[str, int]: ...",
        "def f() -> Mapping[str, Any]: ...",
        "def f() -> 'list[int] | None': ...",
        "def f(): ...",
        "class C:\n    def f(self) -> typing.Any: ...",
        "class C(NamedTuple):\n    rows: list[int]",
        "@dataclass\nclass C:\n    count: int",
        "@dataclass(kw_only=True)\nclass C:\n    count: int",
    ],
)
def test_this_guard_sees_what_is_bare(source: str) -> None:
    assert list(untyped(ast.parse(source), "m"))


@pytest.mark.parametrize(
    "source",
    [
        "def f() -> Mapping[str, Held]: ...",
        "def _f() -> dict[str, int]: ...",
        "class _C:\n    rows: list[int]",
        "@dataclass(frozen=True)\nclass C:\n    rows: tuple[int, ...]",
        "waiting: list[int] = []",
    ],
)
def test_this_guard_leaves_what_is_frozen_or_private(source: str) -> None:
    assert not list(untyped(ast.parse(source), "m"))
