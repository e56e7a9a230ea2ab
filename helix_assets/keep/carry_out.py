"""Finishing evictions: the one place where raw bytes of sessions are deleted.

The next writer finishes whatever is marked in the catalog. Belongs here: notes of losses, unlinking, tombstones.
Not here: which sessions go (`keep.retention`), or marking them (`keep.evict`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from helix_assets.keep.notes import sync_folder, write_loss_note
from helix_assets.keep.retention import Reason
from helix_assets.store.catalog import live_files, losses, sessions, sources
from helix_assets.store.catalog.connection import Connection, Row
from helix_assets.store.catalog.retries import clear_rederivation
from helix_assets.store.catalog.session_keys import keys_of
from helix_assets.store.raw import RawFiles

if TYPE_CHECKING:
    from helix_assets.store.store import Store

_log = logging.getLogger(__name__)


def finish_interrupted(store: Store) -> list[Path]:
    """Finish every eviction that is marked. Returns the notes of losses. Needs the writer lock.

    A session whose files cannot be deleted stays marked and is logged; the others go.
    """
    with store.catalog.reading() as connection:
        marked = sessions.being_evicted(connection)
        parts = live_files.parts_of(connection, [row.id for row in marked])
        usage = live_files.raw_usage(connection) if marked else 0
    if not marked:
        return []
    lost = {row.evicting_at for row in marked if row.evicting_reason == Reason.OVERFLOW}
    notes = [_report_loss(store, at) for at in sorted(lost)]
    gone = [row for row in marked if _unlink(store.raw, parts.get(row.id, ()))]
    for folder in {store.raw.path(part.name).parent for row in gone for part in parts.get(row.id, ())}:
        if folder.is_dir():
            sync_folder(folder)
    with store.catalog.writing() as connection:
        for row in gone:
            freed = sum(part.bytes for part in parts.get(row.id, ()))
            usage -= freed
            _put_gone(connection, row, freed, usage)
    return notes


def _unlink(raw: RawFiles, parts: Sequence[Row]) -> bool:
    try:
        for part in parts:
            raw.remove(part.name)
    except OSError as exc:
        _log.error("raw bytes cannot be deleted (%s): the next writer tries again", exc)
        return False
    return True


def _put_gone(connection: Connection, row: Row, freed: int, usage_after: int) -> None:
    """Leave a tombstone: the counts of what was there and the cursors, but no text that a parser kept for later."""
    live_files.drop_parts(connection, [row.id])
    clear_rederivation(connection, row.session_uid)
    sources.change(connection, row.id, parser_state=None)
    keys = keys_of(connection, row.id)
    sessions.change(
        connection,
        row.id,
        evicted_at=row.evicting_at,
        evicting_at=None,
        evicting_reason=None,
        raw_bytes=0,
        evicted_records=max(1, len(keys.records) if keys is not None else row.row_count),
        light_records=0,
    )
    losses.put_eviction(
        connection,
        at=row.evicting_at,
        session_uid=row.session_uid,
        flavor=row.flavor,
        day=row.day,
        bytes=freed,
        generation=row.generation,
        reason=row.evicting_reason,
        usage_after=usage_after,
    )


def _report_loss(store: Store, at: str) -> Path:
    """Write a hub note and a log line about what is being lost."""
    with store.catalog.reading() as connection:
        lost = losses.of_time(connection, at)
    note = write_loss_note(store.data_dir, at, lost)
    size = sum(loss.bytes for loss in lost)
    _log.warning("session_memory.data_loss: %d sessions, %d bytes, without a digest: see %s", len(lost), size, note)
    return note
