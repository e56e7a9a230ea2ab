"""What each writer does first and last: take the lock, clean up after a killed writer.

Not here: the lock itself (`store.lock`).
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from helix_assets.keep.carry_out import finish_interrupted
from helix_assets.keep.erase import finish_forgetting
from helix_assets.keep.recovery import recover
from helix_assets.store.catalog import sessions, tombstones
from helix_assets.store.catalog.feed import OLD_FEED
from helix_assets.store.lock import WAIT_S, writer_lock
from helix_assets.store.reserve import make_reserve
from helix_assets.store.store import Store


@contextmanager
def writing(store: Store, what: str, wait_s: float = WAIT_S) -> Iterator[None]:
    """Hold the writer lock, after cleaning up what a killed holder left behind."""
    with writer_lock(store.data_dir, what, wait_s) as unfinished:
        store.raw.prepare()
        shutil.rmtree(store.data_dir / OLD_FEED, ignore_errors=True)
        with store.catalog.reading() as connection:
            evicting, forgetting = sessions.being_evicted(connection), tombstones.unfinished(connection)
        if evicting:
            finish_interrupted(store)
        if unfinished:
            recover(store)
        if forgetting:
            finish_forgetting(store)
        yield
        store.raw.clear_staging()
        make_reserve(store.data_dir)
