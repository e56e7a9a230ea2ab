"""Forgetting: a person has sessions erased everywhere, for good.

Belongs here: the order of the steps, and replacing the copies made before. Not here: asking (`cli.forget`), the steps
themselves (`keep.erase`), or what a sweep does with a tombstone (`sweep.sweep`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from helix_assets.keep.backup import back_up_if_due, own_copies
from helix_assets.keep.erase import erase_all, finish_forgetting
from helix_assets.keep.writing import writing
from helix_assets.model.time import iso, microseconds
from helix_assets.store.catalog import meta, sessions
from helix_assets.store.store import Store


@dataclass(frozen=True)
class Forgotten:
    """What was erased. `remade` sessions share records with it; the next sweep stores these with them.

    Unless `is_finished`, traces are left in files or freed pages, and the next writer tries again.
    """

    session_uids: tuple[str, ...]
    raw_bytes: int
    digests: int
    remade: tuple[str, ...]
    is_finished: bool


def forget(store: Store, uids: Collection[str], *, now: datetime) -> Forgotten:
    """Erase sessions: raw bytes, facts, digest, sources, problems, their names in logs and notes."""
    with writing(store, "forget"):
        with store.catalog.reading() as connection:
            rows = sorted(sessions.by_uid(connection, uids).values(), key=lambda row: row.session_uid)
        erased, remade = erase_all(store, rows, iso(microseconds(now)) or "")
        return Forgotten(
            session_uids=tuple(row.session_uid for row in rows),
            raw_bytes=sum(row.raw_bytes for row in rows),
            digests=erased,
            remade=tuple(remade),
            is_finished=finish_forgetting(store) and _replace_copies(store, now),
        )


def _replace_copies(store: Store, now: datetime) -> bool:
    """Replace all copies that contain what was forgotten by a new one. If that fails, every sweep tries again."""
    with store.catalog.reading() as connection:
        known = meta.every(connection)
    return not own_copies(store) or back_up_if_due(store, now, known) is not None
