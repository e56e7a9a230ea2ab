"""How many lines an edit adds and removes, by its call alone, as Claude's own patch would count them.

Needed where a record of a result has no patch: the copies of a subagent's records in its parent's file.
"""

from __future__ import annotations

from typing import Any

from helix_assets.agents.loose import line_count
from helix_assets.agents.spec import JsonObject

Lines = tuple[int | None, int | None]
UNKNOWN: Lines = (None, None)
_MOST = 1_000_000
"""Comparisons of lines at most; a replacement of larger texts stays unknown."""


def lines_of(tool: str, given: JsonObject) -> Lines:
    """Lines added and removed, None where the call does not show it, as what a written file replaces."""
    if tool == "Edit":
        return _replaced(given)
    if tool == "MultiEdit":
        return _sum([_replaced(edit) if isinstance(edit, dict) else UNKNOWN for edit in _list(given.get("edits"))])
    if tool == "NotebookEdit" and given.get("edit_mode") == "insert" and isinstance(given.get("new_source"), str):
        return line_count(given["new_source"]), 0
    return UNKNOWN


def _replaced(edit: JsonObject) -> Lines:
    old, new = edit.get("old_string"), edit.get("new_string")
    if not isinstance(old, str) or not isinstance(new, str) or edit.get("replace_all"):
        return UNKNOWN  # how often it was replaced is not known
    before, after = old.split("\n"), new.split("\n")
    if not old:
        return line_count(new), 0
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    before, after = before[start : len(before) - end], after[start : len(after) - end]
    if not new and old.endswith("\n"):
        return 0, line_count(old)  # nothing is left of its lines, not even an empty one
    if len(before) * len(after) > _MOST:
        return UNKNOWN
    same = _common(before, after)
    return len(after) - same, len(before) - same


def _common(before: list[str], after: list[str]) -> int:
    """The number of lines that both have in the same order, at most."""
    row = [0] * (len(after) + 1)
    for line in before:
        diagonal = 0
        for place, other in enumerate(after, start=1):
            above = row[place]
            row[place] = diagonal + 1 if line == other else max(above, row[place - 1])
            diagonal = above
    return row[-1]


def _sum(parts: list[Lines]) -> Lines:
    added, removed = [part[0] for part in parts], [part[1] for part in parts]
    if not parts or None in added or None in removed:
        return UNKNOWN
    return sum(filter(None, added)), sum(filter(None, removed))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
