"""Joins parts of a growing session, so that they stay few and the cost of growth stays in proportion to it.

Each growth adds a part file. If there are many, the newest are rewritten as one: from the first that is not larger than
all later ones together. So each row is rewritten a few times at most, and a large part never because of small ones. A
kill before the catalog names the new file changes nothing; after it, the next writer removes the old files. Not here:
rows that change (`sweep.read`), or parts whose texts were dropped (`keep.lighten`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Row

from helix_assets.model.errors import StoreError
from helix_assets.model.event import Row as EventRow
from helix_assets.store.durable import sync
from helix_assets.store.raw import LIGHT, PartFile, file_hash
from helix_assets.store.store import Store

JOINED_AT = 12
"""Parts are joined from this number on; a session reaches `plan.MAX_PARTS` only if they cannot be joined."""
_log = logging.getLogger(__name__)


def join_parts(store: Store, uids: Collection[str]) -> int:
    """Join the newest parts of sessions that have many. Returns the bytes written. Needs the writer lock."""
    rows = store.catalog.sessions_by_uid(uids)
    held = store.catalog.files_of([row.id for row in rows.values()])
    written = 0
    for row in rows.values():
        tail = worth_joining(held.get(row.id, ()))
        if tail:
            try:
                written += _join(store, row, tail)
            except (OSError, StoreError) as exc:
                _log.warning("the parts of a session stay as they are (%s)", exc)
                continue
            for part in tail:  # if this fails, so does the sweep, and the next writer removes them
                store.raw.remove(part.name)
    return written


def worth_joining(parts: Sequence[Row[Any]]) -> Sequence[Row[Any]]:
    """The newest parts to join, empty if it is not worthwhile."""
    if len(parts) < JOINED_AT:
        return ()
    first = next((n + 1 for n in reversed(range(len(parts))) if parts[n].name.endswith(LIGHT)), 0)
    later = sum(part.bytes for part in parts[first:])
    while first < len(parts):
        later -= parts[first].bytes
        if parts[first].bytes <= later:
            return parts[first:]
        first += 1
    return ()


def _join(store: Store, session: Row[Any], tail: Sequence[Row[Any]]) -> int:
    for part in tail:
        if file_hash(store.raw.path(part.name), store.key) != part.hash:
            raise StoreError(f"{part.name} is damaged: run `helix verify`")
    made = _joined(store, session, tail)
    name = f"{os.path.dirname(tail[0].name)}/{session.file_key}.{session.generation}.{tail[0].part}.parquet"
    store.raw.publish(made.name, name)
    sync(store.data_dir, [store.raw.path(name)])
    with store.catalog.writing() as connection:
        bytes_now = session.raw_bytes - sum(part.bytes for part in tail) + made.bytes
        rows_now = session.row_count - sum(part.row_count for part in tail) + made.rows
        records_now = session.record_count - sum(part.record_count for part in tail) + made.records
        store.catalog.join_raw_files(
            connection,
            [part.id for part in tail],
            {"session_id": session.id, "part": tail[0].part, "name": name, "bytes": made.bytes, "hash": made.hash,
             "row_count": made.rows, "record_count": made.records, "text_bytes": made.text_bytes},
        )  # fmt: skip
        store.catalog.update_session(
            connection, session.id, raw_bytes=bytes_now, row_count=rows_now, record_count=records_now
        )
    return made.bytes


def _joined(store: Store, session: Row[Any], tail: Sequence[Row[Any]]) -> PartFile:
    from helix_assets.store.parquet import SessionWriter, read_rows  # loads pyarrow: not for a sweep without news

    writer = SessionWriter(store.raw.staging / f"{session.file_key}.joined", session.session_uid, store.key)
    try:
        record: list[EventRow] = []
        for row in read_rows([store.raw.path(part.name) for part in tail], raw=True):
            if record and (row.raw is not None or row.record_key != record[0].record_key):
                writer.add(record)
                record = []
            record.append(row)
        if record:
            writer.add(record)
        return writer.close()
    except BaseException:
        writer.discard()
        raise
