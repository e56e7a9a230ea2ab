"""Lists the sessions of shared files, which contain many: the step between the look at the disk and the plan.

A look knows only that such a file changed. Here it is opened, its sessions are listed, and each becomes a source, which
is then planned, read, evicted and forgotten like a file. News are noted in the catalog before anything is read: the
state of the file, and each changed session as one to be read again. So a kill, a failure or a rest loses no news, and
a file without news is not opened.
Belongs here: opening, listing, noting. Not here: copying and querying (`agents.database`), cutting (`agents.cutting`),
reading (`sweep.read`).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple, cast

from helix_assets.agents import ADAPTERS
from helix_assets.agents.cutting import Cutting, reader, rests
from helix_assets.agents.database import PrivateCopies, asking, closing_fd, number_of
from helix_assets.agents.discover import Exclusions
from helix_assets.agents.jsonl import begins_alike, hashed_up_to, open_source
from helix_assets.agents.kinds import Held, ReadsDatabases, ReadsTexts
from helix_assets.agents.roles import DATABASE, SHARED, TEXT, is_part, is_shared, part_path, shared_path
from helix_assets.agents.spec import FoundFile
from helix_assets.model.changes import Changes
from helix_assets.model.errors import RetryLater, SkipSource
from helix_assets.model.time import iso, microseconds
from helix_assets.redaction.again import value_again
from helix_assets.store.catalog import problems, sources
from helix_assets.store.catalog.tombstones import session_mark, source_mark
from helix_assets.store.store import Store
from helix_assets.sweep.look import OPEN, SHARED_FILE, Scan, compare
from helix_assets.sweep.plan import Candidate
from helix_assets.sweep.task import FileTask, IngestTask

_LATEST_NS = 1 << 62
_START: dict[str, Any] = {"offset": 0, "line": 1, "read_hash": None, "parser_state": None}


@dataclass
class Refused:
    """Shared files that were not opened: `busy` ones are tried again by the next sweep, others once they change.

    `excluded` counts the sessions that were left out of files that were.
    """

    busy: list[tuple[str, str]] = field(default_factory=list)
    skipped: list[tuple[Candidate, str, str | None]] = field(default_factory=list)
    excluded: int = 0


class _Opened(NamedTuple):
    """A shared file with its sessions, their working folders, and the cursor to continue from."""

    candidate: Candidate
    parts: list[FoundFile]
    cwds: dict[str, str | None]
    status: str = SHARED_FILE
    cursor: dict[str, Any] = _START


class _Reach(NamedTuple):
    """How far a text is read in this sweep, and whether its last block is complete."""

    until: int
    is_over: bool


class SharedFiles:
    """The shared files that one sweep opens."""

    def __init__(self, store: Store, exclusions: Exclusions) -> None:
        self._store, self._exclusions = store, exclusions
        self._copies = PrivateCopies(store.raw.staging / "databases", store.settings.sweep.database_bytes)
        self._texts: dict[str, _Reach] = {}
        self._cwds: dict[str, str | None] = {}
        self.refused = Refused()

    def close(self) -> None:
        """Remove the private copies."""
        self._copies.close()

    def unfold(self, scan: Scan, now: datetime) -> Scan:
        """The look again, with the sessions of shared files instead of the files that have news."""
        self._texts = {
            file.path: _Reach(file.size, rests(file.mtime_ns, now)) for file in scan.shared if file.role == TEXT
        }
        tried = [self._opened(candidate, scan) for candidate in self._with_news(scan)]
        opened = [self._without_hidden(one, scan) for one in tried if one is not None]
        listed = {one.candidate.file.path: one.parts for one in opened}
        after = scan
        if opened:
            self._note(opened, scan, iso(microseconds(now)) or "")
            after = compare(self._store, scan.seen, now, listed=listed)
        readable = [key for key in after.changes.changed if _is_readable(after.found[key], listed)]
        return replace(after, changes=Changes(tuple(readable), after.changes.gone))

    def is_excluded(self, part: FoundFile, cwd: str | None) -> bool:
        """Whether a session in a shared file is excluded; `cwd` is its known folder if it was not listed now."""
        return bool(self._exclusions) and self._exclusions.covers_part(part.path, self._cwds.get(part.path, cwd))

    def with_opened(self, task: IngestTask) -> IngestTask:
        """The task with the files to open. A database that cannot be copied counts as missing."""
        if not any(file.role in SHARED for file in task.files):
            return task
        return replace(task, files=tuple(map(self._with_opened, task.files)))

    def _with_opened(self, file: FileTask) -> FileTask:
        path = shared_path(file.path)
        if file.role == TEXT and path in self._texts:
            return replace(file, opens=path, **self._texts[path]._asdict())
        if file.role == DATABASE:
            try:
                return replace(file, opens=os.path.realpath(self._copies.of(path)))
            except (RetryLater, SkipSource):
                return file
        return file

    # -- opening -----------------------------------------------------------------------------------------------------

    def _with_news(self, scan: Scan) -> list[Candidate]:
        """The shared files to open: changed ones, and those with a session to be read again."""
        changed = [scan.found[key] for key in scan.changes.changed]
        paths = {file.path for file in changed if is_shared(file)}
        paths |= {shared_path(file.path) for file in changed if is_part(file)}
        store = self._store
        return [
            Candidate(store.path_key(file.path), store.shown_path(file.path), file)
            for file in scan.shared
            if file.path in paths
        ]

    def _opened(self, candidate: Candidate, scan: Scan) -> _Opened | None:
        """A shared file with its sessions, None if it is not opened; then the reason is noted."""
        path = candidate.file.path
        if self._exclusions and self._exclusions.covers_path(path):
            self.refused.skipped.append((candidate, "excluded", None))
            return None
        open_it = self._database if candidate.file.role == DATABASE else self._text
        try:
            return open_it(candidate, scan)
        except RetryLater as exc:
            self.refused.busy.append((candidate.shown, str(exc)))
        except SkipSource as exc:
            self.refused.skipped.append((candidate, "damaged", str(exc)))
        except Exception as exc:  # noqa: BLE001 - any error is this file's problem
            reason = exc.strerror if isinstance(exc, OSError) else type(exc).__name__
            self.refused.skipped.append((candidate, "damaged", f"its sessions cannot be listed: {reason}"))
        return None

    def _database(self, candidate: Candidate, scan: Scan) -> _Opened:
        """All sessions of a database, from its private copy."""
        file = candidate.file
        adapter = cast(ReadsDatabases, ADAPTERS[scan.seen.flavors[file.path]])
        with asking(self._copies.of(file.path), adapter.queries) as ask:
            held = list(adapter.sessions(ask))
        cwds = {part_path(file.path, one.native_id): one.cwd for one in held}
        return _Opened(candidate, [_part(file, one) for one in held], cwds)

    def _text(self, candidate: Candidate, scan: Scan) -> _Opened:
        """The sessions of a text: those in its new blocks and, if it only grew, those known before."""
        file = candidate.file
        before = {one.path: one for one in scan.found.values() if is_part(one) and shared_path(one.path) == file.path}
        with self._store.catalog.reading() as connection:
            known = sources.by_key(connection, [candidate.path_key]).get(candidate.path_key)
        proven = known.offset if known is not None and begins_alike(self._store.key, file.path, known) else 0
        # The working folder of a session to be read again is known only from its first block.
        waits = any(scan.found[key] in before.values() for key in scan.changes.changed)
        has_grown = known is not None and proven and known.parser_state is not None and not waits
        ends, cursor = self._cut(file, scan.seen.flavors[file.path], known.as_dict() if known and has_grown else _START)
        parts = dict(before) if has_grown else {}
        for session, (end, _) in ends.items():
            path = part_path(file.path, session)
            state = file.dev, file.inode, end, file.mtime_ns
            is_known = end <= proven and path in before
            parts[path] = before[path] if is_known else FoundFile(path, TEXT, session, *state)
        cwds = {part_path(file.path, session): cwd for session, (_, cwd) in ends.items()}
        reach = self._texts[file.path]
        is_open = not reach.is_over and cursor["offset"] < reach.until
        return _Opened(candidate, list(parts.values()), cwds, OPEN if is_open else SHARED_FILE, cursor)

    def _cut(
        self, file: FoundFile, flavor: str, start: Mapping[str, Any]
    ) -> tuple[dict[str, tuple[int, str | None]], dict[str, Any]]:
        """The sessions of a text from a position on, and the cursor for the next look to continue after them.

        Of each session the end of its last block and its working folder.
        """
        offset, key = start["offset"], self._store.key
        splitter = cast(ReadsTexts, ADAPTERS[flavor]).splitter(file.path, start["parser_state"])
        with closing_fd(open_source(file.path)) as fd:
            reach = self._texts[file.path] = self._texts[file.path]._replace(until=os.fstat(fd).st_size)
            hashed = hashed_up_to(fd, file.path, offset, key)
            read = reader(fd, offset, reach.until)
            cutting = Cutting(read, splitter, offset, start["line"], is_over=reach.is_over, hashed=hashed)
            ends = {cut.block.session: (cut.end, cut.block.cwd) for cut in cutting}
        return ends, {"offset": cutting.offset, "line": cutting.line, "read_hash": cutting.hashed.hexdigest(),
                      "parser_state": value_again(self._store.redactor, cutting.state)}  # fmt: skip

    # -- noting ------------------------------------------------------------------------------------------------------

    def _without_hidden(self, opened: _Opened, scan: Scan) -> _Opened:
        """The file without forgotten sessions, and excluded ones that were never read: their names are not noted."""
        store, flavor = self._store, scan.seen.flavors[opened.candidate.file.path]
        marks = scan.known.forgotten

        def is_forgotten(part: FoundFile) -> bool:
            uid = f"{flavor}:{store.shown_path(part.native_id or '')}"
            return session_mark(store, uid) in marks or source_mark(store, part.path) in marks

        self._cwds |= opened.cwds
        excluded = {store.path_key(part.path): part for part in opened.parts if self.is_excluded(part, None)}
        with store.catalog.reading() as connection:
            known = sources.by_key(connection, excluded)
        unread = {part.path for key, part in excluded.items() if key not in known}
        self.refused.excluded += len(unread)
        parts = [part for part in opened.parts if part.path not in unread and not (marks and is_forgotten(part))]
        # The cursor may name the session that it ends in.
        hides_some = excluded or len(parts) < len(opened.parts)
        return opened._replace(parts=parts, cursor=_START if hides_some else opened.cursor)

    def _note(self, opened: Iterable[_Opened], scan: Scan, at: str) -> None:
        """Write the state of these files to the catalog, and which of their sessions are to be read."""
        store = self._store
        files, fresh, changed = list[dict[str, Any]](), list[dict[str, Any]](), list[str]()
        for one in opened:
            more = {"flavor": scan.seen.flavors[one.candidate.file.path], "discovered_at": at}
            files.append({**one.candidate.as_unread(store, one.status), **one.cursor, **more})
            parts = {store.path_key(part.path): part for part in one.parts}
            with store.catalog.reading() as connection:
                known = sources.by_key(connection, parts)
            changed += [key for key, part in parts.items() if key in known and _state(known[key]) != part[-4:]]
            for key in parts.keys() - known.keys():
                part = Candidate(key, store.shown_path(parts[key].path), parts[key]._replace(mtime_ns=-1))
                fresh.append({**part.as_unread(store, "new"), **more})
        with store.catalog.writing() as connection:
            sources.put(connection, fresh)
            sources.mark(connection, changed, mtime_ns=-1)
            sources.put(connection, files)
            problems.clear(connection, {row["path_key"]: 0 for row in files})


def _part(file: FoundFile, held: Held) -> FoundFile:
    """A session of a database as a source. Its state is its mark, which other sessions in the file do not change."""
    updated_ns = min(max(held.updated_us, 0) * 1000, _LATEST_NS)
    state = file.dev, number_of(held.mark), held.bytes, updated_ns
    return FoundFile(part_path(file.path, held.native_id), file.role, held.native_id, *state)


def _state(source: Any) -> tuple[int, int, int, int]:
    return source.dev, source.inode, source.size, source.mtime_ns


def _is_readable(file: FoundFile, listed: Collection[str]) -> bool:
    return file.role not in SHARED or (is_part(file) and shared_path(file.path) in listed)
