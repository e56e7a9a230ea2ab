"""Erasing sessions: the only code that removes a digest, kept apart from the catalog so that nothing else can.

One transaction removes all that the catalog holds of the sessions and leaves tombstones. Then go the files, all
reports, the names in hub notes and the freed pages of the database. A kill before that transaction changes nothing;
after it, the next writer finishes. Not here: the entry point (`keep.forget`).
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Sequence

from helix_assets.agents.roles import SHARED, shared_path
from helix_assets.hooks.inbox import drop_notes_of
from helix_assets.keep.backup import FRESH, void_older_copies
from helix_assets.keep.notes import rename_in_notes
from helix_assets.keep.recovery import BEFORE_RESTORE, STAGED, recover
from helix_assets.model.errors import StoreError
from helix_assets.model.identity import is_worldwide
from helix_assets.store.catalog import (
    digests,
    ledger,
    live_files,
    losses,
    problems,
    sessions,
    sources,
    tombstones,
)
from helix_assets.store.catalog.connection import Connection, Row
from helix_assets.store.catalog.feed import OLD_FEED
from helix_assets.store.catalog.pages import rewrite, truncate_log
from helix_assets.store.catalog.retries import clear
from helix_assets.store.catalog.session_keys import drop_keys
from helix_assets.store.catalog.sources import read_again
from helix_assets.store.catalog.tombstones import alias, forgotten_marks, mark_of_key, session_mark, without_parent
from helix_assets.store.durable import sync
from helix_assets.store.fact_merge import DerivedSession, MergedFacts, merge_facts
from helix_assets.store.store import Store

_AT_ONCE = 1_000


_log = logging.getLogger(__name__)


def erase_all(store: Store, rows: Sequence[Row], at: str) -> tuple[int, list[str]]:
    """Erase sessions from the catalog in one step. Returns how many digests went, and the sessions to read again."""
    facts = _facts_without(store, rows)
    with store.catalog.writing() as connection:
        parts = [rows[start : start + _AT_ONCE] for start in range(0, len(rows), _AT_ONCE)]
        erasing = {row.id for row in rows}
        sharers = ledger.sharers_of(connection, erasing) - erasing
        erased = sum(_erase(store, connection, part, at) for part in parts)
        live_files.put_fact_files(connection, facts.files, facts.gone)
        remade = [read_again(connection, number) for number in sorted(sharers)]
        void_older_copies(connection)
    return erased, [uid for uid in remade if uid is not None]


def _facts_without(store: Store, rows: Sequence[Row]) -> MergedFacts:
    """Write new fact files without these sessions; the catalog does not name them yet."""
    facts = merge_facts(
        store, [DerivedSession(row.session_uid, (row.flavor, row.day), row.generation, {}, True) for row in rows]
    )
    if facts.failed:
        for file in facts.files:
            store.facts.remove(file.name)
        raise StoreError(f"nothing was forgotten: {next(iter(facts.failed.values()))}")
    sync(store.data_dir, [store.facts.path(file.name) for file in facts.files])
    return facts


def _erase(store: Store, connection: Connection, rows: Sequence[Row], at: str) -> int:
    """Remove all rows of these sessions and leave tombstones. Returns how many digests went."""
    ids, uids = [row.id for row in rows], [row.session_uid for row in rows]
    marks = [{"mark": session_mark(store, uid), "at": at, "unfinished": uid} for uid in uids]
    for source in _sources(connection, rows):
        marks.append({"mark": mark_of_key(store, source.path_key), "at": at, "unfinished": None})
        problems.forget(connection, {source.path_key, source.path})
        sources.drop(connection, [source.path_key])
        if source.role in SHARED:
            # Where reading stopped may name another session.
            sources.read_from_start(connection, shared_path(source.path_key), SHARED)
    tombstones.put(connection, marks)
    ledger.forget(connection, ids)
    drop_keys(connection, ids)
    live_files.drop_parts(connection, ids)
    for uid in uids:
        losses.rename(connection, uid, alias(store, uid))
    clear(connection, uids)
    from helix_assets.kaizen.metrics import forget_in_executions

    forget_in_executions(store, connection, uids)
    erased = digests.erase(connection, uids)
    sessions.erase(connection, uids)
    without_parent(store, connection, uids)
    return erased


def _sources(connection: Connection, rows: Sequence[Row]) -> list[Row]:
    """The files of these sessions, also those that were skipped unread."""
    natives = {(row.flavor, row.native_session_id) for row in rows}
    found = [file for files in sources.of_sessions(connection, [row.id for row in rows]).values() for file in files]
    skipped = sources.without_session(connection)
    long = [(flavor, native) for flavor, native in natives if is_worldwide(native)]
    theirs = [
        row
        for row in skipped
        if (row.flavor, row.native_id) in natives
        or any(row.flavor == flavor and native in row.path for flavor, native in long)
    ]
    return [*found, *theirs]


def finish_forgetting(store: Store) -> bool:
    """Remove what is left of forgotten sessions outside the catalog. False if the next writer has to try again.

    Needs the writer lock.
    """
    if not _unfinished(store):
        return True
    from helix_assets.kaizen.derived import drop_tables
    from helix_assets.keep.report_folder import drop_reports

    try:
        _erase_again(store)
        left = _unfinished(store)
        recover(store)
        drop_notes_of(store.data_dir, {uid.partition(":")[2] for uid in left})
        drop_tables(store.data_dir)
        drop_reports(store.data_dir)
        for uid in left:
            rename_in_notes(store.data_dir, uid, alias(store, uid))
        _drop_other_copies(store)
        rewrite(store.catalog)
        if not truncate_log(store.catalog):
            _log.warning("forgotten text stays in the catalog's log while others read: the next writer clears it")
            return False
    except (OSError, sqlite3.Error, StoreError) as exc:
        _log.warning("traces of what was forgotten cannot be removed (%s): the next writer tries again", exc)
        return False
    with store.catalog.writing() as connection:
        tombstones.all_finished(connection)
        void_older_copies(connection)  # a copy may have been made while traces were left
    return truncate_log(store.catalog)


def _unfinished(store: Store) -> list[str]:
    with store.catalog.reading() as connection:
        return tombstones.unfinished(connection)


def _last_time(store: Store) -> str:
    """When something was last forgotten."""
    with store.catalog.reading() as connection:
        return str(tombstones.extent(connection)[1])


def _erase_again(store: Store) -> None:
    """Erase what a restore of an older copy brought back."""
    with store.catalog.reading() as connection:
        marks, rows = forgotten_marks(connection), sessions.every(connection)
    if back := [row for row in rows if session_mark(store, row.session_uid) in marks]:
        erase_all(store, back, _last_time(store))


def _drop_other_copies(store: Store) -> None:
    """Delete what restores moved away, all of it, and what killed copies, restores and earlier versions left."""
    data_dir = store.data_dir
    for folder in (
        data_dir / BEFORE_RESTORE,
        data_dir / STAGED,
        store.settings.backup_dir / FRESH,
        data_dir / OLD_FEED,
    ):
        if folder.exists():
            shutil.rmtree(folder)
