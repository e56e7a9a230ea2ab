"""Forgetting: a person has sessions erased everywhere, for good.

Belongs here: the only code that removes a digest, kept apart from the catalog so that nothing else can. All that the
catalog holds of the sessions goes in one transaction, which leaves tombstones; then the files, all reports, the names
in hub notes, the freed pages of the database and the copies made before. Killed before that transaction nothing has
happened; after it, the next writer goes on. Not here: asking (`cli.forget`), or what a sweep does with a tombstone
(`sweep.sweep`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

from helix_assets.keep.backup import back_up_if_due, own_copies
from helix_assets.keep.erase import erase_all, finish_forgetting
from helix_assets.keep.writing import writing
from helix_assets.model.time import iso, microseconds
from helix_assets.store.store import Store


@dataclass(frozen=True)
class Forgotten:
    """What was erased. `remade` sessions tell records that it owned; the next sweep gives these to them.

    Without `is_finished` traces are left in files or freed pages, and the next writer tries again.
    """

    session_uids: tuple[str, ...]
    raw_bytes: int
    digests: int
    remade: tuple[str, ...]
    is_finished: bool


def forget(store: Store, uids: Collection[str], *, now: datetime) -> Forgotten:
    """Erase sessions: raw bytes, facts, digest, sources, problems, their names in logs and notes."""
    with writing(store, "forget"):
        rows = sorted(store.catalog.sessions_by_uid(uids).values(), key=lambda row: row.session_uid)
        erased, remade = erase_all(store, rows, iso(microseconds(now)) or "")
        return Forgotten(
            session_uids=tuple(row.session_uid for row in rows),
            raw_bytes=sum(row.raw_bytes for row in rows),
            digests=erased,
            remade=tuple(remade),
            is_finished=finish_forgetting(store) and _replace_copies(store, now),
        )


# -- the catalog -----------------------------------------------------------------------------------------------------


# -- traces outside the catalog --------------------------------------------------------------------------------------


def _replace_copies(store: Store, now: datetime) -> bool:
    """Put a new copy in the place of all that hold what was forgotten; where that fails, every sweep tries it."""
    return not own_copies(store) or back_up_if_due(store, now) is not None
