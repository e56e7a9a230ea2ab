"""A look at the agents' folders: what lies there, and what of it is news. Cheap, for sensors look twice a minute.

Not here: the listing itself (`agents.discover`), comparing two states (`model.changes`), or what is done about it
(`sweep.sweep`).
"""

from __future__ import annotations

import gc
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from helix_assets.agents.cutting import rests
from helix_assets.agents.database import with_log
from helix_assets.agents.discover import Discovery, discover
from helix_assets.agents.kinds import DATABASE, SHARED, part_path, shared_path
from helix_assets.agents.spec import FoundFile
from helix_assets.model.changes import Changes, changed_sources
from helix_assets.store.catalog import retries
from helix_assets.store.catalog.sources import parts_of_files
from helix_assets.store.catalog.tombstones import forgotten_marks, source_mark
from helix_assets.store.store import HIDDEN, Store
from helix_assets.sweep.resting import resting

EXCLUSIONS = "exclusions"
OPEN = "open"
"""The status of a text whose last block was not read, for it could still grow."""


@dataclass(frozen=True)
class Scan:
    """What lies on disk, by path key, and what of it is news. `shared` are the files that hold many sessions."""

    seen: Discovery
    found: dict[str, FoundFile]
    changes: Changes
    resting: frozenset[str] = frozenset()
    shared: tuple[FoundFile, ...] = ()


def scan(store: Store, now: datetime | None = None, *, patient: bool = False) -> Scan:
    """Compare the disk with the catalog; reads no transcript and writes nothing.

    Files of sessions that are set aside are news again when it is time to try them; `patient` leaves those of large
    sessions alone that have grown a short while ago.
    """
    with no_collection():
        seen = discover(store.settings)
    return compare(store, seen, now or datetime.now(UTC), patient=patient)


def compare(
    store: Store,
    seen: Discovery,
    now: datetime,
    *,
    patient: bool,
    listed: Mapping[str, Sequence[FoundFile]] | None = None,
) -> Scan:
    """What of the files that were seen is news. `listed` are the sessions of the shared files that were opened."""
    with no_collection():
        known = store.catalog.known_sources()
        found = seen.files
        if shared := [file for file in found.values() if file[1] in SHARED]:
            shared = [with_log(file) if file.role == DATABASE else file for file in shared]
            found = found | _with_parts(store, seen, shared, listed or {})
    if not found.keys() <= known.states.keys():
        found = {path if path in known.states else store.path_key(path): file for path, file in found.items()}
    # Nearly all files are fine: only the others are looked at one by one below.
    unusual = known.unusual
    gone_before = [key for key, status in unusual.items() if status == "gone"]
    if seen.unknown:  # a hidden path may lie where nobody could look
        gone_before += [key for key in known.states if key.startswith(HIDDEN)]
    changes = changed_sources(found, known.states, gone_before, seen.unknown)
    wakes = {"gone", "failed"}
    are_exclusions_new = store.catalog.meta_value(EXCLUSIONS) != exclusions_of(store)
    if are_exclusions_new:
        wakes.add("excluded")
    again = [
        key
        for key, status in unusual.items()
        if key in found and (_is_looked_at_again(status, found[key], wakes) or _has_ended(status, found[key], now))
    ]
    if again:
        changes = Changes(tuple(dict.fromkeys([*changes.changed, *again])), changes.gone)
    if changes.changed and (forgotten := forgotten_marks(store)):
        kept = [key for key in changes.changed if source_mark(store, found[key].path) not in forgotten]
        changes = Changes(tuple(kept), changes.gone)
    if changes.changed and (later := retries.waiting(store.catalog, now).path_keys):
        changes = Changes(tuple(key for key in changes.changed if key not in later), changes.gone)
    # With new exclusions every file is looked at, once: whoever rested then would have them stay new.
    may_rest = patient and changes.changed and not are_exclusions_new
    rest = resting(store, seen, found, changes.changed, now) if may_rest else frozenset()
    if rest:
        changes = Changes(tuple(key for key in changes.changed if key not in rest), changes.gone)
    return Scan(seen, found, changes, rest, tuple(shared))


def _with_parts(
    store: Store, seen: Discovery, shared: Iterable[FoundFile], listed: Mapping[str, Sequence[FoundFile]]
) -> dict[str, FoundFile]:
    """Files that hold many sessions, and these: as they were listed now, else as they were when they last were.

    A session that is to be read again (its time in the catalog is -1) differs from what is known of it, so it is news.
    """
    found = {file.path: file for file in shared}
    names = {store.shown_path(path): path for path in found if path not in listed}
    parts = [part for path in found for part in listed.get(path, ())]
    with store.catalog.reading() as connection:
        for row in parts_of_files(connection, SHARED):
            if path := names.get(shared_path(row.path)):
                state = row.dev, row.inode, row.size, max(row.mtime_ns, 0)
                parts.append(FoundFile(part_path(path, row.native_id), row.role, row.native_id, *state))
    seen.flavors |= {part.path: seen.flavors[shared_path(part.path)] for part in parts}
    return found | {part.path: part for part in parts}


@contextmanager
def no_collection() -> Iterator[None]:
    """Thousands of small tuples without cycles: looking for some among them took a tenth of the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _is_looked_at_again(status: str, file: FoundFile, wakes: Collection[str]) -> bool:
    return status in wakes or (status == "unreadable" and os.access(file.path, os.R_OK))


def _has_ended(status: str, file: FoundFile, now: datetime) -> bool:
    """Whether the last block of a text that was still open can be taken to be whole by now."""
    return status == OPEN and rests(file.mtime_ns, now)


def exclusions_of(store: Store) -> str:
    """The exclusions in force, to be compared with those under which the last whole sweep left files out."""
    return repr(store.settings.exclude)
