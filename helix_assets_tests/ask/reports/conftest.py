"""A memory of a few hand-made sessions whose every figure is known, over two weeks and two repositories."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from helix_assets_tests.home import Memory, answer, call, prompt, result

WEEK, BEFORE = "2026-06-08", "2026-06-03"


def on(day: str, repo: str, *lines: bytes) -> list[bytes]:
    """Lines of `memory` moved to another day and folder."""
    folder = f"/home/u/{repo}".encode()
    return [line.replace(b"2026-06-05", day.encode()).replace(b"/home/u/shop", folder) for line in lines]


def working(name: str, *, edits: int = 1, tests: str = "3 passed in 0.10s", path: str = "cart.py") -> list[bytes]:
    """A session that edits a file, runs the tests once and says so."""
    lines = [prompt(f"p{name}", "10:00:00", f"please do {name}")]
    for number in range(edits):
        key = f"e{name}{number}"
        target = {"file_path": f"/home/u/shop/{path}", "old_string": "a", "new_string": "b"}
        lines += [
            call(f"c{key}", f"10:0{number}:10", "Edit", f"toolu_{key}", **target),
            result(f"r{key}", f"10:0{number}:20", f"toolu_{key}", "The file has been updated."),
        ]
    failed = "failed" in tests
    lines += [
        call(f"ct{name}", "10:20:00", "Bash", f"toolu_t{name}", command="pytest -q"),
        result(f"rt{name}", "10:20:30", f"toolu_t{name}", f"Exit code {int(failed)}\n{tests}", failed=failed),
        answer(f"a{name}", "10:21:00", "It is done.", message=f"msg_a{name}", output=100),
    ]
    return lines


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    """Four sessions: one of the week before, two of the week in `shop`, one of the week in `mill`."""
    made = Memory(tmp_path, {"HELIX_AGENTS": "claude"})
    made.write("s0", *on(BEFORE, "shop", *working("old")))
    made.write("s1", *on(WEEK, "shop", *working("one", edits=3)))
    later = [line.replace(b"T10:", b"T11:") for line in working("two", tests="1 failed, 2 passed in 0.20s")]
    made.write("s2", *on(WEEK, "shop", *later))
    made.write("s3", *on(WEEK, "mill", *working("mill", path="wheel.go")))
    made.sweep()
    yield made
    made.close()
