"""Removing what a killed writer left: files that were never committed, and index entries of what is gone."""

from __future__ import annotations

import shutil

from helix_assets.store.catalog import live_files
from helix_assets.store.store import Store
from helix_assets.store.words.keep import drop_gone

STAGED, BEFORE_RESTORE = ".restore", "set-aside"
"""Where a restore prepares its copy, and where it moves what was there before."""


def recover(store: Store) -> None:
    """Remove files that were written but never committed, and from the search index what is gone."""
    store.raw.clear_staging()
    shutil.rmtree(store.data_dir / STAGED, ignore_errors=True)  # a killed restore left it: its copy is still there
    with store.catalog.reading() as connection:
        live = live_files.part_names(connection)
        named = {file.name for file in live_files.fact_files(connection)}
    for name in store.raw.names():
        if name not in live:
            store.raw.remove(name)
    for name in store.facts.names():
        if name not in named:
            store.facts.remove(name)
    drop_gone(store)
