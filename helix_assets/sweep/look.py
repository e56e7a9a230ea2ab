"""A look at the agents' folders: which files are there, and which are news. Cheap, because sensors look twice a minute.

Not here: the listing itself (`agents.discover`), comparing two states (`model.changes`), or reading the news
(`sweep.sweep`).
"""

from __future__ import annotations

import gc
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from helix_assets.agents.discover import Discovery, discover
from helix_assets.agents.roles import SHARED
from helix_assets.agents.spec import FoundFile
from helix_assets.model.changes import Changes, changed_sources
from helix_assets.model.days import DayMark
from helix_assets.store.catalog import meta, problems, retries, sources
from helix_assets.store.catalog.connection import Connection, Row
from helix_assets.store.catalog.day_marks import last_mark
from helix_assets.store.catalog.tombstones import forgotten_marks, source_mark
from helix_assets.store.store import HIDDEN, Store
from helix_assets.sweep.stale import code_versions

EXCLUSIONS = "exclusions"
SHARED_FILE = "shared"
"""The status of a shared file whose sessions were listed."""
OPEN = "open"
"""The status of a text whose last block was not read, because it could still grow."""


@dataclass(frozen=True)
class Known:
    """What the catalog remembers, read at one moment: of all files, of the store itself, and what is not to be read.

    `troubles` are problems of whole files and folders, each with whether that is a source.
    """

    sources: sources.KnownSources
    meta: Mapping[str, str]
    forgotten: frozenset[str]
    waiting: retries.Waiting
    troubles: Mapping[tuple[str, str], bool]
    day: DayMark | None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was ever taken in, and nothing failed."""
        return not self.sources.states


@dataclass(frozen=True)
class Scan:
    """The files on disk by path key, and which are news; `rows` has what is known of these.

    `shared` are the files that contain many sessions.
    """

    known: Known
    seen: Discovery
    found: dict[str, FoundFile]
    changes: Changes
    rows: Mapping[str, Row]
    shared: tuple[FoundFile, ...] = ()


def scan(store: Store, now: datetime | None = None) -> Scan:
    """Compare the disk with the catalog. Reads no transcript and writes nothing.

    Files of failed sessions are news again when it is time to retry them.
    """
    with no_collection():
        seen = discover(store.settings.roots, store.settings.exclude.paths)
    return compare(store, seen, now or datetime.now(UTC))


def compare(
    store: Store,
    seen: Discovery,
    now: datetime,
    *,
    listed: Mapping[str, Sequence[FoundFile]] | None = None,
) -> Scan:
    """Which of the files seen are news. `listed` are the sessions of the shared files that were opened."""
    with store.catalog.reading() as connection:
        return _compared(store, connection, seen, now, listed)


def _compared(
    store: Store,
    connection: Connection,
    seen: Discovery,
    now: datetime,
    listed: Mapping[str, Sequence[FoundFile]] | None,
) -> Scan:
    with no_collection():
        remembered = _remembered(connection, now)
        known, found = remembered.sources, seen.files
        if shared := [file for file in found.values() if file[1] in SHARED]:
            from helix_assets.sweep.parts import with_parts  # few homes have such files

            shared, parts = with_parts(store, seen, shared, listed or {})
            found = found | {file.path: file for file in (*shared, *parts)}
    if not found.keys() <= known.states.keys():
        found = {path if path in known.states else store.path_key(path): file for path, file in found.items()}
    # Nearly all files are fine: only the others are checked one by one below.
    unusual = known.unusual
    gone_before = [key for key, status in unusual.items() if status == "gone"]
    if seen.unknown:  # a hidden path may be in a folder that could not be read
        gone_before += [key for key in known.states if key.startswith(HIDDEN)]
    changes = changed_sources(found, known.states, gone_before, seen.unknown)
    wakes = {"gone", "failed"}
    if remembered.meta.get(EXCLUSIONS) != exclusions_of(store):
        wakes |= {"excluded", SHARED_FILE, OPEN}  # of excluded sessions in shared files nothing is noted
    again = [
        key
        for key, status in unusual.items()
        if key in found and (_is_looked_at_again(status, found[key], wakes) or _has_ended(status, found[key], now))
    ]
    if again:
        changes = Changes(tuple(dict.fromkeys([*changes.changed, *again])), changes.gone)
    if changes.changed and (forgotten := remembered.forgotten):
        kept = [key for key in changes.changed if source_mark(store, found[key].path) not in forgotten]
        changes = Changes(tuple(kept), changes.gone)
    if changes.changed and (later := remembered.waiting.path_keys):
        changes = Changes(tuple(key for key in changes.changed if key not in later), changes.gone)
    rows = sources.by_key(connection, [key for key in changes.changed if key in known.states])
    return Scan(remembered, seen, found, changes, rows, tuple(shared))


def _remembered(connection: Connection, now: datetime) -> Known:
    facts = meta.every(connection)
    is_code_new = facts.get(retries.TRIED_WITH) != code_versions()
    return Known(
        sources.known(connection),
        facts,
        forgotten_marks(connection),
        retries.Waiting() if is_code_new else retries.waiting(connection, now),
        problems.of_places(connection),
        last_mark(connection),
    )


@contextmanager
def no_collection() -> Iterator[None]:
    """Switch the garbage collector off: searching thousands of small tuples for cycles took a tenth of the time."""
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
    """Whether the last block of a text that was still open counts as complete by now."""
    if status != OPEN:
        return False
    from helix_assets.sweep.parts import has_ended  # few homes have such files

    return has_ended(file, now)


def exclusions_of(store: Store) -> str:
    """The current exclusions, to compare with those of the last whole sweep."""
    return repr(store.settings.exclude)
