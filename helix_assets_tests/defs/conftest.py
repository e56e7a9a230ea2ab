"""A small home of Claude sessions over a few days, and a Dagster instance that forgets."""

from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest

from helix_assets.defs import sensors
from helix_assets.settings import load_settings
from helix_assets.store.store import Store, open_store
from helix_assets_tests.defs.runs import make_logs


@pytest.fixture
def logs(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sample home that the agents' variables point to."""
    return make_logs(home, monkeypatch)


@pytest.fixture(autouse=True)
def without_earlier_ticks() -> Iterator[None]:
    """Nothing is remembered of the ticks of other tests."""
    yield
    if sensors._own is not None:
        sensors._own.close()
        sensors._own = None


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
