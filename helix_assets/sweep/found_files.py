"""The files of one sweep: which are read, to which sessions they belong, and notes about those that are not read.

Belongs here: exclusions, tombstones, hooks' names and shared files as they decide about a file. Not here: finding files
and news (`sweep.look`), or what is done with a session (`sweep.rounds`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any

from helix_assets.agents.discover import Exclusions, native_id_of
from helix_assets.agents.jsonl import failed_status
from helix_assets.agents.repositories import repository_root
from helix_assets.agents.roles import is_part
from helix_assets.agents.spec import FoundFile
from helix_assets.model.errors import Problem, SkipSource
from helix_assets.model.time import iso, microseconds
from helix_assets.store.catalog import meta, problems, retries, sources
from helix_assets.store.catalog.problems import problem_rows
from helix_assets.store.catalog.tombstones import session_mark, stay_forgotten
from helix_assets.store.store import Store
from helix_assets.sweep.look import EXCLUSIONS, Scan, exclusions_of
from helix_assets.sweep.plan import Candidate, SessionState
from helix_assets.sweep.sweep_report import SweepReport
from helix_assets.sweep.task import IngestTask

if TYPE_CHECKING:
    from helix_assets.sweep.unfold import SharedFiles

Clock = Callable[[], datetime]


class Files:
    """What a look found, while a sweep works on it."""

    def __init__(self, store: Store, clock: Clock, report: SweepReport, scan: Scan) -> None:
        self.store, self.clock, self.report, self.scan = store, clock, report, scan
        repository_root.cache_clear()  # a repository may have been made or moved since the last sweep
        self.exclusions = Exclusions(store.settings.exclude.repos, store.settings.exclude.paths, store.settings.places)
        self._shared: SharedFiles | None = None
        self._skipped: list[dict[str, Any]] = []
        self._skipped_problems: list[dict[str, Any]] = []

    def close(self) -> None:
        """Remove the private copies of shared files."""
        if self._shared:
            self._shared.close()

    def unfold(self) -> None:
        """Open the shared files with news, so that each of their sessions becomes a source."""
        if not self.scan.shared:
            return
        from helix_assets.sweep.unfold import SharedFiles  # few homes have such files

        self._shared = SharedFiles(self.store, self.exclusions)
        self.scan = self._shared.unfold(self.scan, self.clock())
        self.report.problems += self._shared.refused.busy
        self.report.files_excluded += self._shared.refused.excluded
        for candidate, status, reason in self._shared.refused.skipped:
            self.skip(candidate, self.scan.seen.flavors[candidate.file.path], status, reason)
            self.report.problems += [(candidate.shown, reason)] if reason else []
        self.note_skipped()

    def groups(self) -> dict[str, list[Candidate]]:
        """Changed files by their session; excluded and unreadable files are noted instead."""
        forgotten, later = self.scan.known.forgotten, self.scan.known.waiting.uids
        groups: dict[str, list[Candidate]] = {}
        for key in self.scan.changes.changed:
            file, source = self.scan.found[key], self.scan.rows.get(key)
            flavor = self.scan.seen.flavors[file.path]
            shown = key if key == file.path else self.store.shown_path(file.path)
            candidate = Candidate(key, shown, file)
            native_id = file.native_id or (source.native_id if source is not None and source.session_id else None)
            # Before anything about the file is noted, because its path also names the session.
            if native_id and self._stays_forgotten(flavor, native_id, file, forgotten):
                continue
            try:
                if self.is_excluded(flavor, file, None):
                    self.skip(candidate, flavor, "excluded", None)
                    self.report.files_excluded += 1
                    continue
                native_id = native_id or native_id_of(flavor, file.path)
            except SkipSource as exc:
                self.skip(candidate, flavor, failed_status(file.path, str(exc)), str(exc))
                self.report.files_skipped += 1
                self.report.problems.append((shown, str(exc)))
                continue
            uid = self._uid(flavor, native_id)
            if self._stays_forgotten(flavor, native_id, file, forgotten) or uid in later:
                continue
            groups.setdefault(uid, []).append(candidate)
            self.report.files_changed += 1
        self.note_skipped()
        return groups

    def is_excluded(self, flavor: str, file: FoundFile, cwd: str | None) -> bool:
        """Whether the settings exclude a file. `cwd` is the known folder of its session."""
        if self._shared is not None and is_part(file):
            return self._shared.is_excluded(file, cwd)
        return bool(self.exclusions) and self.exclusions.covers(flavor, file.path)

    def _uid(self, flavor: str, native_id: str) -> str:
        return f"{flavor}:{self.store.shown_path(native_id)}"

    def _stays_forgotten(self, flavor: str, native_id: str, file: FoundFile, forgotten: Collection[str]) -> bool:
        """Whether the file belongs to a forgotten session; then later sweeps ignore it."""
        if not forgotten or session_mark(self.store, self._uid(flavor, native_id)) not in forgotten:
            return False
        stay_forgotten(self.store, file.path, at=self.now())
        return True

    def skip(self, candidate: Candidate, flavor: str, status: str, problem: str | None) -> None:
        """Remember a file that is not read, so that it is news again only when it changes."""
        file, at = candidate.file, self.now()
        row = candidate.as_unread(self.store, status, problem)
        self._skipped.append({**row, "flavor": flavor, "discovered_at": at})
        if problem:
            keys = {file.path: candidate.path_key}
            self._skipped_problems += problem_rows(self.store, flavor, [Problem(file.path, problem)], keys, at)

    def note_skipped(self) -> None:
        """Write the skipped files to the catalog, all in one transaction, because there may be thousands."""
        if self._skipped:
            is_change = self._are_exclusions_new and any(row["status"] == "excluded" for row in self._skipped)
            with self.store.catalog.writing() as connection:
                sources.put(connection, self._skipped)
                problems.put(connection, self._skipped_problems)
                if is_change:  # an interrupted or partial sweep does not note the exclusions that it applied
                    meta.put(connection, EXCLUSIONS, "several")
            self._skipped, self._skipped_problems = [], []

    def note_gone(self) -> None:
        """Mark files that the agent has deleted, keeping what is stored of them, and note unreadable folders."""
        gone = self.scan.changes.gone
        self.report.files_gone = len(gone)
        at, known = self.now(), self.scan.known.troubles
        rows = [r for flavor, p in self.scan.seen.problems for r in problem_rows(self.store, flavor, [p], {}, at)]
        fresh = [row for row in rows if (row["path_key"], row["reason"]) not in known]
        here = {(row["path_key"], row["reason"]) for row in rows}
        over = [one for one, is_source in known.items() if not is_source and one not in here]
        if gone or fresh or over:
            with self.store.catalog.writing() as connection:
                sources.mark(connection, gone, status="gone", gone_at=at)
                problems.put(connection, fresh)
                problems.drop(connection, over)
                if gone:
                    retries.clear_gone(connection)
        self.report.problems += [(row["path"], row["reason"]) for row in rows]

    def with_opened(self, tasks: Iterable[IngestTask]) -> list[IngestTask]:
        """The tasks with the private copies of shared files."""
        return [self._shared.with_opened(task) if self._shared else task for task in tasks]

    def present(self, state: SessionState, changed: Iterable[Candidate] = ()) -> dict[str, Candidate]:
        """All files of a session that are on disk now and not excluded."""
        found, cwd = self.scan.found, state.row.cwd if state.row is not None else None
        present = {
            s.path_key: Candidate(s.path_key, s.path, found[s.path_key])
            for s in state.sources
            if s.path_key in found and not self.is_excluded(state.flavor, found[s.path_key], cwd)
        }
        return present | {c.path_key: c for c in changed}

    def has_excluded(self, state: SessionState) -> bool:
        """Whether any file of a session is on disk and excluded."""
        present = self.present(state)
        return any(s.path_key in self.scan.found and s.path_key not in present for s in state.sources)

    @property
    def _are_exclusions_new(self) -> bool:
        return self.scan.known.meta.get(EXCLUSIONS) != exclusions_of(self.store)

    def now(self) -> str:
        """The clock's time as the catalog stores it."""
        return iso(microseconds(self.clock())) or ""
