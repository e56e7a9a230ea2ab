"""Rounds of sessions: each is planned, read by the workers, settled with those that share its history, and committed.

Belongs here: what one round does, and which batches there are. Not here: which files and sessions those are
(`sweep.found_files`, `sweep.sweep`), reading and deriving one session (`sweep.read`), who owns shared history
(`sweep.settle`), writing (`sweep.commit`).
"""

from __future__ import annotations

import errno
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from helix_assets.agents import ADAPTERS
from helix_assets.keep.evict import make_room
from helix_assets.model.errors import HelixError, Problem, RetryLater, StoreError
from helix_assets.model.event import DIGEST_VERSION
from helix_assets.store.catalog import ledger, live_files, meta, problems, retries, sessions, sources
from helix_assets.store.catalog.connection import Connection, Row
from helix_assets.store.catalog.problems import problem_rows
from helix_assets.store.catalog.session_keys import keys_of, message_key
from helix_assets.store.catalog.sources import read_again
from helix_assets.store.key import hasher
from helix_assets.store.words.keep import AT_ONCE_BYTES, keep_up
from helix_assets.sweep.commit import NO_PARSER, Batch, Committed, commit_batch, discard, fault_of
from helix_assets.sweep.found_files import Files
from helix_assets.sweep.in_thread import LeftError, SmallNews, ThreadWorkers
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
from helix_assets.sweep.pricing import Prices
from helix_assets.sweep.settle import Shares, Standing, Wanted, settle
from helix_assets.sweep.sweep_report import Progress
from helix_assets.sweep.task import Ingested, IngestTask, Limits, Workshop
from helix_assets.sweep.warm import Warm
from helix_assets.sweep.workers import TASK_BYTES, Work, Workers

if TYPE_CHECKING:
    from helix_assets.store.words.hashing import Words

REDERIVE_AT_ONCE = 500


@dataclass
class _Round:
    """Sessions that are read and committed together. `unmade` are those that could not be rewritten."""

    running: Work
    states: dict[str, SessionState]
    groups: dict[str, list[Candidate]]
    results: dict[str, Ingested] = field(default_factory=dict)
    unmade: set[str] = field(default_factory=set)


class Rounds:
    """All rounds of one sweep. `only` limits them to sessions of these (flavor, day) partitions and to new ones."""

    def __init__(  # noqa: PLR0913, PLR0917 - as `sweep`
        self,
        files: Files,
        progress: Progress,
        prices: Prices,
        only: Collection[tuple[str, str]] | None,
        warm: Warm | None,
        small: SmallNews | None,
    ) -> None:
        self._small = small
        self._files, self._progress, self._prices, self._warm = files, progress, prices, warm
        self._store, self._clock, self._report = files.store, files.clock, files.report
        self._only = only
        self._workers: Workers | ThreadWorkers | None = None
        self.order = files.scan.known.meta.get(meta.ORDER)
        """The last number in the order of work."""
        self.behind: set[str] = set()
        """Sessions that were committed without a digest of all their rows."""
        self.redacted_again = 0
        """How many stored sessions got new redaction rules."""
        self.words: dict[str, Sequence[Words]] = {}
        """The words of new part files that the search index lacks."""
        self._words_of_bytes = 0

    def close(self) -> None:
        """End the worker processes."""
        if self._workers:
            self._workers.close()

    def ingest(self, groups: dict[str, list[Candidate]]) -> None:
        """Ingest batch by batch. While one is committed the workers read the next, if neither affects the other."""
        before: _Round | None = None
        for batch in self._batches(groups):
            stored, states = self._stored(batch)
            if before is not None and not self._may_overlap(before, batch, stored, states):
                self._finish(before)
                before = None
                stored, states = self._stored(batch)
            if make_room(self._store, stored, bytes_of(batch), clock=self._clock):
                states = self._states(batch)
            work = self._begin(batch, states)
            if before is not None:
                self._finish(before)
            before = work
        if before is not None:
            self._finish(before)

    def rederive(self, uids: Sequence[str], *, reparse: bool = False) -> None:
        """Derive sessions again from what is stored of them, in this order.

        Their records are parsed again if the parser is another one, or with `reparse`.
        """
        for start in range(0, len(uids), REDERIVE_AT_ONCE):
            states = self._states(uids[start : start + REDERIVE_AT_ONCE])
            tasks = []
            for state in states.values():
                if state.row is None:
                    continue
                if not can_read_covered(self._store, state, self._files.present(state)):
                    try:
                        tasks += self._derived_without_texts(state, state.row)
                    except StoreError as exc:
                        self._fail_unread(state, (), exc)
                elif was_evicted(state):
                    tasks.append(plan_remake(self._store, state, self._files.present(state)))
                else:
                    is_stale = reparse or self._is_from_old_rules(state.row)
                    tasks.append(plan_rederivation(self._store, state, reparse=is_stale))
            self._finish(_Round(self._pool.start(self._files.with_opened(tasks)), states, {}))

    @property
    def _pool(self) -> Workers | ThreadWorkers:
        if self._workers is None:
            store = self._store
            settings = store.settings.sweep
            limits = Limits(settings.session_seconds, settings.worker_memory_bytes)
            is_indexed = store.settings.search.index == "on"
            shop = Workshop(
                store.key, store.redactor, str(store.raw.staging), store.settings.places, limits, is_indexed
            )
            small = self._small
            self._workers = small.workers(shop) if small else Workers(shop, settings.workers, store.prepare_engine)
        return self._workers

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

    def _may_overlap(
        self, before: _Round, batch: dict[str, list[Candidate]], stored: int, states: Mapping[str, SessionState]
    ) -> bool:
        """Whether all sessions of a batch are new, so that its plan cannot change, and there is room for both."""
        ahead = stored + bytes_of(before.groups) + bytes_of(batch)
        is_new = all(state.row is None for state in states.values())
        return is_new and ahead <= self._store.settings.retention.raw_hard_cap_bytes

    def _begin(self, groups: dict[str, list[Candidate]], states: dict[str, SessionState]) -> _Round:
        """Plan a batch and pass it to the workers."""
        tasks = []
        for uid, changed in groups.items():
            state = states[uid]
            if not self._is_wanted(state):
                continue
            if self._small and not self._small.wants(uid, [source.path_key for source in state.sources]):
                self._report.files_changed -= len(changed)
                continue
            try:
                task = plan_session(self._store, state, changed, self._files.present(state, changed))
            except StoreError as exc:
                self._fail_unread(state, changed, exc)
                continue
            if task is not None:
                tasks.append(self._with_derived(state, self._unless_waiting(state, task)))
            reading = {f.path_key for f in task.files} if task else set()
            for candidate in changed:
                if candidate.path_key not in reading:
                    self._files.skip(candidate, state.flavor, "superseded", None)
        self._files.note_skipped()
        return _Round(self._pool.start(self._files.with_opened(tasks)), states, groups)

    def _unless_waiting(self, state: SessionState, task: IngestTask) -> IngestTask:
        """The task; before the retry of a failed session its new records are stored, but not derived."""
        row = state.row
        if row is None or task.earlier is not None or not retries.is_waiting(row, self._clock()):
            return task
        return replace(task, no_digest_because=row.failure, is_bare=row.parser_version == NO_PARSER)

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
        for uid, state in self._states(last).items() if last else ():
            last[uid].facts = done.facts.get(uid)
            self._warm.put(state, self._rules(state), last[uid])

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
        with self._store.catalog.reading() as connection:
            return states_of(connection, uids)

    def _stored(self, uids: Collection[str]) -> tuple[int, dict[str, SessionState]]:
        """The bytes of the raw cache, and what is known of these sessions, at one moment."""
        with self._store.catalog.reading() as connection:
            return live_files.raw_usage(connection), states_of(connection, uids)

    def _finish(self, work: _Round) -> None:
        """Wait for a round of sessions, settle what they share, commit."""
        for task, outcome in self._pool.results(work.running):
            self._take(work, task, outcome)
            self._progress.advance(sum(c.file.size for c in work.groups.get(task.session_uid, ())), task.session_uid)
        try:
            shares = self._settled(work)
        except LeftError as exc:  # what they share would take too much: all of them stay as they are
            for uid in list(work.results):
                self._leave(work, uid, str(exc))
            return
        mtimes = {c.path_key: c.file.mtime_ns // 1000 for group in work.groups.values() for c in group}
        self._read_when_allowed(shares.stuck)
        batch = Batch(
            work.results, work.states, shares, self._prices, self._files.scan.known.forgotten, self._clock(), mtimes
        )
        done = commit_batch(self._store, batch)
        self.order = str(done.order)
        self._keep_derived(work.results, done)
        self._count(work, done)
        self._index(done)

    def _settled(self, work: _Round) -> Shares:
        """Decide who owns what several sessions hold, and rewrite sessions until all agree."""
        ids = {uid: s.row.id for uid, s in work.states.items() if s.row is not None and s.shares_keys}
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
        return shares

    def _leave(self, work: _Round, uid: str, reason: str) -> None:
        """Leave a session as it is, for a sweep in a process of its own."""
        if self._small:
            self._small.leave([uid], reason)
        self._report.files_changed -= len(work.groups.get(uid, ()))
        work.results.pop(uid, None)

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
        present = self._files.present(state, work.groups.get(uid, ()))
        return state.row is not None and not can_read_covered(self._store, state, present)

    def _read_when_allowed(self, uids: Collection[str]) -> None:
        """Note that sessions with excluded files are read from the start when these are no longer excluded."""
        if self._files.exclusions and uids:
            states = self._states(uids).values()
            waiting = [state.row.id for state in states if state.row is not None and self._files.has_excluded(state)]
            with self._store.catalog.writing() as connection:
                for number in waiting:
                    read_again(connection, number)

    def _can_gain(self, work: _Round, uid: str) -> bool:
        """Whether records of the session that are not stored could be read now."""
        if uid in work.unmade:
            return False
        if (met := _met_all(work.results.get(uid))) is not None:
            return met
        state = work.states.get(uid) or self._states([uid])[uid]
        present = self._files.present(state, work.groups.get(uid, ()))
        return can_read_covered(self._store, state, present) and has_all_files(self._store, state, present)

    def _take(self, work: _Round, task: IngestTask, outcome: Ingested | Exception) -> bool:
        """Keep a worker's result for the commit, or record the session as failed. Returns whether it was kept."""
        uid = task.session_uid
        if isinstance(outcome, LeftError):
            self._leave(work, uid, str(outcome))
            return False
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
        fault = fault_of(self._prices, result)
        return replace(result, digest=None, failure=fault) if fault else result

    def _remake(self, work: _Round, wanted: Mapping[str, Wanted]) -> None:
        """Rewrite sessions because their share of common history changed."""
        work.states |= self._states([uid for uid in wanted if uid not in work.states])
        tasks = []
        for uid, want in wanted.items():
            state, first = work.states[uid], work.results.get(uid)
            present = self._files.present(state, work.groups.get(uid, ()))
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
        for task, outcome in self._pool.run(self._files.with_opened(tasks)):
            row = work.states[task.session_uid].row
            if self._take(work, task, outcome):
                again += self._without_giving_up(work, task)
            elif row is not None:
                work.unmade.add(task.session_uid)
                with self._store.catalog.writing() as connection:
                    read_again(connection, row.id)  # its files have no news, but it counts what belongs to another
        for task, outcome in self._pool.run(self._files.with_opened(again)):
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

    def _failed(self, task: IngestTask, reason: str, work: _Round) -> None:
        """Record one session as failed, to be retried later; the others continue."""
        shown = [file.shown for file in task.files] or [task.session_uid]
        self._report.problems += [(name, reason) for name in shown]
        self._report.sessions_failed += 1
        known = {source.path_key for source in work.states[task.session_uid].sources}
        for candidate in work.groups.get(task.session_uid, ()):
            if candidate.path_key not in known:
                self._files.skip(candidate, task.flavor, "failed", None)
        self._files.note_skipped()
        with self._store.catalog.writing() as connection:
            rows = problem_rows(
                self._store,
                task.flavor,
                [Problem(f.shown, reason) for f in task.files],
                {f.shown: f.path_key for f in task.files},
                self._files.now(),
            )
            problems.put(connection, rows)
            keys = [file.path_key for file in task.files]
            retries.note_failure(connection, task.session_uid, path_keys=keys, failure=reason, now=self._clock())

    def _count(self, work: _Round, done: Committed) -> None:
        report, results = self._report, work.results
        for uid, result in results.items():
            row = work.states[uid].row
            self.redacted_again += row is not None and row.redaction_version != self._store.rules_version
            report.files_opened += len(result.task.files)
            report.rows_rederived += sum(part.row_count for part in work.states[uid].parts) if result.digest else 0
            report.lines_read += result.lines
            report.bytes_read += result.bytes_read
            report.redactions += result.redactions
            report.records_withheld += result.withheld
            report.problems += [(p.path, _where(p)) for p in result.problems]
            report.records_unparsed += result.bad_lines
            if result.digest is None or result.task.is_bare:
                self.behind.add(uid)
        report.touched |= results.keys()
        report.sessions_touched = len(report.touched)
        report.bytes_written += done.bytes_written
        report.digests_written += done.digests
        report.digests_failed += len(done.failed)
        report.problems += [(uid, results[uid].failure or "no digest was made") for uid in done.failed]
        report.partitions |= done.partitions


def states_of(connection: Connection, uids: Collection[str]) -> dict[str, SessionState]:
    """What the catalog knows of these sessions."""
    rows = sessions.by_uid(connection, uids)
    ids = [row.id for row in rows.values()]
    parts, files = live_files.parts_of(connection, ids), sources.of_sessions(connection, ids)
    foreign: dict[int, list[ledger.Shared]] = {}
    for one in (shared := ledger.shared_with(connection, ids)):
        if one.session_id != one.owner_id:
            foreign.setdefault(one.session_id, []).append(one)
    sharing = {one.session_id for one in shared}
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
            shares_keys=row is not None and row.id in sharing,
        )
    return states


def _met_all(result: Ingested | None) -> bool | None:
    """Whether all that an evicted session counts was read; None if it was not read, or not evicted."""
    return None if result is None or result.task.earlier is None else not result.task.merges


def bytes_of(groups: Mapping[str, list[Candidate]]) -> int:
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
