"""Removing what a killed writer left: files that were never committed, and index entries of what is gone."""

from __future__ import annotations

from sqlalchemy import select

from helix_assets.store.catalog.old_tables import raw_files
from helix_assets.store.store import Store
from helix_assets.store.words.keep import drop_gone


def recover(store: Store) -> None:
    """Remove files that were written but never committed, and from the search index what is gone."""
    store.raw.clear_staging()
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
