"""Removing what a killed writer left: files that were never committed, and index entries of what is gone."""

from __future__ import annotations

import shutil

from sqlalchemy import select

from helix_assets.store.catalog.old_tables import raw_files
from helix_assets.store.store import Store
from helix_assets.store.words.keep import drop_gone

STAGED, BEFORE_RESTORE = ".restore", "set-aside"
"""Where a restore prepares its copy, and where it moves what was there before."""


def recover(store: Store) -> None:
    """Remove files that were written but never committed, and from the search index what is gone."""
    store.raw.clear_staging()
    shutil.rmtree(store.data_dir / STAGED, ignore_errors=True)  # a killed restore left it: its copy is still there
    with store.catalog.reading() as connection:
        live = set(connection.execute(select(raw_files.c.name)).scalars())
    for name in store.raw.names():
        if name not in live:
            store.raw.remove(name)
    named = {file.name for file in store.catalog.fact_files()}
    for name in store.facts.names():
        if name not in named:
            store.facts.remove(name)
    drop_gone(store)
