"""How one session is brought up to date: which files are read from where, and whether it is appended to or rewritten.

Belongs here: the choice, from the catalog's rows and the files found. Only the first and last bytes of files are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any
from zlib import crc32

from helix_assets.agents import ADAPTERS, pieces_of
from helix_assets.agents.jsonl import PACKED, begins_alike
from helix_assets.agents.roles import (
    DATABASE,
    ONE_RECORD,
    READ_WHOLE,
    SHARED,
    TEXT,
    UNITS,
    UNREADABLE,
    is_part,
    shared_path,
)
from helix_assets.agents.spec import FoundFile, SessionFacts
from helix_assets.store.catalog.connection import Row
from helix_assets.store.store import Store
from helix_assets.sweep.merging import earlier_of
from helix_assets.sweep.task import BEFORE_TIME, FileTask, Ingested, IngestTask

MAX_PARTS = 64
"""A session with this many parts gets its last ones folded: each takes half a millisecond whenever it is read."""
SMALL_BYTES, MAX_SMALL_PARTS = 1 << 20, 12
"""In a small one this is done sooner, because each part takes 6 KB more than its rows."""
_MAIN_RANKS = 1 << 20
_SUBAGENT_RANKS = 1 << 30


@dataclass(frozen=True)
class Candidate:
    """A file found on disk, with its key in the catalog and the path that may be shown."""

    path_key: str
    shown: str
    file: FoundFile

    def as_unread(self, store: Store, status: str, problem: str | None = None) -> dict[str, Any]:
        """The catalog's row of a file that is not read, or not yet, without its agent and the time."""
        file = self.file
        return {
            "path_key": self.path_key,
            "path": self.shown,
            "role": file.role,
            "native_id": file.native_id and store.shown_path(file.native_id),
            "file_rank": file_rank(file.path, file.role),
            "dev": file.dev,
            "inode": file.inode,
            "size": file.size,
            "mtime_ns": file.mtime_ns,
            "is_doubted": True,
            "status": status,
            "problem": problem,
        }


@dataclass(frozen=True)
class SessionState:
    """What the catalog contains of a session; all empty for a new one.

    `not_ours` are keys that it shares with others (`shares_keys`) and does not own.
    """

    uid: str
    flavor: str
    native_id: str
    row: Row | None = None
    sources: tuple[Row, ...] = ()
    parts: tuple[Row, ...] = ()
    not_ours: frozenset[int] = frozenset()
    foreign_messages: frozenset[str] = frozenset()
    shares_keys: bool = False


def file_rank(path: str, role: str) -> int:
    """A number that orders the files of a session, whatever is found first and wherever a file is moved.

    Documents come before main files, which they describe, and main files before others. A packed file has the number of
    the plain one.
    """
    return _rank(_plain_name(path), role)


def _rank(place: str, role: str) -> int:
    number = crc32(place.encode("utf-8", "surrogateescape"))
    if role in ONE_RECORD:
        return number % _MAIN_RANKS
    if role in ("main", "fallback", "aside", UNITS, UNREADABLE) or role in SHARED:
        return _MAIN_RANKS + number % (_SUBAGENT_RANKS - _MAIN_RANKS)
    return _SUBAGENT_RANKS + number % _SUBAGENT_RANKS


def file_ranks(state: SessionState, present: Mapping[str, Candidate]) -> dict[str, int]:
    """The rank of each file: the known one, else that of its name, or of its path if another file has that."""
    ranks = {s.path_key: s.file_rank for s in state.sources if s.path_key in present}
    for key in sorted(present.keys() - ranks.keys()):
        file = present[key].file
        rank = file_rank(file.path, file.role)
        ranks[key] = _rank(file.path, file.role) if rank in ranks.values() else rank
    return ranks


def plan_session(
    store: Store, state: SessionState, changed: Sequence[Candidate], present: Mapping[str, Candidate]
) -> IngestTask | None:
    """The task for a session whose files `changed`, None without any.

    `present` are all files of the session that are on disk now, by path key. StoreError if what is kept of an evicted
    session is damaged.
    """
    if not changed:
        return None
    known = {s.path_key: s for s in state.sources}
    has_main, ranks = _has_main(state, present), file_ranks(state, present)
    row = state.row
    if row is None:
        return _task(state, [_from_start(c, ranks, has_main) for c in changed], has_main, append=False)
    if was_evicted(state):
        return plan_remake(store, state, present)
    files = [
        _continued(store, c, known[c.path_key], ranks, has_main)
        if c.path_key in known
        else _from_start(c, ranks, has_main, _sources_held(store, state, c, present))
        for c in changed
    ]
    append = _may_append(store, state, files, present, has_main)
    if not append and state.not_ours:
        return plan_remake(store, state, present)  # needs all its files to know what others own
    task = _task(state, files, has_main, append=append, parts=_stored_parts(store, state))
    return replace(task, folds=_first_to_fold([part.bytes for part in state.parts], row.raw_bytes)) if append else task


def _has_main(state: SessionState, present: Mapping[str, Candidate]) -> bool:
    """Whether the session has a main log, on disk or stored."""
    return any(c.file.role == "main" for c in present.values()) or any(s.role == "main" for s in state.sources)


def _role(role: str, has_main: bool) -> str:
    """The role of a file in its session: next to a main log the lines of a fallback are kept, but yield no events."""
    # The catalog stores this role, and adapters of other packages get it, so its name stays.
    return "aside" if role == "fallback" and has_main else role


def plan_remake(store: Store, state: SessionState, present: Mapping[str, Candidate]) -> IngestTask:
    """Rewrite a session from all that its files and its stored rows still contain.

    Of an evicted session only records that were never stored are stored; the rest is only derived. Rows without texts
    are rewritten without them. If not all of it can be read, the new records are merged into the kept digest.
    StoreError if that is damaged.
    """
    has_main, ranks = _has_main(state, present), file_ranks(state, present)
    files = []
    for candidate in present.values():
        files.append(_from_start(candidate, ranks, has_main, _sources_held(store, state, candidate, present)))
    task = _task(state, files, has_main, append=False, parts=_stored_parts(store, state))
    return replace(task, earlier=earlier_of(store, state)) if was_evicted(state) else task


def was_evicted(state: SessionState) -> bool:
    """Whether some records that the session's digest covers are no longer stored, or without their texts."""
    row = state.row
    return row is not None and bool(row.evicted_records or row.light_records)


def has_all_rows(state: SessionState) -> bool:
    """Whether the rows of all records that the session's digest covers are stored, with texts or without."""
    return state.row is not None and not state.row.is_partial and not state.row.evicted_records


def can_read_covered(store: Store, state: SessionState, present: Mapping[str, Candidate]) -> bool:
    """Whether all records that the session's digest covers can certainly be read, known without reading them."""
    if not was_evicted(state):
        return True
    if (state.row is not None and state.row.is_partial) or any(source.is_outlived for source in state.sources):
        return False
    held = {s.path_key for c in present.values() for s in _sources_held(store, state, c, present)}
    return {s.path_key for s in state.sources if s.role not in ONE_RECORD} <= held


def has_all_files(store: Store, state: SessionState, present: Mapping[str, Candidate]) -> bool:
    """Whether every file that the session was read from is there, perhaps moved or packed."""
    missing = {source.path_key for source in state.sources if source.path_key not in present}
    return not missing or missing <= {
        s.path_key for c in present.values() for s in _sources_held(store, state, c, present)
    }


def is_reread(state: SessionState, result: Ingested) -> bool:
    """Whether a known session's files were all read from the start, so that it holds nothing but what was read."""
    task = result.task
    if state.row is None or task.append or task.is_bare or any(file.offset for file in task.files):
        return False
    read = {cursor.path_key for cursor in result.cursors if not cursor.problem}
    held = {key for file in task.files if file.path_key in read for key in (file.path_key, *file.took_over)}
    return bool(state.sources) and {source.path_key for source in state.sources} <= held


def holds_more(state: SessionState, before: Ingested | None, now: Ingested) -> bool:
    """Whether a session that was read again holds other records than before, or than in the last sweep."""
    if before is not None:
        return (before.shareable, before.message_ids) != (now.shareable, now.message_ids)
    offsets = {source.path_key: source.offset for source in state.sources}
    return any(cursor.offset != offsets.get(cursor.path_key) for cursor in now.cursors)


def plan_rederivation(store: Store, state: SessionState, *, reparse: bool) -> IngestTask:
    """Derive a session again from its stored rows alone, whether or not its source still exists.

    `reparse` starts from the records, because their parser or the redaction rules changed.
    """
    return _task(state, [], _has_main(state, {}), append=not reparse, parts=_stored_parts(store, state))


def _stored_parts(store: Store, state: SessionState) -> tuple[tuple[str, str], ...]:
    return tuple((str(store.raw.path(part.name)), part.hash) for part in state.parts)


def _task(
    state: SessionState,
    files: Iterable[FileTask],
    has_main: bool,
    *,
    append: bool,
    parts: tuple[tuple[str, str], ...] = (),
) -> IngestTask:
    row = state.row
    files = sorted(files, key=lambda f: f.rank)
    weight = sum(f.bytes_ahead for f in files) + (sum(part.bytes for part in state.parts) if not append else 0)
    keeps = append and row is not None
    facts = SessionFacts(**row.facts) if row is not None else SessionFacts()
    # History that another session owns is not stored here, but still sets this session's start and folder.
    is_dated = keeps or (bool(state.not_ours) and (not files or any(file.offset for file in files)))
    is_dated = is_dated or any(file.role == UNREADABLE for file in files)  # its file no longer shows when it began
    return IngestTask(
        session_uid=state.uid,
        flavor=state.flavor,
        generation=(row.generation if row is not None else 0) + 1,
        files=tuple(files),
        roles={s.file_rank: _role(s.role, has_main) for s in state.sources},
        stored=parts,
        append=append,
        last_row=tuple(row.last_row) if keeps and row is not None and row.last_row else (BEFORE_TIME, 0, 0),
        facts=facts if keeps else facts.of_first_lines() if is_dated else SessionFacts(),
        started_us=row.started_us if is_dated and row is not None else None,
        ended_us=row.ended_us if is_dated and row is not None else None,
        unparsed=row.unparsed_count if keeps and row is not None else 0,
        not_ours=state.not_ours,
        foreign_messages=state.foreign_messages,
        known_root=_known_root(row),
        weight=weight,
    )


def _first_to_fold(sizes: Sequence[int], raw_bytes: int) -> int | None:
    """From which part on all parts become one, None if there are few enough.

    A part stays as it is if it is larger than all after it: so each byte is written only a few times more.
    """
    if len(sizes) < (MAX_SMALL_PARTS if raw_bytes <= SMALL_BYTES else MAX_PARTS):
        return None
    after = [*accumulate(reversed(sizes))][::-1][1:]
    return next((number for number, more in enumerate(after) if sizes[number] <= more), len(sizes) - 2)


def _known_root(row: Row | None) -> tuple[str, str] | None:
    cwd, root = (row.facts.get("cwd"), row.facts.get("repo_root")) if row is not None else (None, None)
    return (cwd, root) if cwd and root else None


def _from_start(
    candidate: Candidate, ranks: Mapping[str, int], has_main: bool, sources: Sequence[Row] = ()
) -> FileTask:
    file = candidate.file
    return FileTask(
        file.path,
        candidate.path_key,
        candidate.shown,
        _role(file.role, has_main),
        ranks[candidate.path_key],
        bytes_ahead=file.size,
        took_over=tuple(s.path_key for s in sources if s.path_key != candidate.path_key),
        is_same=bool(sources) and file.role in ONE_RECORD,
        **_place_in_shared(file),
    )


def _place_in_shared(file: FoundFile) -> dict[str, Any]:
    """What a reader needs to know about a session in a shared file."""
    return {"part": file.native_id, "found": file[-4:]} if file.role in SHARED else {}


def _continued(store: Store, candidate: Candidate, source: Row, ranks: Mapping[str, int], has_main: bool) -> FileTask:
    """Continue from the cursor if the file was only appended to, else read from the start.

    A message of which only half was there needs all its pieces as logged, because stored ones are redacted. If records
    are stored that the file has lost, new lines without an id could be mistaken for them in a partial reading.
    """
    is_text = candidate.file.role == TEXT
    is_torn = source.parser_state is None and (is_text or pieces_of(source.flavor) is not None)
    if is_torn or source.is_outlived or not _has_grown(store, candidate, source):
        whole = _from_start(candidate, ranks, has_main)
        return replace(whole, state=source.parser_state) if whole.role == "about" else whole
    file = candidate.file
    return FileTask(
        file.path,
        candidate.path_key,
        candidate.shown,
        _role(file.role, has_main),
        source.file_rank,
        bytes_ahead=max(0, file.size - source.offset),
        offset=source.offset,
        line=source.line,
        order_us=source.order_us if source.order_us is not None else BEFORE_TIME,
        state=source.parser_state["parser"] if is_text else source.parser_state,
        split=source.parser_state["splitter"] if is_text else None,
        read_hash=source.read_hash,
        **_place_in_shared(file),
    )


def _has_grown(store: Store, candidate: Candidate, source: Row) -> bool:
    file = candidate.file
    is_same_file = (file.dev, file.inode) == (source.dev, source.inode)
    return is_same_file and not source.is_doubted and _still_holds(store, candidate, source)


def _still_holds(store: Store, candidate: Candidate, source: Row) -> bool:
    """Whether the log still holds what was read of it. It may be a copy, made by a restored home or an editor."""
    file = candidate.file
    is_cut = file.size < source.offset and not file.path.endswith(PACKED) and file.role != TEXT
    return file.role not in READ_WHOLE and not is_cut and begins_alike(store.key, _place(file), source)


def _place(file: FoundFile) -> str:
    """The path of a source on the disk."""
    return shared_path(file.path) if is_part(file) else file.path


def _sources_held(
    store: Store, state: SessionState, candidate: Candidate, present: Mapping[str, Candidate]
) -> list[Row]:
    """The sources whose lines this file holds: its own, and those of files that it replaced; read farthest first."""
    found = []
    for source in state.sources:
        if source.path_key == candidate.path_key:
            is_held = _still_holds(store, candidate, source) or _is_same_document(store, candidate, source)
        else:
            is_held = source.path_key not in present and _took_over(store, candidate, source)
        if is_held:
            found.append(source)
    return sorted(found, key=lambda source: -source.offset)


def _is_same_document(store: Store, candidate: Candidate, source: Row) -> bool:
    file = candidate.file
    if file.role == DATABASE:
        return (source.dev, source.inode, source.size, source.mtime_ns) == file[-4:]
    is_document = file.role in READ_WHOLE and file.size == source.offset
    return is_document and begins_alike(store.key, file.path, source)


def _took_over(store: Store, candidate: Candidate, source: Row) -> bool:
    """Whether the file is the source's file, packed or moved since."""
    is_namesake = _plain_name(candidate.shown) == _plain_name(source.path)
    return is_namesake and begins_alike(store.key, _place(candidate.file), source)


def _plain_name(path: str) -> str:
    return os.path.basename(path).removesuffix(PACKED)


def _follows_stored(file: FileTask, *, is_new: bool) -> bool:
    """Whether the records to be read come after the stored ones, or have no place."""
    if file.role == "about":
        return file.state is not None
    return file.role not in READ_WHOLE and (is_new or (file.offset > 0 and file.state is not None))


def _may_append(
    store: Store, state: SessionState, files: Sequence[FileTask], present: Mapping[str, Candidate], has_main: bool
) -> bool:
    """Whether the new records can simply be appended to the stored rows."""
    row = state.row
    known = {s.path_key for s in state.sources}
    names = [_plain_name(c.file.path) for c in present.values()]
    return (
        row is not None
        and row.parser_version == ADAPTERS[state.flavor].version
        and row.redaction_version == store.rules_version
        and bool(state.parts)
        and len(set(names)) == len(names)
        and all(_follows_stored(f, is_new=f.path_key not in known) for f in files)
        and not (has_main and any(s.role == "fallback" for s in state.sources))
    )
