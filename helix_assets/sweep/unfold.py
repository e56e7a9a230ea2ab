"""Files that hold many sessions, unfolded: the step between the look at the disk and the plan.

A look knows only that such a file changed. Here it is opened, its sessions are listed, and each becomes a source of its
own; from then on it is planned, read, evicted and forgotten like a file. What is news is noted in the catalog before
anything is read: the file as seen, each changed session as one to be read again. So a kill, a failure or a rest loses
no news, and a file without news is not opened.
Belongs here: opening, listing, noting. Not here: copying and asking (`agents.database`), reading (`sweep.read`).
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, cast

from helix_assets.agents import ADAPTERS
from helix_assets.agents.database import PrivateCopies, asking, number_of
from helix_assets.agents.discover import Exclusions
from helix_assets.agents.kinds import SHARED, Held, ReadsDatabases, is_part, is_shared, part_path, shared_path
from helix_assets.agents.spec import FoundFile
from helix_assets.model.changes import Changes
from helix_assets.model.errors import RetryLater, SkipSource
from helix_assets.model.time import iso, microseconds
from helix_assets.store.catalog.tombstones import forgotten_marks, session_mark, source_mark
from helix_assets.store.store import Store
from helix_assets.sweep.look import Scan, compare
from helix_assets.sweep.plan import Candidate, file_rank
from helix_assets.sweep.task import FileTask, IngestTask

_LATEST_NS = 1 << 62


@dataclass
class Refused:
    """Shared files that were not opened: `busy` ones are tried again by the next sweep, others once they change."""

    busy: list[tuple[str, str]] = field(default_factory=list)
    aside: list[tuple[Candidate, str, str | None]] = field(default_factory=list)


class SharedFiles:
    """What one sweep opens of the files that hold many sessions."""

    def __init__(self, store: Store, exclusions: Exclusions) -> None:
        self._store, self._exclusions = store, exclusions
        self._copies = PrivateCopies(store.raw.staging / "databases", store.settings.sweep.database_bytes)
        self._cwds: dict[str, str | None] = {}
        self.refused = Refused()

    def close(self) -> None:
        """Remove the private copies."""
        self._copies.close()

    def unfold(self, scan: Scan, now: datetime, *, patient: bool, natives: Collection[str] | None) -> Scan:
        """The look once more, with the sessions of the shared files that have news in the place of these files.

        With `natives` only files are opened that are known to hold one of these sessions.
        """
        if not scan.shared:
            return scan
        listed: dict[str, list[FoundFile]] = {}
        noted = list[Candidate]()
        for candidate in self._with_news(scan, natives):
            parts = self._opened(candidate, scan.seen.flavors[candidate.file.path])
            if parts is not None:
                listed[candidate.file.path] = parts
                noted.append(candidate)
        after = scan
        if listed:
            self._note(scan, noted if natives is None else [], listed, iso(microseconds(now)) or "")
            after = compare(self._store, scan.seen, now, patient=patient, listed=listed)
        at_hand = [key for key in after.changes.changed if _is_at_hand(after.found[key], listed)]
        return replace(after, changes=Changes(tuple(at_hand), after.changes.gone))

    def left_out(self, part: FoundFile, cwd: str | None) -> bool:
        """Whether a session in a shared file is excluded; `cwd` is what is known of it where it was not listed now."""
        return bool(self._exclusions) and self._exclusions.covers_part(part.path, self._cwds.get(part.path, cwd))

    def within_reach(self, task: IngestTask) -> IngestTask:
        """The task with what has to be opened for its files. A database that cannot be copied counts as not there."""
        if not any(file.role in SHARED for file in task.files):
            return task
        return replace(task, files=tuple(map(self._reached, task.files)))

    def _reached(self, file: FileTask) -> FileTask:
        if file.role not in SHARED:
            return file
        try:
            return replace(file, opens=os.path.realpath(self._copies.of(shared_path(file.path))))
        except (RetryLater, SkipSource):
            return file

    def _with_news(self, scan: Scan, natives: Collection[str] | None) -> list[Candidate]:
        """The shared files to open: changed ones, and those with a session that is to be read again."""
        changed = [scan.found[key] for key in scan.changes.changed]
        paths = {file.path for file in changed if is_shared(file)}
        paths |= {shared_path(file.path) for file in changed if is_part(file)}
        if natives is not None:
            known = [file for file in scan.found.values() if is_part(file) and file.native_id in natives]
            paths &= {shared_path(file.path) for file in known}
        store = self._store
        return [
            Candidate(store.path_key(file.path), store.shown_path(file.path), file)
            for file in scan.shared
            if file.path in paths
        ]

    def _opened(self, candidate: Candidate, flavor: str) -> list[FoundFile] | None:
        """The sessions that a shared file holds; None, with the reason noted, where it is not opened."""
        path = candidate.file.path
        if self._exclusions and self._exclusions.covers_path(path):
            self.refused.aside.append((candidate, "excluded", None))
            return None
        try:
            return self._listed(candidate.file, flavor)
        except RetryLater as exc:
            self.refused.busy.append((candidate.shown, str(exc)))
        except SkipSource as exc:
            self.refused.aside.append((candidate, "damaged", str(exc)))
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is this file's problem
            reason = exc.strerror if isinstance(exc, OSError) else type(exc).__name__
            self.refused.aside.append((candidate, "damaged", f"its sessions cannot be listed: {reason}"))
        return None

    def _listed(self, file: FoundFile, flavor: str) -> list[FoundFile]:
        adapter = cast(ReadsDatabases, ADAPTERS[flavor])
        with asking(self._copies.of(file.path), adapter.queries) as ask:
            marks = forgotten_marks(self._store)
            held = [one for one in adapter.sessions(ask) if marks.isdisjoint(self._marks(file, one, flavor))]
        self._cwds |= {part_path(file.path, one.native_id): one.cwd for one in held}
        return [_part(file, one) for one in held]

    def _marks(self, file: FoundFile, held: Held, flavor: str) -> tuple[str, str]:
        """What a tombstone of this session, or of this source, would say."""
        uid = f"{flavor}:{self._store.shown_path(held.native_id)}"
        return session_mark(self._store, uid), source_mark(self._store, part_path(file.path, held.native_id))

    def _note(self, scan: Scan, noted: list[Candidate], listed: Mapping[str, list[FoundFile]], at: str) -> None:
        """Have the catalog know what is seen of these files now, and what of their sessions has yet to be read."""
        catalog, flavors = self._store.catalog, scan.seen.flavors
        parts = {self._store.path_key(part.path): part for held in listed.values() for part in held}
        known = catalog.sources_by_key(parts)
        changed = [key for key, part in parts.items() if key in known and _state(known[key]) != part[-4:]]
        rows = [
            {**unread_source(self._store, one, "shared"), "flavor": flavors[one.file.path], "discovered_at": at}
            for one in noted
        ]
        for key in parts.keys() - known.keys():
            part = parts[key]
            candidate = Candidate(key, self._store.shown_path(part.path), part._replace(mtime_ns=-1))
            flavor = flavors[shared_path(part.path)]
            rows.append({**unread_source(self._store, candidate, "new"), "flavor": flavor, "discovered_at": at})
        if rows or changed:
            with catalog.writing() as connection:
                catalog.put_sources(connection, rows)
                catalog.clear_problems(connection, dict.fromkeys((one.path_key for one in noted), 0))
                catalog.mark_sources(connection, changed, mtime_ns=-1)


def unread_source(store: Store, candidate: Candidate, status: str, problem: str | None = None) -> dict[str, Any]:
    """The catalog's row of a file that is not read, or not yet; but for its agent and the time."""
    file = candidate.file
    return {
        "path_key": candidate.path_key,
        "path": candidate.shown,
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


def _part(file: FoundFile, held: Held) -> FoundFile:
    """A session as a source. Its state is its mark: what else is written to the file does not change it."""
    updated_ns = min(max(held.updated_us, 0) * 1000, _LATEST_NS)
    state = file.dev, number_of(held.mark), held.bytes, updated_ns
    return FoundFile(part_path(file.path, held.native_id), file.role, held.native_id, *state)


def _state(source: Any) -> tuple[int, int, int, int]:
    return source.dev, source.inode, source.size, source.mtime_ns


def _is_at_hand(file: FoundFile, listed: Collection[str]) -> bool:
    return file.role not in SHARED or (is_part(file) and shared_path(file.path) in listed)
