"""How one session is brought up to date: what is read from where, appended or written anew.

Belongs here: the choice, made from the catalog's rows and the files found. Nothing is read but the edges of files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from sqlalchemy import Row

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
from helix_assets.store.store import Store
from helix_assets.sweep.merging import earlier_of
from helix_assets.sweep.task import BEFORE_TIME, FileTask, Ingested, IngestTask

MAX_PARTS = 16
"""With so many parts a session is written anew; `joining` sees to it that few get there."""
_MAIN_RANKS = 1 << 20
_SUBAGENT_RANKS = 1 << 30


@dataclass(frozen=True)
class Candidate:
    """A file found on disk, with the name the catalog knows it by and the path that may be shown."""

    path_key: str
    shown: str
    file: FoundFile

    def as_unread(self, store: Store, status: str, problem: str | None = None) -> dict[str, Any]:
        """The catalog's row of a file that is not read, or not yet; but for its agent and the time."""
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
    """What the catalog holds of a session; all empty for a new one."""

    uid: str
    flavor: str
    native_id: str
    row: Row[Any] | None = None
    sources: tuple[Row[Any], ...] = ()
    parts: tuple[Row[Any], ...] = ()
    not_ours: frozenset[int] = frozenset()
    foreign_messages: frozenset[str] = frozenset()


def file_rank(path: str, role: str) -> int:
    """A number that orders the files of a session, the same whatever is found first and wherever a file is moved.

    Documents come before main files, for they tell what these are, and main files before others. A packed file takes
    the place of the plain one.
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
    """The rank of each file: the one it has, else that of its name, else, where another file has that, of its path."""
    ranks = {s.path_key: s.file_rank for s in state.sources if s.path_key in present}
    for key in sorted(present.keys() - ranks.keys()):
        file = present[key].file
        rank = file_rank(file.path, file.role)
        ranks[key] = _rank(file.path, file.role) if rank in ranks.values() else rank
    return ranks


def plan_session(
    store: Store, state: SessionState, changed: Sequence[Candidate], present: Mapping[str, Candidate]
) -> IngestTask | None:
    """The task for a session whose files `changed`; None when none of them counts.

    `present` are all files of the session that lie on disk now, by path key. StoreError where what is kept of an
    evicted session is damaged.
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
        else _from_start(c, ranks, has_main, _told_again(store, state, c, present))
        for c in changed
    ]
    append = _may_append(store, state, files, present, has_main)
    if not append and state.not_ours:
        return plan_remake(store, state, present)  # of history that others own it keeps what all its files tell now
    return _task(state, files, has_main, append=append, parts=_stored_parts(store, state))


def _has_main(state: SessionState, present: Mapping[str, Candidate]) -> bool:
    """Whether the session has a log of record, on disk or stored."""
    return any(c.file.role == "main" for c in present.values()) or any(s.role == "main" for s in state.sources)


def _role(role: str, has_main: bool) -> str:
    """Beside a log of record a fallback is kept, but its lines are no events."""
    return "aside" if role == "fallback" and has_main else role


def plan_remake(store: Store, state: SessionState, present: Mapping[str, Candidate]) -> IngestTask:
    """Write a session anew from all that its files and its stored rows still hold.

    Of an evicted session only records that were never stored are kept; the rest is derived in passing. Rows whose texts
    were dropped are made again without them. Whether all of it can still be read shows when it is read: what of it
    cannot be is merged with what is kept. StoreError where that is damaged.
    """
    has_main, ranks = _has_main(state, present), file_ranks(state, present)
    files = []
    for candidate in present.values():
        files.append(_from_start(candidate, ranks, has_main, _told_again(store, state, candidate, present)))
    task = _task(state, files, has_main, append=False, parts=_stored_parts(store, state))
    return replace(task, earlier=earlier_of(store, state)) if was_evicted(state) else task


def was_evicted(state: SessionState) -> bool:
    """Whether a part of the records that the session's digest covers is stored no longer, or without its texts."""
    row = state.row
    return row is not None and bool(row.evicted_records or row.light_records)


def has_all_rows(state: SessionState) -> bool:
    """Whether the rows of all that the session's digest covers are stored, with texts or without."""
    return state.row is not None and not state.row.is_partial and not state.row.evicted_records


def can_be_told(store: Store, state: SessionState, present: Mapping[str, Candidate]) -> bool:
    """Whether it is certain, before anything is read, that all that the session's digest covers can be read."""
    if not was_evicted(state):
        return True
    if (state.row is not None and state.row.is_partial) or any(source.is_outlived for source in state.sources):
        return False
    told = {s.path_key for c in present.values() for s in _told_again(store, state, c, present)}
    return {s.path_key for s in state.sources if s.role not in ONE_RECORD} <= told


def can_be_read(store: Store, state: SessionState, present: Mapping[str, Candidate]) -> bool:
    """Whether every file that the session was read from is there, if elsewhere or packed."""
    missing = {source.path_key for source in state.sources if source.path_key not in present}
    return not missing or missing <= {
        s.path_key for c in present.values() for s in _told_again(store, state, c, present)
    }


def is_told_anew(state: SessionState, result: Ingested) -> bool:
    """Whether a known session's files were all read from their starts: what it did not tell then, it tells no more."""
    task = result.task
    if state.row is None or task.append or task.is_bare or any(file.offset for file in task.files):
        return False
    read = {cursor.path_key for cursor in result.cursors if not cursor.problem}
    told = {key for file in task.files if file.path_key in read for key in (file.path_key, *file.took_over)}
    return bool(state.sources) and {source.path_key for source in state.sources} <= told


def tells_more(state: SessionState, before: Ingested | None, now: Ingested) -> bool:
    """Whether a session that was read once more told what it had not told before, or until it was last swept."""
    if before is not None:
        return (before.shareable, before.message_ids) != (now.shareable, now.message_ids)
    offsets = {source.path_key: source.offset for source in state.sources}
    return any(cursor.offset != offsets.get(cursor.path_key) for cursor in now.cursors)


def plan_rederivation(store: Store, state: SessionState, *, reparse: bool) -> IngestTask:
    """Derive a session again from its stored rows alone, whether or not its source still exists.

    `reparse` goes back to the records themselves: their parser or the redaction rules changed.
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
    # History that another session owns is not stored here, and dates and places this one all the same.
    is_dated = keeps or (bool(state.not_ours) and (not files or any(file.offset for file in files)))
    is_dated = is_dated or any(
        file.role == UNREADABLE for file in files
    )  # its file does not say any more when it began
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


def _known_root(row: Row[Any] | None) -> tuple[str, str] | None:
    cwd, root = (row.facts.get("cwd"), row.facts.get("repo_root")) if row is not None else (None, None)
    return (cwd, root) if cwd and root else None


def _from_start(
    candidate: Candidate, ranks: Mapping[str, int], has_main: bool, told_again: Sequence[Row[Any]] = ()
) -> FileTask:
    file = candidate.file
    return FileTask(
        file.path,
        candidate.path_key,
        candidate.shown,
        _role(file.role, has_main),
        ranks[candidate.path_key],
        bytes_ahead=file.size,
        took_over=tuple(s.path_key for s in told_again if s.path_key != candidate.path_key),
        is_same=bool(told_again) and file.role in ONE_RECORD,
        **_place_in_shared(file),
    )


def _place_in_shared(file: FoundFile) -> dict[str, Any]:
    """What a reader has to know of a session in a file that holds many."""
    return {"part": file.native_id, "found": file[-4:]} if file.role in SHARED else {}


def _continued(
    store: Store, candidate: Candidate, source: Row[Any], ranks: Mapping[str, int], has_main: bool
) -> FileTask:
    """Read on from the cursor if the file was only appended to, else from the start.

    Of a message that may have been half there all pieces are needed as they were logged: what is stored is redacted.
    Where records are stored that the file lost, lines without an id could be taken for theirs if it were read in part.
    """
    is_text = candidate.file.role == TEXT
    is_torn = source.parser_state is None and (is_text or pieces_of(source.flavor) is not None)
    if is_torn or source.is_outlived or not _has_grown(store, candidate, source):
        anew = _from_start(candidate, ranks, has_main)
        return replace(anew, state=source.parser_state) if anew.role == "about" else anew
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


def _has_grown(store: Store, candidate: Candidate, source: Row[Any]) -> bool:
    file = candidate.file
    is_same_file = (file.dev, file.inode) == (source.dev, source.inode)
    return is_same_file and not source.is_doubted and _says_again(store, candidate, source)


def _says_again(store: Store, candidate: Candidate, source: Row[Any]) -> bool:
    """Whether the log still says what was read of it; it may be a copy, as a restored home or an editor leaves it."""
    file = candidate.file
    is_cut = file.size < source.offset and not file.path.endswith(PACKED) and file.role != TEXT
    return file.role not in READ_WHOLE and not is_cut and begins_alike(store.key, _place(file), source)


def _place(file: FoundFile) -> str:
    """Where a source lies on the disk."""
    return shared_path(file.path) if is_part(file) else file.path


def _told_again(
    store: Store, state: SessionState, candidate: Candidate, present: Mapping[str, Candidate]
) -> list[Row[Any]]:
    """The sources whose lines this file tells: its own, and those of files whose place it took; read farthest first."""
    found = []
    for source in state.sources:
        if source.path_key == candidate.path_key:
            tells = _says_again(store, candidate, source) or _is_same_document(store, candidate, source)
        else:
            tells = source.path_key not in present and _took_over(store, candidate, source)
        if tells:
            found.append(source)
    return sorted(found, key=lambda source: -source.offset)


def _is_same_document(store: Store, candidate: Candidate, source: Row[Any]) -> bool:
    file = candidate.file
    if file.role == DATABASE:
        return (source.dev, source.inode, source.size, source.mtime_ns) == file[-4:]
    is_document = file.role in READ_WHOLE and file.size == source.offset
    return is_document and begins_alike(store.key, file.path, source)


def _took_over(store: Store, candidate: Candidate, source: Row[Any]) -> bool:
    """Whether the file is that of the source, packed or moved since."""
    is_namesake = _plain_name(candidate.shown) == _plain_name(source.path)
    return is_namesake and begins_alike(store.key, _place(candidate.file), source)


def _plain_name(path: str) -> str:
    return os.path.basename(path).removesuffix(PACKED)


def _goes_behind(file: FileTask, *, is_new: bool) -> bool:
    """Whether what is read of a file has its place behind, or beside, what is stored."""
    if file.role == "about":
        return file.state is not None
    return file.role not in READ_WHOLE and (is_new or (file.offset > 0 and file.state is not None))


def _may_append(
    store: Store, state: SessionState, files: Sequence[FileTask], present: Mapping[str, Candidate], has_main: bool
) -> bool:
    """Whether what the files say now can simply go behind the stored rows."""
    row = state.row
    known = {s.path_key for s in state.sources}
    names = [_plain_name(c.file.path) for c in present.values()]
    return (
        row is not None
        and row.parser_version == ADAPTERS[state.flavor].version
        and 0 < len(state.parts) < MAX_PARTS
        and len(set(names)) == len(names)
        and all(_goes_behind(f, is_new=f.path_key not in known) for f in files)
        and not (has_main and any(s.role == "fallback" for s in state.sources))
    )
