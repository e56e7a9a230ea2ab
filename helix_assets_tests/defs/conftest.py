"""A small home of Claude sessions over a few days, and a Dagster instance that forgets."""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from helix_assets.demo import make_home
from helix_assets.settings import load_settings
from helix_assets.store.store import Store, open_store


@pytest.fixture
def logs(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sample home that the agents' variables point to."""
    folder = home / "sample"
    make_home(folder, sessions=6, seed=3, days=4, today=date(2026, 1, 31), agents=("claude",), dirty=False)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder / "claude"))
    monkeypatch.setenv("HELIX_SWEEP_WORKERS", "1")
    return folder


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield instance


@pytest.fixture
def store(logs: Path) -> Iterator[Store]:
    """The store that runs of this test write to."""
    opened = open_store(load_settings())
    yield opened
    opened.close()
