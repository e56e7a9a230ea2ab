"""The only way of data into the store: look, read, derive, in limited batches, each committed as a whole.

A sweep of all agents, of a Dagster partition, and of sessions named by hooks all run here. Belongs here: the order of
steps and the decisions between them. Not here: reading and deriving one session (`sweep.read`), who owns shared history
(`sweep.settle`), writing (`sweep.commit`), deleting raw bytes (`keep.evict`).
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache, partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Literal

from helix_assets.agents import ADAPTERS
from helix_assets.agents.discover import Exclusions, native_id_of
from helix_assets.agents.jsonl import failed_status
from helix_assets.agents.repositories import repository_root
from helix_assets.agents.roles import is_part
from helix_assets.agents.spec import FoundFile
from helix_assets.hooks.inbox import read_notes, sessions_named, take_in
from helix_assets.keep.backup import back_up_if_due
from helix_assets.keep.evict import make_room, report_memory_over_cap
from helix_assets.keep.writing import writing
from helix_assets.model.errors import HelixError, Problem, RetryLater, SkipSource, StoreError
from helix_assets.model.event import DIGEST_VERSION
from helix_assets.model.time import iso, microseconds
from helix_assets.store.catalog import live_files, meta, problems, retries, sessions, sources, sweeps
from helix_assets.store.catalog.connection import Row
from helix_assets.store.catalog.day_marks import count_day
from helix_assets.store.catalog.ledger import shared_with
from helix_assets.store.catalog.pages import truncate_log
from helix_assets.store.catalog.problems import problem_rows
from helix_assets.store.catalog.session_keys import keys_of, message_key
from helix_assets.store.catalog.sources import read_again
from helix_assets.store.catalog.tombstones import session_mark, stay_forgotten
from helix_assets.store.key import hasher
from helix_assets.store.store import MEMORY_REDACTED, RULES_STAMP, Store
from helix_assets.store.words.keep import AT_ONCE_BYTES, keep_up
from helix_assets.sweep.commit import NO_PARSER, Batch, Committed, commit_batch, discard, fault_of, fold_facts
from helix_assets.sweep.look import EXCLUSIONS, exclusions_of, no_collection, scan
from helix_assets.sweep.merging import is_derived_now_or_never, merge_into_kept
from helix_assets.sweep.plan import (
    Candidate,
    SessionState,
    can_read_covered,
    has_all_files,
    has_all_rows,
    holds_more,
    is_reread,
    plan_rederivation,
    plan_remake,
    plan_session,
    was_evicted,
)
from helix_assets.sweep.pricing import reprice
from helix_assets.sweep.settle import Standing, Wanted, settle
from helix_assets.sweep.stale import code_versions, is_settled, note_settled, stale_sessions, unredacted_sessions
from helix_assets.sweep.task import Ingested, IngestTask, Limits, Workshop
from helix_assets.sweep.warm import Warm
from helix_assets.sweep.workers import IN_PLACE_BYTES, TASK_BYTES, Work, Workers

if TYPE_CHECKING:
    from helix_assets.store.words.hashing import Words
    from helix_assets.sweep.unfold import SharedFiles

REDERIVE_AT_ONCE = 500
RESCAN_BYTES = 256 << 20
"""How many bytes of stored sessions one sweep brings to new redaction rules."""

Clock = Callable[[], datetime]
Reach = Literal["all", "pushed"]


def utc_now() -> datetime:
    """The clock of every entry point; tests pass their own."""
    return datetime.now(UTC)


@dataclass
class SweepReport:
    """What a sweep did. Every number is counted where it happens."""

    files_seen: int = 0
    files_changed: int = 0
    files_gone: int = 0
    files_excluded: int = 0
    files_skipped: int = 0
    sessions_touched: int = 0
    sessions_failed: int = 0
    files_opened: int = 0
    lines_read: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    records_unparsed: int = 0
    redactions: int = 0
    records_withheld: int = 0
    rows_rederived: int = 0
    digests_written: int = 0
    digests_repriced: int = 0
    digests_failed: int = 0
    seconds: float = 0.0
    partitions: set[tuple[str, str]] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)
    problems: list[tuple[str, str]] = field(default_factory=list)

    def counters(self) -> dict[str, int | float]:
        """Only the numbers, as they are stored with the sweep."""
        return {k: v for k, v in vars(self).items() if isinstance(v, int | float)}


class Progress:
    """Receives the progress of a sweep; this one ignores it."""

    def start(self, total_bytes: int) -> None:
        """Called with the bytes of all changed files."""

    def advance(self, done_bytes: int, session_uid: str) -> None:
        """Called when a session is done."""


def sweep(  # noqa: PLR0913 - each is a choice of who sweeps
    store: Store,
    *,
    clock: Clock = utc_now,
    progress: Progress | None = None,
    only: Collection[tuple[str, str]] | None = None,
    reach: Reach = "all",
    warm: Warm | None = None,
) -> SweepReport:
    """Read what changed and digest it. Safe to kill, repeat and run while others read.

    `only` limits the work to sessions of these (flavor, day) partitions and to files not yet seen. A reach of "pushed"
    limits it to the sessions that hooks have named since the last sweep, or to all if a hook could not name one. A
    process that sweeps often passes the same `warm` each time.
    """
    with writing(store, "sweep"):
        run = _Sweep(store, clock, progress or Progress(), only, reach, warm)
        report = run.run()
        if run.notes:
            take_in(store, run.notes)
        keep_up(store, changed=bool(report.touched or report.digests_repriced), words=run.words)
        if report.touched:
            report_memory_over_cap(store, clock())
        back_up_if_due(store, clock())
        return report


@dataclass
class _Round:
    """Sessions that are ingested and committed together."""

    running: Work
    states: dict[str, SessionState]
    groups: dict[str, list[Candidate]]
    results: dict[str, Ingested] = field(default_factory=dict)
    unmade: set[str] = field(default_factory=set)


class _Sweep:
    """One sweep while it holds the writer lock."""

    def __init__(  # noqa: PLR0913, PLR0917 - as above
        self,
        store: Store,
        clock: Clock,
        progress: Progress,
        only: Collection[tuple[str, str]] | None,
        reach: Reach,
        warm: Warm | None,
    ) -> None:
        self._store, self._clock, self._progress, self._warm = store, clock, progress, warm
        self.notes = read_notes(store.data_dir)
        self._natives = sessions_named(self.notes) if reach == "pushed" else None
        self._only = None if only is None else set(only)
        self._report = SweepReport()
        repository_root.cache_clear()  # a repository may have been made or moved since the last sweep
        self._exclusions = Exclusions(store.settings.exclude.repos, store.settings.exclude.paths, store.settings.places)
        self._shared: SharedFiles | None = None
        self._workers: Workers | None = None
        self._skipped: list[dict[str, Any]] = []
        self._skipped_problems: list[dict[str, Any]] = []
        self.words: dict[str, Sequence[Words]] = {}
        self._words_of_bytes = 0

    def run(self) -> SweepReport:
        started, begin = self._clock(), time.perf_counter()
        self._redacted_again = self._redact_memory()
        retries.try_all_with_new_code(self._store.catalog, code_versions(), self._clock())
        self._scan = scan(self._store, self._clock())
        report = self._report
        try:
            self._unfold()
            report.files_seen = len(self._scan.found)
            was_settled = is_settled(self._store, self._scan.known.meta)
            if not was_settled and self._natives is None:
                self._redact_texts()
            groups = self._groups() if self._scan.changes else {}
            # Otherwise the garbage collector searches all that was found: a fifth of the time of a small sweep.
            with no_collection() if was_settled and _bytes_of(groups) < IN_PLACE_BYTES else nullcontext():
                self._take_in(groups, was_settled)
        finally:
            if self._shared:
                self._shared.close()
            if self._workers:
                self._workers.close()
        report.seconds = time.perf_counter() - begin
        self._note_sweep(started)
        if self._redacted_again:
            keep_up(self._store, changed=True, words=self.words)
            truncate_log(self._store.catalog)  # it contains the overwritten texts
        return report

    def _redact_memory(self) -> int:
        """Bring catalog and facts to new redaction rules, if there are any. Returns how much changed."""
        store = self._store
        with store.catalog.reading() as connection:
            known = meta.every(connection)
        if (known.get(MEMORY_REDACTED), known.get(RULES_STAMP)) == (store.rules_version, store.settings.rules_stamp):
            return 0
        from helix_assets.sweep.rescan import redact_memory  # loads the rules

        return redact_memory(store)

    def _unfold(self) -> None:
        """Open the shared files with news, so that each of their sessions becomes a source."""
        if not self._scan.shared:
            return
        from helix_assets.sweep.unfold import SharedFiles  # few homes have such files

        self._shared = SharedFiles(self._store, self._exclusions)
        self._scan = self._shared.unfold(self._scan, self._clock(), natives=self._natives)
        self._report.problems += self._shared.refused.busy
        self._report.files_excluded += self._shared.refused.excluded
        for candidate, status, reason in self._shared.refused.skipped:
            self._skip(candidate, self._scan.seen.flavors[candidate.file.path], status, reason)
            self._report.problems += [(candidate.shown, reason)] if reason else []
        self._note_skipped()

    def _take_in(self, groups: dict[str, list[Candidate]], was_settled: bool) -> None:
        if self._natives is None:
            self._note_gone()
        self._progress.start(_bytes_of(groups))
        self._ingest(groups)
        if not was_settled or self._report.touched:
            self._follow_rules(was_settled)
        self._report.digests_repriced = reprice(self._store, self._clock().date())
        if count_day(self._store.catalog, self._clock()):
            fold_facts(self._store)
        self._note_exclusions()

    @property
    def _pool(self) -> Workers:
        if self._workers is None:
            store = self._store
            settings = store.settings.sweep
            limits = Limits(settings.session_seconds, settings.worker_memory_bytes)
            is_indexed = store.settings.search.index == "on"
            shop = Workshop(
                store.key, store.redactor, str(store.raw.staging), store.settings.places, limits, is_indexed
            )
            self._workers = Workers(shop, settings.workers, store.prepare_engine)
        return self._workers

    # -- which files belong to which session -------------------------------------------------------------------------

    def _groups(self) -> dict[str, list[Candidate]]:
        """Changed files by their session; excluded and unreadable files are noted instead."""
        with self._store.catalog.reading() as connection:
            known = sources.by_key(connection, self._scan.changes.changed)
        forgotten, later = self._scan.known.forgotten, self._scan.known.waiting.uids
        groups: dict[str, list[Candidate]] = {}
        for key in self._scan.changes.changed:
            file, source = self._scan.found[key], known.get(key)
            if not self._is_pushed(file, source):
                continue
            flavor = self._scan.seen.flavors[file.path]
            shown = key if key == file.path else self._store.shown_path(file.path)
            candidate = Candidate(key, shown, file)
            native_id = file.native_id or (source.native_id if source is not None and source.session_id else None)
            # Before anything about the file is noted, because its path also names the session.
            if native_id and self._stays_forgotten(flavor, native_id, file, forgotten):
                continue
            try:
                if self._is_excluded(flavor, file, None):
                    self._skip(candidate, flavor, "excluded", None)
                    self._report.files_excluded += 1
                    continue
                native_id = native_id or native_id_of(flavor, file.path)
            except SkipSource as exc:
                self._skip(candidate, flavor, failed_status(file.path, str(exc)), str(exc))
                self._report.files_skipped += 1
                self._report.problems.append((shown, str(exc)))
                continue
            uid = self._uid(flavor, native_id)
            if self._stays_forgotten(flavor, native_id, file, forgotten) or uid in later:
                continue
            groups.setdefault(uid, []).append(candidate)
            self._report.files_changed += 1
        self._note_skipped()
        return groups

    def _is_excluded(self, flavor: str, file: FoundFile, cwd: str | None) -> bool:
        if self._shared is not None and is_part(file):
            return self._shared.is_excluded(file, cwd)
        return bool(self._exclusions) and self._exclusions.covers(flavor, file.path)

    def _is_pushed(self, file: FoundFile, source: Row | None) -> bool:
        """Whether a hook named the file's session, by its path or the catalog; in a whole sweep always true."""
        natives = self._natives
        if natives is None or file.native_id in natives or (source is not None and source.native_id in natives):
            return True
        return any(native in file.path for native in natives)

    def _uid(self, flavor: str, native_id: str) -> str:
        return f"{flavor}:{self._store.shown_path(native_id)}"

    def _stays_forgotten(self, flavor: str, native_id: str, file: FoundFile, forgotten: Collection[str]) -> bool:
        """Whether the file belongs to a forgotten session; then later sweeps ignore it."""
        if not forgotten or session_mark(self._store, self._uid(flavor, native_id)) not in forgotten:
            return False
        stay_forgotten(self._store, file.path, at=self._now())
        return True

    def _skip(self, candidate: Candidate, flavor: str, status: str, problem: str | None) -> None:
        """Remember a file that is not read, so that it is news again only when it changes."""
        file, at = candidate.file, self._now()
        row = candidate.as_unread(self._store, status, problem)
        self._skipped.append({**row, "flavor": flavor, "discovered_at": at})
        if problem:
            keys = {file.path: candidate.path_key}
            self._skipped_problems += problem_rows(self._store, flavor, [Problem(file.path, problem)], keys, at)

    def _note_skipped(self) -> None:
        """Write the skipped files to the catalog, all in one transaction, because there may be thousands."""
        if self._skipped:
            is_change = self._are_exclusions_new and any(row["status"] == "excluded" for row in self._skipped)
            with self._store.catalog.writing() as connection:
                sources.put(connection, self._skipped)
                problems.put(connection, self._skipped_problems)
                if is_change:  # an interrupted or partial sweep does not note the exclusions that it applied
                    meta.put(connection, EXCLUSIONS, "several")
            self._skipped, self._skipped_problems = [], []

    def _note_gone(self) -> None:
        """Mark files that the agent has deleted, keeping what is stored of them, and note unreadable folders."""
        gone = self._scan.changes.gone
        self._report.files_gone = len(gone)
        at = self._now()
        with self._store.catalog.reading() as connection:
            known = problems.of_places(connection)
        rows = [r for flavor, p in self._scan.seen.problems for r in problem_rows(self._store, flavor, [p], {}, at)]
        fresh = [row for row in rows if (row["path_key"], row["reason"]) not in known]
        here = {(row["path_key"], row["reason"]) for row in rows}
        over = [one for one, is_source in known.items() if not is_source and one not in here]
        if gone or fresh or over:
            with self._store.catalog.writing() as connection:
                sources.mark(connection, gone, status="gone", gone_at=at)
                problems.put(connection, fresh)
                problems.drop(connection, over)
                if gone:
                    retries.clear_gone(connection)
        self._report.problems += [(row["path"], row["reason"]) for row in rows]

    # -- batches -----------------------------------------------------------------------------------------------------

    def _batches(self, groups: dict[str, list[Candidate]]) -> Iterator[dict[str, list[Candidate]]]:
        """The sessions to bring up to date, in batches below the byte limit."""
        limit = self._store.settings.sweep.batch_bytes
        batch: dict[str, list[Candidate]] = {}
        held = 0
        # The oldest first, so that a batch touches few days and the facts of a day are written few times.
        for uid in sorted(groups, key=lambda uid: (min(c.file.mtime_ns for c in groups[uid]), uid)):
            size = sum(c.file.size for c in groups[uid]) + TASK_BYTES  # even a small session has a cost
            if batch and held + size > limit:
                yield batch
                batch, held = {}, 0
            batch[uid] = groups[uid]
            held += size
        if batch:
            yield batch

    def _ingest(self, groups: dict[str, list[Candidate]]) -> None:
        """Ingest batch by batch. While one is committed the workers read the next, if neither affects the other."""
        before: _Round | None = None
        for batch in self._batches(groups):
            if before is not None and not self._may_overlap(before, batch):
                self._finish(before)
                before = None
            make_room(self._store, _bytes_of(batch), clock=self._clock)
            work = self._begin(batch)
            if before is not None:
                self._finish(before)
            before = work
        if before is not None:
            self._finish(before)

    def _may_overlap(self, before: _Round, batch: dict[str, list[Candidate]]) -> bool:
        """Whether all sessions of a batch are new, so that its plan cannot change, and there is room for both."""
        with self._store.catalog.reading() as connection:
            ahead = live_files.raw_usage(connection) + _bytes_of(before.groups) + _bytes_of(batch)
            is_new = not sessions.by_uid(connection, batch.keys())
        return is_new and ahead <= self._store.settings.retention.raw_hard_cap_bytes

    def _begin(self, groups: dict[str, list[Candidate]]) -> _Round:
        """Plan a batch and pass it to the workers."""
        states = self._states(groups.keys())
        tasks = []
        for uid, changed in groups.items():
            state = states[uid]
            if not self._is_wanted(state):
                continue
            try:
                task = plan_session(self._store, state, changed, self._present(state, changed))
            except StoreError as exc:
                self._fail_unread(state, changed, exc)
                continue
            if task is not None:
                tasks.append(self._with_derived(state, self._unless_waiting(state, task)))
            reading = {f.path_key for f in task.files} if task else set()
            for candidate in changed:
                if candidate.path_key not in reading:
                    self._skip(candidate, state.flavor, "superseded", None)
        self._note_skipped()
        return _Round(self._pool.start(self._with_opened(tasks)), states, groups)

    def _with_derived(self, state: SessionState, task: IngestTask) -> IngestTask:
        """The task with what an earlier sweep of this process derived of the session, if it can be continued."""
        derived = self._warm.take(state, self._rules(state)) if self._warm is not None else None
        return replace(task, derived=derived) if derived is not None and task.append else task

    def _rules(self, state: SessionState) -> tuple[object, ...]:
        """All by which a session is derived, and where it is stored."""
        store = self._store
        return store.data_dir, store.key, store.rules_version, DIGEST_VERSION, ADAPTERS[state.flavor].version

    def _keep_derived(self, results: Mapping[str, Ingested], done: Committed) -> None:
        """Remember what the next turns of committed sessions can continue."""
        if self._warm is None:
            return
        found = {uid: r.derived for uid, r in results.items() if r.derived is not None and r.digest is not None}
        last = dict(list(found.items())[-self._warm.sessions :])
        for uid, state in self._states(last).items():
            last[uid].facts = done.facts.get(uid)
            self._warm.put(state, self._rules(state), last[uid])

    def _with_opened(self, tasks: Iterable[IngestTask]) -> list[IngestTask]:
        return [self._shared.with_opened(task) if self._shared else task for task in tasks]

    def _unless_waiting(self, state: SessionState, task: IngestTask) -> IngestTask:
        """The task; before the retry of a failed session its new records are stored, but not derived."""
        row = state.row
        if row is None or task.earlier is not None or not retries.is_waiting(row, self._clock()):
            return task
        return replace(task, no_digest_because=row.failure, is_bare=row.parser_version == NO_PARSER)

    def _fail_unread(self, state: SessionState, changed: Sequence[Candidate], damage: StoreError) -> None:
        """Record a session as failed before it is read."""
        reason = f"what is kept of it is damaged: {damage}"
        self._report.problems += [(candidate.shown, reason) for candidate in changed]
        self._report.sessions_failed += 1
        with self._store.catalog.writing() as connection:
            keys = [candidate.path_key for candidate in changed]
            retries.note_failure(connection, state.uid, path_keys=keys, failure=reason, now=self._clock())

    def _is_wanted(self, state: SessionState) -> bool:
        return self._only is None or state.row is None or (state.flavor, state.row.day) in self._only

    def _states(self, uids: Collection[str]) -> dict[str, SessionState]:
        foreign: dict[int, list[Any]] = {}
        with self._store.catalog.reading() as connection:
            rows = sessions.by_uid(connection, uids)
            ids = [row.id for row in rows.values()]
            parts, files = live_files.parts_of(connection, ids), sources.of_sessions(connection, ids)
            keys = shared_with(connection, ids) if ids else []
        for shared in keys:
            if shared.session_id != shared.owner_id:
                foreign.setdefault(shared.session_id, []).append(shared)
        states = {}
        for uid in uids:
            row = rows.get(uid)
            theirs = foreign.get(row.id, ()) if row is not None else ()
            states[uid] = SessionState(
                uid=uid,
                flavor=uid.partition(":")[0],
                native_id=uid.partition(":")[2],
                row=row,
                sources=tuple(files.get(row.id, ())) if row is not None else (),
                parts=tuple(parts.get(row.id, ())) if row is not None else (),
                not_ours=frozenset(s.key for s in theirs),
                foreign_messages=frozenset(s.message_id for s in theirs if s.message_id is not None),
            )
        return states

    def _present(self, state: SessionState, changed: Iterable[Candidate] = ()) -> dict[str, Candidate]:
        """All files of a session that are on disk now and not excluded."""
        found, cwd = self._scan.found, state.row.cwd if state.row is not None else None
        present = {
            s.path_key: Candidate(s.path_key, s.path, found[s.path_key])
            for s in state.sources
            if s.path_key in found and not self._is_excluded(state.flavor, found[s.path_key], cwd)
        }
        return present | {c.path_key: c for c in changed}

    def _finish(self, work: _Round) -> None:
        """Wait for a round of sessions, settle what they share, commit."""
        for task, outcome in self._pool.results(work.running):
            self._take(work, task, outcome)
            self._progress.advance(sum(c.file.size for c in work.groups.get(task.session_uid, ())), task.session_uid)
        ids = {uid: s.row.id for uid, s in work.states.items() if s.row is not None}
        is_settled = False
        while not is_settled:
            unmade, before = len(work.unmade), dict(work.results)
            standing = Standing(
                is_fixed=cache(partial(self._is_fixed, work)),
                can_gain=cache(partial(self._can_gain, work)),
                reread={uid for uid, result in work.results.items() if is_reread(work.states[uid], result)},
            )
            shares = settle(self._store.catalog, work.results, ids, partial(self._remake, work), standing)
            # If a share could not be changed, the others must change theirs. If a log grew before it was read again for
            # its share, other sessions may hold the new records, too.
            is_made = unmade == len(work.unmade) and before.keys() <= work.results.keys()
            is_settled = is_made and not any(
                result is not before.get(uid) and holds_more(work.states[uid], before.get(uid), result)
                for uid, result in work.results.items()
            )
        mtimes = {c.path_key: c.file.mtime_ns // 1000 for group in work.groups.values() for c in group}
        self._read_when_allowed(shares.stuck)
        done = commit_batch(self._store, Batch(work.results, work.states, shares, self._clock(), mtimes))
        self._keep_derived(work.results, done)
        self._count(work, done)
        self._index(done)

    def _index(self, done: Committed) -> None:
        """Collect the words of new files; write many of them to the index while the workers are busy."""
        self.words |= done.words
        self._words_of_bytes += done.bytes_written
        if self._words_of_bytes >= AT_ONCE_BYTES:
            keep_up(self._store, changed=True, words=self.words)
            self.words, self._words_of_bytes = {}, 0

    def _is_fixed(self, work: _Round, uid: str) -> bool:
        """Whether the session's records cannot be read again, or not now: its digest keeps what it counts."""
        if uid in work.unmade:
            return True
        if (met := _met_all(work.results.get(uid))) is not None:
            return not met
        state = work.states.get(uid) or self._states([uid])[uid]
        present = self._present(state, work.groups.get(uid, ()))
        return state.row is not None and not can_read_covered(self._store, state, present)

    def _read_when_allowed(self, uids: Collection[str]) -> None:
        """Note that sessions with excluded files are read from the start when these are no longer excluded."""
        if self._exclusions and uids:
            states = self._states(uids).values()
            waiting = [state.row.id for state in states if state.row is not None and self._has_excluded(state)]
            with self._store.catalog.writing() as connection:
                for number in waiting:
                    read_again(connection, number)

    def _has_excluded(self, state: SessionState) -> bool:
        present = self._present(state)
        return any(s.path_key in self._scan.found and s.path_key not in present for s in state.sources)

    def _can_gain(self, work: _Round, uid: str) -> bool:
        """Whether records of the session that are not stored could be read now."""
        if uid in work.unmade:
            return False
        if (met := _met_all(work.results.get(uid))) is not None:
            return met
        state = work.states.get(uid) or self._states([uid])[uid]
        present = self._present(state, work.groups.get(uid, ()))
        return can_read_covered(self._store, state, present) and has_all_files(self._store, state, present)

    def _take(self, work: _Round, task: IngestTask, outcome: Ingested | Exception) -> bool:
        """Keep a worker's result for the commit, or record the session as failed. Returns whether it was kept."""
        uid = task.session_uid
        if isinstance(outcome, RetryLater) or _lacks_room(outcome):  # not the session's failure: it stays news
            reason = _reason(outcome) if isinstance(outcome, OSError) else str(outcome)
            self._report.problems += [(file.shown, reason) for file in task.files]
            work.results.pop(uid, None)
            return False
        if not isinstance(outcome, Ingested):
            reason = _reason(outcome)
        else:
            result = self._with_what_is_kept(work, task, outcome)
            if result.digest is not None or not is_derived_now_or_never(work.states[uid], result):
                work.results[uid] = result
                return True
            discard(self._store, result)
            reason = result.failure or "no digest was made"
        work.results.pop(uid, None)
        self._failed(task, reason, work)
        return False

    def _with_what_is_kept(self, work: _Round, task: IngestTask, outcome: Ingested) -> Ingested:
        """The result, merged with the kept digest. Without a digest if it cannot be derived later, and fails now."""
        state = work.states[task.session_uid]
        if not outcome.task.merges and not is_derived_now_or_never(state, outcome):
            return outcome
        try:
            result = merge_into_kept(self._store, state, outcome) if outcome.task.merges else outcome
        except Exception as exc:  # noqa: BLE001 - any error is this session's failure
            return replace(outcome, digest=None, failure=f"{type(exc).__name__} while it was merged into its digest")
        fault = fault_of(self._store, result)
        return replace(result, digest=None, failure=fault) if fault else result

    def _remake(self, work: _Round, wanted: Mapping[str, Wanted]) -> None:
        """Rewrite sessions because their share of common history changed."""
        work.states |= self._states([uid for uid in wanted if uid not in work.states])
        tasks = []
        for uid, want in wanted.items():
            state, first = work.states[uid], work.results.get(uid)
            present = self._present(state, work.groups.get(uid, ()))
            is_gone = not has_all_files(self._store, state, present)
            was_read = first is not None and first.task.earlier is not None
            if not was_read and (
                (want.not_ours < state.not_ours and is_gone) or not can_read_covered(self._store, state, present)
            ):
                continue  # what it would regain, or the rest of it, can no longer be read: it stays as it is
            if first is not None:
                discard(self._store, first)
            task = plan_remake(self._store, state, present)
            tasks.append(replace(task, not_ours=want.not_ours, foreign_messages=want.foreign_messages))
        again = []
        for task, outcome in self._pool.run(self._with_opened(tasks)):
            row = work.states[task.session_uid].row
            if self._take(work, task, outcome):
                again += self._without_giving_up(work, task)
            elif row is not None:
                work.unmade.add(task.session_uid)
                with self._store.catalog.writing() as connection:
                    read_again(connection, row.id)  # its files have no news, but it counts what belongs to another
        for task, outcome in self._pool.run(self._with_opened(again)):
            self._take(work, task, outcome)

    def _without_giving_up(self, work: _Round, task: IngestTask) -> list[IngestTask]:
        """The task to try instead if the digest fails: the session keeps all that its kept digest counts."""
        row, result = work.states[task.session_uid].row, work.results[task.session_uid]
        if row is None or result.digest is not None:
            return []
        with self._store.catalog.reading() as connection:
            counted = keys_of(connection, row.id)
        if counted is None or counted.all.isdisjoint(task.not_ours):
            return []
        discard(self._store, result)
        work.unmade.add(task.session_uid)
        hash64 = hasher(self._store.key)
        theirs = {name for name in task.foreign_messages if message_key(hash64, name) not in counted.messages}
        return [
            replace(
                task,
                not_ours=task.not_ours - counted.all,
                foreign_messages=frozenset(theirs),
                no_digest_because=result.failure,
            )
        ]

    def _redact_texts(self) -> None:
        """Bring the texts of stored sessions to the rules in force, a limited part of them, before news is read."""
        with self._store.catalog.writing() as connection:
            sessions.pass_without_rows(connection, self._store.rules_version)
        rows = unredacted_sessions(self._store, self._clock(), self._only)
        sizes = accumulate(row.raw_bytes for row in rows)
        now = [row for row, size in zip(rows, sizes, strict=True) if size <= RESCAN_BYTES or size == row.raw_bytes]
        self._rederive([row.session_uid for row in now])
        self._redacted_again += len(now)

    def _follow_rules(self, was_settled: bool) -> None:
        """Derive again what was derived by older code, or not at all. Evicted sessions keep their digest.

        If no session was stale before, only those of this sweep can be.
        """
        touched = self._report.touched  # deriving some again may touch those that share history with them
        if self._natives is None:
            among = set(touched) if was_settled else None
            stale = stale_sessions(self._store, self._clock(), self._only, among)
            self._rederive([row.session_uid for row in stale])
        if self._natives is None or was_settled:
            with self._store.catalog.writing() as connection:
                note_settled(self._store, connection, touched if was_settled else None)

    def _rederive(self, uids: Sequence[str]) -> None:
        """Derive sessions again from what is stored of them, in this order."""
        for start in range(0, len(uids), REDERIVE_AT_ONCE):
            states = self._states(uids[start : start + REDERIVE_AT_ONCE])
            tasks = []
            for state in states.values():
                if state.row is None:
                    continue
                if not can_read_covered(self._store, state, self._present(state)):
                    try:
                        tasks += self._derived_without_texts(state, state.row)
                    except StoreError as exc:
                        self._fail_unread(state, (), exc)
                elif was_evicted(state):
                    tasks.append(plan_remake(self._store, state, self._present(state)))
                else:
                    is_stale = self._is_from_old_rules(state.row)
                    tasks.append(plan_rederivation(self._store, state, reparse=is_stale))
            self._finish(_Round(self._pool.start(self._with_opened(tasks)), states, {}))

    def _derived_without_texts(self, state: SessionState, row: Row) -> list[IngestTask]:
        """The tasks for a session whose texts are gone for good; new derivation rules need only its rows."""
        if row.redaction_version != self._store.rules_version:
            from helix_assets.sweep.rescan import redact_rows

            redact_rows(self._store, row, state.parts)
        elif row.parser_version == ADAPTERS[row.flavor].version and has_all_rows(state):
            return [plan_rederivation(self._store, state, reparse=False)]
        elif row.derived_generation == row.generation:
            # It keeps its digest, like an evicted one. It counts as up to date, or it would never be evicted.
            versions = {"parser_version": ADAPTERS[row.flavor].version, "derivation_version": DIGEST_VERSION}
            with self._store.catalog.writing() as connection:
                sessions.change(connection, row.id, **versions)
        else:
            return [plan_remake(self._store, state, {})]  # its rows were stored while no digest could be made
        return []

    def _is_from_old_rules(self, row: Row) -> bool:
        """Whether the stored records must be read again, because the parser or the redaction rules changed."""
        return bool(
            row.parser_version != ADAPTERS[row.flavor].version or row.redaction_version != self._store.rules_version
        )

    # -- reporting what happened -------------------------------------------------------------------------------------

    def _failed(self, task: IngestTask, reason: str, work: _Round) -> None:
        """Record one session as failed, to be retried later; the others continue."""
        shown = [file.shown for file in task.files] or [task.session_uid]
        self._report.problems += [(name, reason) for name in shown]
        self._report.sessions_failed += 1
        known = {source.path_key for source in work.states[task.session_uid].sources}
        for candidate in work.groups.get(task.session_uid, ()):
            if candidate.path_key not in known:
                self._skip(candidate, task.flavor, "failed", None)
        self._note_skipped()
        with self._store.catalog.writing() as connection:
            rows = problem_rows(
                self._store,
                task.flavor,
                [Problem(f.shown, reason) for f in task.files],
                {f.shown: f.path_key for f in task.files},
                self._now(),
            )
            problems.put(connection, rows)
            keys = [file.path_key for file in task.files]
            retries.note_failure(connection, task.session_uid, path_keys=keys, failure=reason, now=self._clock())

    def _count(self, work: _Round, done: Committed) -> None:
        report, results = self._report, work.results
        for uid, result in results.items():
            row = work.states[uid].row
            self._redacted_again += row is not None and row.redaction_version != self._store.rules_version
            report.files_opened += len(result.task.files)
            report.rows_rederived += sum(part.row_count for part in work.states[uid].parts) if result.digest else 0
            report.lines_read += result.lines
            report.bytes_read += result.bytes_read
            report.redactions += result.redactions
            report.records_withheld += result.withheld
            report.problems += [(p.path, _where(p)) for p in result.problems]
            report.records_unparsed += result.bad_lines
        report.touched |= results.keys()
        report.sessions_touched = len(report.touched)
        report.bytes_written += done.bytes_written
        report.digests_written += done.digests
        report.digests_failed += len(done.failed)
        report.problems += [(uid, results[uid].failure or "no digest was made") for uid in done.failed]
        report.partitions |= done.partitions

    def _note_sweep(self, started: datetime) -> None:
        """Store the sweep's numbers, unless it found nothing new."""
        report = self._report
        if not (report.touched or report.files_changed or report.files_gone or report.files_skipped):
            return
        policy = self._store.settings.retention
        with self._store.catalog.writing() as connection:
            sweeps.put(
                connection,
                started_at=iso(microseconds(started)),
                ended_at=self._now(),
                seconds=report.seconds,
                counters=report.counters(),
                raw_bytes=live_files.raw_usage(connection),
                soft_cap_bytes=policy.raw_soft_cap_bytes,
                hard_cap_bytes=policy.raw_hard_cap_bytes,
            )

    def _note_exclusions(self) -> None:
        """Remember which exclusions were applied: when they change, excluded files are checked again."""
        is_whole = self._only is None and self._natives is None
        if is_whole and self._are_exclusions_new:
            with self._store.catalog.writing() as connection:
                meta.put(connection, EXCLUSIONS, exclusions_of(self._store))

    @property
    def _are_exclusions_new(self) -> bool:
        return self._scan.known.meta.get(EXCLUSIONS) != exclusions_of(self._store)

    def _now(self) -> str:
        return iso(microseconds(self._clock())) or ""


def _met_all(result: Ingested | None) -> bool | None:
    """Whether all that an evicted session counts was read; None if it was not read, or not evicted."""
    return None if result is None or result.task.earlier is None else not result.task.merges


def _bytes_of(groups: Mapping[str, list[Candidate]]) -> int:
    return sum(c.file.size for group in groups.values() for c in group)


def _lacks_room(outcome: Ingested | Exception) -> bool:
    return isinstance(outcome, OSError) and outcome.errno in (errno.ENOSPC, errno.EDQUOT)


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        where = f" in {error.filename}" if error.filename else ""
        return f"cannot be stored{where}: {error.strerror}"
    return f"{type(error).__name__}: {error}" if isinstance(error, HelixError) else type(error).__name__


def _where(problem: Problem) -> str:
    return problem.reason if problem.line is None else f"line {problem.line}: {problem.reason}"
