"""Lines of edits that are known only by their calls: copies of a subagent's records without a patch."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix_assets.agents.claude.edits import UNKNOWN, lines_of
from helix_assets_tests.home import Memory, line, prompt

TABLE = (
    ("Edit", {"old_string": "a\nb\nc", "new_string": "a\nx\ny\nc"}, (2, 1)),
    ("Edit", {"old_string": "a", "new_string": "b"}, (1, 1)),
    ("Edit", {"old_string": "a\nb\n", "new_string": ""}, (0, 2)),
    ("Edit", {"old_string": "a\n", "new_string": "a\nb\n"}, (1, 0)),
    ("Edit", {"old_string": "", "new_string": "a\nb\n"}, (2, 0)),
    ("Edit", {"old_string": "a\nk\nb", "new_string": "b\nk\na"}, (2, 2)),
    ("Edit", {"old_string": "a\n" * 2000, "new_string": "b\n" * 2000}, UNKNOWN),
    ("Edit", {"old_string": "a", "new_string": "b", "replace_all": True}, UNKNOWN),
    ("Edit", {"old_string": "a"}, UNKNOWN),
    ("Edit", {"old_string": ["a"], "new_string": None}, UNKNOWN),
    (
        "MultiEdit",
        {"edits": [{"old_string": "a", "new_string": "b\nc"}, {"old_string": "d\n", "new_string": ""}]},
        (2, 2),
    ),
    ("MultiEdit", {"edits": [{"old_string": "a", "new_string": "b"}, {}]}, UNKNOWN),
    ("MultiEdit", {}, UNKNOWN),
    ("NotebookEdit", {"edit_mode": "insert", "new_source": "a\nb"}, (2, 0)),
    ("NotebookEdit", {"new_source": "a\nb"}, UNKNOWN),
    ("Write", {"content": "a\n"}, UNKNOWN),  # what was there before is not known
    ("Read", {}, UNKNOWN),
)
_TEXT = st.lists(st.sampled_from(["a", "b", "c", ""]), min_size=1, max_size=8).map("\n".join)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    found = Memory(tmp_path)
    yield found
    found.close()


@pytest.mark.parametrize(("tool", "given", "expected"), TABLE)
def test_lines_are_those_of_the_call(tool: str, given: dict[str, Any], expected: tuple[int | None, int | None]) -> None:
    assert lines_of(tool, given) == expected


@given(_TEXT.filter(bool), _TEXT.filter(bool))
def test_lines_are_never_more_than_a_diff_shows(old: str, new: str) -> None:
    added, removed = lines_of("Edit", {"old_string": old, "new_string": new})
    diff = [each[:2] for each in difflib.ndiff(old.split("\n"), new.split("\n"))]
    assert added is not None
    assert removed is not None
    assert added <= diff.count("+ ")
    assert removed <= diff.count("- ")
    assert added - removed == len(new.split("\n")) - len(old.split("\n"))
    assert (added, removed) != (0, 0) or old == new


def progress(uuid: str, at: str, role: str, *blocks: dict[str, Any]) -> bytes:
    """A record of a subagent as its parent's file has it."""
    message = {"role": role, "content": list(blocks)}
    if role == "assistant":
        message |= {"id": f"msg_{uuid}".ljust(20, "0"), "model": "claude-haiku-4-5"}
    inner = {"type": role, "uuid": f"i{uuid}", "timestamp": f"2026-06-05T{at}.000Z", "message": message}
    return line("progress", uuid, at, data={"type": "agent_progress", "agentId": "a1", "message": inner})


def edit(number: int, tool: str, says: str, *, failed: bool = False, **given: Any) -> list[bytes]:
    """A subagent's edit with its result."""
    call = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": given}
    result = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": says, "is_error": failed}
    return [
        progress(f"c{number}", f"10:{number:02}:00", "assistant", call),
        progress(f"r{number}", f"10:{number:02}:05", "user", result),
    ]


EDITS = (
    edit(1, "Edit", "The file /w/a.py has been updated.", file_path="/w/a.py", old_string="x", new_string="y\nz"),
    edit(2, "Write", "File created successfully at: /w/new.py", file_path="/w/new.py", content="a\nb\n"),
    edit(3, "Write", "The file /w/b.py has been updated.", file_path="/w/b.py", content="a\nb\n"),
    edit(4, "Edit", "All were replaced.", file_path="/w/c.py", old_string="x", new_string="y", replace_all=True),
    edit(5, "Edit", "String not found.", file_path="/w/d.py", old_string="x", new_string="y", failed=True),
)


@pytest.mark.parametrize("at_once", [100, 1])
def test_subagents_edits_without_a_patch_have_the_lines_of_their_calls(memory: Memory, at_once: int) -> None:
    lines = [prompt("p1", "10:00:00", "go"), *(each for records in EDITS for each in records)]
    for start in range(0, len(lines), at_once):
        memory.write("s1", *lines[start : start + at_once], append=True)
        memory.sweep()
    digest = memory.digest("claude:s1")
    assert digest["edits"] == {"count": 4, "lines_added": 4, "lines_removed": 1}
    files = {file["path"]: (file["lines_added"], file["lines_removed"]) for file in digest["files"]}
    assert files == {"/w/a.py": (2, 1), "/w/new.py": (2, 0), "/w/b.py": (None, None), "/w/c.py": (None, None)}


def test_edits_of_which_none_shows_its_lines_have_none(memory: Memory) -> None:
    memory.write("s1", prompt("p1", "10:00:00", "go"), *EDITS[2], *EDITS[3])
    memory.sweep()
    assert memory.digest("claude:s1")["edits"] == {"count": 2, "lines_added": None, "lines_removed": None}
