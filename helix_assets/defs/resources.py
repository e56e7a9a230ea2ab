"""How runs and ticks open the store. The only definitions that read the environment, and not at import."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import dagster as dg
from dagster_duckdb import DuckDBResource
from pydantic import Field

from helix_assets.settings import Settings, load_settings
from helix_assets.store.store import Store, open_store

DUCKDB = DuckDBResource(database=":memory:")
"""Where reports are computed. The memory's views, and the limits of what they may use, are set by `ask.views`."""


class StoreResource(dg.ConfigurableResource[Store]):
    """The memory's store, opened from helix.toml and the HELIX_* variables when a run or a tick needs it."""

    data_dir: str | None = Field(default=None, description="Another data folder than the settings name; for tests.")

    def settings(self) -> Settings:
        """The settings as they are now."""
        settings = load_settings(os.environ)
        return replace(settings, data_dir=Path(self.data_dir)) if self.data_dir else settings

    @contextmanager
    def open(self) -> Iterator[Store]:
        """The open store; closed again at the end of the block."""
        store = open_store(self.settings())
        try:
            yield store
        finally:
            store.close()
