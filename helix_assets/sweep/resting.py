"""Large sessions that grow: how long a patient sweep waits before it reads one again.

Every growth rewrites a session's digest and the facts of its day, which are larger for longer sessions. So a patient
sweep, which the sensor runs, lets a session rest after it was read, the longer the larger it is. Then the bytes written
stay in proportion to the bytes gained. A sweep by hand reads everything. A session that a hook named does not rest,
because the sweep removes its note.
Belongs here: which sessions rest. Not here: what is news (`sweep.look`), or what a sweep does with it (`sweep.sweep`).
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from helix_assets.agents.discover import Discovery
from helix_assets.agents.spec import FoundFile
from helix_assets.hooks.inbox import read_notes, sessions_named
from helix_assets.store.catalog import sessions
from helix_assets.store.catalog.connection import Row
from helix_assets.store.store import Store

REST_PER_MB = timedelta(seconds=10)


def resting(
    store: Store,
    seen: Discovery,
    changed: Mapping[str, FoundFile],
    known: Mapping[str, Row],
    now: datetime,
) -> frozenset[str]:
    """The changed files whose session was read too recently for its size. `known` are their rows in the catalog.

    All files of a session rest together, also new ones, which could come out of order without the others.
    """
    named = sessions_named([note for note in read_notes(store.data_dir) if note.asks_for_a_sweep])
    if named is None:
        return frozenset()
    uids = {}
    for key, file in changed.items():
        source = known.get(key)
        native_id = file.native_id or (source.native_id if source is not None else None)
        if native_id is not None and native_id not in named:
            uids[key] = f"{seen.flavors[file.path]}:{store.shown_path(native_id)}"
    with store.catalog.reading() as connection:
        rows = sessions.by_uid(connection, set(uids.values()))
    longest = timedelta(minutes=store.settings.sweep.rest_minutes)
    return frozenset(key for key, uid in uids.items() if uid in rows and _rests(rows[uid], now, longest))


def _rests(row: Row, now: datetime, longest: timedelta) -> bool:
    since = now - datetime.fromisoformat(row.ingested_at)
    rest = min(row.source_bytes / 1e6 * REST_PER_MB, longest)
    return bool(timedelta(0) <= since < rest)  # negative if the clock was set back: then nothing rests
