"""The guard of conftest.py lets no test near the real home folder."""

import gc
import os
import sqlite3
import tempfile
from pathlib import Path

import pytest

from helix_assets_tests.conftest import CHECKOUT, REAL_HOME, HomeGuard, RealHomeTouchedError


@pytest.fixture
def guard() -> HomeGuard:
    """A second guard, asked directly, so that what it notes does not fail the test."""
    guard = HomeGuard()
    guard.on = True
    return guard


@pytest.mark.parametrize("event", ["open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "sqlite3.connect"])
def test_real_home_is_out_of_reach(guard: HomeGuard, event: str) -> None:
    with pytest.raises(RealHomeTouchedError):
        guard(event, (f"{REAL_HOME}/.claude/projects", "r", 0))
    assert guard.touched == [f"{event} {REAL_HOME}/.claude/projects"]


def test_either_end_of_a_move_counts(guard: HomeGuard) -> None:
    with pytest.raises(RealHomeTouchedError):
        guard("os.rename", ("/tmp/a", f"{REAL_HOME}/a", -1, -1))


@pytest.mark.parametrize(
    "path", [3, "/etc/hosts", str(CHECKOUT / "pyproject.toml"), tempfile.gettempdir(), os.__file__]
)
def test_other_places_are_free(guard: HomeGuard, path: object) -> None:
    guard("open", (path, "r", 0))
    assert not guard.touched


def test_each_test_has_a_home_of_its_own(home: Path, tmp_path: Path) -> None:
    places = ("HOME", "CLAUDE_CONFIG_DIR", "CODEX_HOME", "GROK_HOME", "HELIX_DATA_DIR", "HELIX_CONFIG")
    assert home.is_relative_to(tmp_path)
    assert all(Path(os.environ[place]).is_relative_to(home) for place in places)
    assert Path.home() == home


def test_interpreter_tells_the_guard_of_databases_too(guard: HomeGuard, tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "x.db").close()
    assert not guard.touched


def leave_open() -> None:
    sqlite3.connect(":memory:").execute("select 1").close()
    gc.collect()


def test_a_connection_that_is_left_open_is_seen() -> None:
    with pytest.warns(ResourceWarning, match="unclosed database"):
        leave_open()
