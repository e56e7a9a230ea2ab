"""A memory of two sessions in the repository of a project that records metrics."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from helix_assets_tests.home import Memory, conversation

ONE, TWO = "claude:s1", "claude:s2"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder of a project named shop, as the sessions' working folder is."""
    folder = tmp_path / "code" / "shop"
    (folder / ".kaizen" / "metrics" / "coder").mkdir(parents=True)
    return folder


@pytest.fixture
def metrics(project: Path) -> Path:
    return project / ".kaizen" / "metrics" / "coder" / "executions.jsonl"


@pytest.fixture
def memory(tmp_path: Path, project: Path) -> Iterator[Memory]:
    memory = Memory(tmp_path, environ={"HELIX_KAIZEN_PROJECTS": str(project)})
    memory.write("s1", *conversation(2, session="a"))
    memory.write("s2", *(line.replace(b"2026-06-05", b"2026-06-06") for line in conversation(3, session="b")))
    memory.sweep()
    yield memory
    memory.close()
