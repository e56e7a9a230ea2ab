"""Dropping the texts of a session's records while the light rows of its events stay: the first step of the budget.

Belongs here: the part files are rewritten without the texts and synced, one catalog transaction names them in place of
the old ones, and these are unlinked. A kill before that transaction changes nothing; after it the next writer removes
the old files. Not here: whose texts go (`keep.retention`), or whole files (`keep.evict`).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from helix_assets.keep.retention import Decision
from helix_assets.model.errors import DiskFullError, StoreError
from helix_assets.store.catalog import live_files, losses, sessions, sources
from helix_assets.store.catalog.connection import Row
from helix_assets.store.durable import sync
from helix_assets.store.raw import LIGHT, PartFile, file_hash
from helix_assets.store.store import Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Lightened:
    """Bytes freed by session. `failed` ones are damaged or cannot be rewritten for lack of room: their files go."""

    freed: Mapping[str, int]
    failed: tuple[Decision, ...]


def drop_texts(store: Store, decisions: Sequence[Decision], at: str) -> Lightened:
    """Drop the texts of these sessions' records; what is derived from them stays. Needs the writer lock."""
    with store.catalog.reading() as connection:
        rows = sessions.by_uid(connection, [decision.session_uid for decision in decisions])
        held = live_files.parts_of(connection, [row.id for row in rows.values()])
    fresh: dict[str, list[tuple[Row, PartFile]]] = {}
    failed = []
    for decision in decisions:
        uid = decision.session_uid
        try:
            fresh[uid] = _rewritten(store, held.get(rows[uid].id, ()))
        except (OSError, StoreError) as exc:
            _log.warning("the texts of a session cannot be dropped alone (%s): its whole file goes", exc)
            failed.append(decision)
    try:
        sync(store.data_dir, [store.raw.path(new.name) for parts in fresh.values() for _, new in parts])
        freed = _named(store, {uid: (rows[uid], parts) for uid, parts in fresh.items()}, at, decisions)
    except (OSError, DiskFullError) as exc:
        _log.warning("texts cannot be dropped alone (%s): whole files go", exc)
        for parts in fresh.values():
            for _, new in parts:
                _remove(store, new.name)
        return Lightened({}, tuple(decisions))
    for parts in fresh.values():
        for old, _ in parts:
            _remove(store, old.name)
    return Lightened(freed, tuple(failed))


def _rewritten(store: Store, parts: Sequence[Row]) -> list[tuple[Row, PartFile]]:
    """Each part that contains texts, and the published file without texts that replaces it."""
    from helix_assets.store.parquet import copy_without_texts

    done: list[tuple[Row, PartFile]] = []
    try:
        for part in parts:
            if part.record_count:
                path = store.raw.path(part.name)
                if file_hash(path, store.key) != part.hash:
                    raise StoreError(f"{path.name} is damaged")
                stem = part.name.removesuffix(".parquet")
                made = copy_without_texts(path, store.raw.staging / os.path.basename(stem), store.key)
                name = f"{stem}{LIGHT}"
                store.raw.publish(made.name, name)
                done.append((part, made._replace(name=name)))
    except BaseException:
        for _, new in done:
            _remove(store, new.name)
        raise
    return done


def _named(
    store: Store,
    fresh: Mapping[str, tuple[Row, Sequence[tuple[Row, PartFile]]]],
    at: str,
    decisions: Sequence[Decision],
) -> dict[str, int]:
    """Name the new files in the catalog, all or none, and log the evictions. Returns the bytes freed."""
    freed = {}
    with store.catalog.writing() as connection:
        usage = live_files.raw_usage(connection)
        for decision in (decision for decision in decisions if decision.session_uid in fresh):
            uid = decision.session_uid
            row, parts = fresh[uid]
            freed[uid] = sum(old.bytes - new.bytes for old, new in parts)
            usage -= freed[uid]
            for old, new in parts:
                live_files.replace_part(
                    connection, old.id, name=new.name, bytes=new.bytes, hash=new.hash, record_count=0, text_bytes=0
                )
            # The parser keeps no text either. The next lines of these files are derived together with all before them.
            sources.change(connection, row.id, parser_state=None)
            sessions.change(
                connection,
                row.id,
                raw_bytes=row.raw_bytes - freed[uid],
                record_count=0,
                light_records=max(1, row.light_records + row.record_count),
            )
            losses.put_eviction(
                connection,
                at=at,
                session_uid=uid,
                flavor=row.flavor,
                day=row.day,
                bytes=freed[uid],
                generation=row.generation,
                reason=decision.reason.value,
                usage_after=usage,
            )
    return freed


def _remove(store: Store, name: str) -> None:
    try:
        store.raw.remove(name)
    except OSError as exc:
        _log.error("%s cannot be deleted (%s): the next writer tries again", name, exc)
