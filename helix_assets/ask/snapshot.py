"""The store at one time, for queries: rows of the catalog in one snapshot, and which of its files are undamaged.

Belongs here: reading that snapshot and checking its files by their hashes. Not here: the queries (`ask.views`,
`ask.sql`), or the check of the whole store (`prove.verify`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from helix_assets.ask.coverage import versions
from helix_assets.ask.reading import refuse_changed
from helix_assets.ask.withheld import has_withheld_texts, refuse_unredacted
from helix_assets.store.catalog import digests, live_files, losses, sessions, sources
from helix_assets.store.catalog.connection import Connection, Row
from helix_assets.store.raw import file_hash
from helix_assets.store.store import Store

_HASHING_THREADS = 2


@dataclass(frozen=True)
class LiveFile:
    """A file that the catalog names.

    `has_siblings`: its session has several parts. `may_lack`: an older version wrote it, perhaps without some columns.
    """

    path: Path
    owner: str
    hash: str
    has_siblings: bool = False
    may_lack: bool = True


@dataclass(frozen=True)
class Snapshot:
    """Rows of the catalog, live files, and `left_out`, the names of what is damaged and therefore missing.

    `withheld` counts the sessions whose rows are missing because of new redaction rules.
    """

    sessions: Sequence[Row] = ()
    digests: Sequence[Row] = ()
    losses: Sequence[Row] = ()
    sources: Sequence[Row] = ()
    rows: Sequence[LiveFile] = ()
    facts: Mapping[str, Sequence[LiveFile]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    withheld: int = 0

    @property
    def files(self) -> Sequence[LiveFile]:
        """Every live file that was asked for."""
        return [*self.rows, *(file for files in self.facts.values() for file in files)]


@dataclass(frozen=True)
class Parts:
    """Which parts of the store are wanted. `facts` names fact tables; `rows_of`, if set, the one session with rows."""

    facts: Collection[str]
    rows_of: str | None
    sessions: bool
    digests: bool
    rows: bool
    sources: bool


def read_snapshot(store: Store, wanted: Parts) -> Snapshot:
    """The wanted parts of the store as they are now, with files checked.

    ChangedError if files were replaced or evicted meanwhile, WithheldError if the redaction rules changed and no sweep
    has redacted the catalog since.
    """
    refuse_unredacted(store)
    snapshot = _from_catalog(store, wanted)
    if bad := _unproven(store.key, snapshot.files):
        refuse_changed(store, [(file.path, file.hash) for file in bad])
    return _without(snapshot, bad)


def _from_catalog(store: Store, wanted: Parts) -> Snapshot:
    with store.catalog.reading() as connection:
        rows, withheld = _raw_files(store, connection, wanted.rows_of) if wanted.rows else ([], 0)
        return Snapshot(
            sessions=sessions.for_queries(connection, versions()) if wanted.sessions else (),
            digests=digests.every(connection) if wanted.digests else (),
            losses=losses.every(connection),
            sources=sources.with_sessions(connection) if wanted.sources else (),
            rows=rows,
            facts=_fact_files(store, connection, wanted.facts),
            left_out=tuple(sessions.without_digest(connection)) if wanted.digests else (),
            withheld=withheld,
        )


def _raw_files(store: Store, connection: Connection, only: str | None) -> tuple[list[LiveFile], int]:
    """The part files whose texts may be shown, and of how many sessions they may not."""
    # The newest first: DuckDB takes the columns from the first file, and fails at a later one that lacks any.
    rows = live_files.parts_with_sessions(connection, only)
    grown = {row.session_uid for row in rows if row.part}
    withheld = {row.session_uid for row in rows if has_withheld_texts(store, row.redaction_version)}
    files = [
        LiveFile(
            path=store.raw.path(row.name),
            owner=row.session_uid,
            hash=row.hash,
            has_siblings=row.session_uid in grown,
            may_lack=row.text_bytes is None,
        )
        for row in rows
        if row.session_uid not in withheld
    ]
    return files, len(withheld)


def _fact_files(store: Store, connection: Connection, wanted: Collection[str]) -> dict[str, list[LiveFile]]:
    found: dict[str, list[LiveFile]] = {}
    for file in sorted(live_files.fact_files(connection), key=lambda file: (file.fact, file.name)):
        if file.fact in wanted:
            one = LiveFile(store.facts.path(file.name), file.name, file.hash)
            found.setdefault(file.fact, []).append(one)
    return found


def _unproven(key: bytes, files: Sequence[LiveFile]) -> list[LiveFile]:
    def is_proven(file: LiveFile) -> bool:
        try:
            return file_hash(file.path, key) == file.hash
        except OSError:
            return False

    with ThreadPoolExecutor(_HASHING_THREADS) as pool:
        return [file for file, proven in zip(files, pool.map(is_proven, files), strict=True) if not proven]


def _without(snapshot: Snapshot, bad: Sequence[LiveFile]) -> Snapshot:
    """The snapshot without damaged files, and without all files of a session that has a damaged part."""
    owners = {file.owner for file in bad}
    return replace(
        snapshot,
        rows=[file for file in snapshot.rows if file.owner not in owners],
        facts={fact: [file for file in files if file.owner not in owners] for fact, files in snapshot.facts.items()},
        left_out=tuple(sorted({*snapshot.left_out, *owners})),
    )
