"""The only way of data into the store: look, read, derive, in limited batches, each committed as a whole.

A sweep of all agents, of a Dagster partition, and of sessions named by hooks all run here. Belongs here: the order of
steps, and what a sweep notes for the next one. Not here: which files it reads (`sweep.found_files`), what it does with
sessions (`sweep.rounds`), deleting raw bytes (`keep.evict`).
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate

from helix_assets.hooks.inbox import read_notes, take_in
from helix_assets.keep.backup import back_up_if_due
from helix_assets.keep.evict import report_memory_over_cap
from helix_assets.keep.writing import writing
from helix_assets.model.days import next_mark
from helix_assets.model.time import iso, microseconds
from helix_assets.store.catalog import day_marks, ledger, live_files, meta, retries, sessions, sweeps
from helix_assets.store.catalog.connection import Connection
from helix_assets.store.catalog.pages import truncate_log
from helix_assets.store.lock import WAIT_S
from helix_assets.store.store import MEMORY_REDACTED, RULES_STAMP, Store
from helix_assets.store.words.keep import keep_up
from helix_assets.sweep.commit import fold_facts
from helix_assets.sweep.found_files import Clock, Files
from helix_assets.sweep.in_thread import WAIT_S as SMALL_WAIT_S
from helix_assets.sweep.in_thread import SmallNews
from helix_assets.sweep.look import EXCLUSIONS, Scan, exclusions_of, no_collection, scan
from helix_assets.sweep.placing import PLACED_WITH, is_placed, place_again, places_mark
from helix_assets.sweep.plan import Candidate
from helix_assets.sweep.pricing import Prices, reprice
from helix_assets.sweep.rounds import Rounds, bytes_of
from helix_assets.sweep.stale import code_versions, is_settled, settled, stale_sessions, unredacted_sessions
from helix_assets.sweep.sweep_report import Progress, SweepReport
from helix_assets.sweep.warm import Warm
from helix_assets.sweep.workers import IN_PLACE_BYTES

RESCAN_BYTES = 256 << 20
"""How many bytes of stored sessions one sweep brings to new redaction rules."""


@dataclass(frozen=True)
class Again:
    """Sessions to derive again, and nothing else. With `reparse` their records are parsed again in any case."""

    uids: Sequence[str]
    reparse: bool


def utc_now() -> datetime:
    """The clock of every entry point; tests pass their own."""
    return datetime.now(UTC)


def sweep(  # noqa: PLR0913 - each is a choice of who sweeps
    store: Store,
    *,
    clock: Clock = utc_now,
    progress: Progress | None = None,
    only: Collection[tuple[str, str]] | None = None,
    warm: Warm | None = None,
    small: SmallNews | None = None,
    again: Again | None = None,
) -> SweepReport:
    """Read what changed and digest it. Safe to kill, repeat and run while others read.

    `only` limits the work to sessions of these (flavor, day) partitions and to files not yet seen. A process that
    sweeps often passes the same `warm` each time. With `small` news the sweep stays in the calling thread and leaves
    what is too much for one: LeftError if that is all. What is derived `again` is all that is done.
    """
    with writing(store, "sweep", SMALL_WAIT_S if small else WAIT_S):
        run = _Sweep(store, clock, progress or Progress(), only, warm, small, again)
        report = run.run()
        if run.notes:
            take_in(store, run.notes)
        is_changed = bool(report.touched or report.digests_repriced or report.digests_placed)
        keep_up(store, changed=is_changed, words=run.rounds.words)
        with store.catalog.reading() as connection:
            known = meta.every(connection)
            if report.touched:
                report_memory_over_cap(store, connection, clock())
        if not small:
            back_up_if_due(store, clock(), known)
        return report


class _Sweep:
    """One sweep while it holds the writer lock."""

    def __init__(  # noqa: PLR0913, PLR0917 - as above
        self,
        store: Store,
        clock: Clock,
        progress: Progress,
        only: Collection[tuple[str, str]] | None,
        warm: Warm | None,
        small: SmallNews | None,
        again: Again | None,
    ) -> None:
        self._again = again
        self._started, self._began = clock(), time.perf_counter()
        self._store, self._clock, self._progress = store, clock, progress
        self._only = None if only is None else set(only)
        self.notes = read_notes(store.data_dir)
        self._small = small
        self._report = SweepReport()
        self._redacted_again = 0
        found = self._look()
        self._known = found.known
        self._was_settled = found.known.is_empty or is_settled(store, found.known.meta)
        self._prices = Prices(store.settings, found.known.meta)
        self._files = Files(store, clock, self._report, found)
        self.rounds = Rounds(self._files, progress, self._prices, self._only, warm, small)

    def run(self) -> SweepReport:
        known, report = self._known, self._report
        if known.meta.get(retries.TRIED_WITH) != code_versions() and not known.is_empty:
            with self._store.catalog.writing() as connection:
                retries.end_all_pauses(connection, code_versions(), self._clock())
        try:
            self._files.unfold()
            report.files_seen = len(self._files.scan.found)
            if not self._was_settled:
                self._redact_texts()
            groups = self._files.groups() if self._again is None else {}
            if self._small:
                groups = self._small.chosen(groups, self._files.scan)
                report.files_changed = sum(map(len, groups.values()))
            # Otherwise the garbage collector searches all that was found: a fifth of the time of a small sweep.
            with no_collection() if self._was_settled and bytes_of(groups) < IN_PLACE_BYTES else nullcontext():
                self._take_in(groups)
        finally:
            self._files.close()
            self.rounds.close()
        report.seconds = time.perf_counter() - self._began
        self._note_end()
        if self._redacted_again or self.rounds.redacted_again:
            keep_up(self._store, changed=True, words=self.rounds.words)
            truncate_log(self._store.catalog)  # it contains the overwritten texts
        return report

    def _look(self) -> Scan:
        """Which files are there, and which are news. If there are new redaction rules, catalog and facts come first."""
        if self._small:
            return self._small.confirmed()
        store = self._store
        seen = scan(store, self._clock())
        known = seen.known.meta
        store.recall_rules(known)
        if (known.get(MEMORY_REDACTED), known.get(RULES_STAMP)) == (store.rules_version, store.settings.rules_stamp):
            return seen
        from helix_assets.sweep.rescan import redact_memory  # loads the rules

        self._redacted_again = redact_memory(store)
        return scan(store, self._clock())

    def _take_in(self, groups: dict[str, list[Candidate]]) -> None:
        if self._again is None and not self._small:
            self._files.note_gone()
        self._progress.start(bytes_of(groups))
        self.rounds.ingest(groups)
        self._follow_rules()
        if not is_placed(self._store, self._known.meta):
            self._report.digests_placed = place_again(self._store)
        self._report.digests_repriced = reprice(
            self._store, self._prices, self._clock().date(), is_first=self._known.is_empty
        )

    def _redact_texts(self) -> None:
        """Bring the texts of stored sessions to the rules in force, a limited part of them, before news is read."""
        with self._store.catalog.writing() as connection:
            sessions.pass_without_rows(connection, self._store.rules_version)
        rows = unredacted_sessions(self._store, self._clock(), self._only)
        sizes = accumulate(row.raw_bytes for row in rows)
        now = [row for row, size in zip(rows, sizes, strict=True) if size <= RESCAN_BYTES or size == row.raw_bytes]
        self.rounds.rederive([row.session_uid for row in now])
        self._redacted_again += len(now)

    def _follow_rules(self) -> None:
        """Derive again what was derived by older code, or not at all. Evicted sessions keep their digest."""
        if self._again is not None:
            self.rounds.rederive(self._again.uids, reparse=self._again.reparse)
            return
        among = self._may_be_stale()
        stale = stale_sessions(self._store, self._clock(), self._only, among) if among != set() else []
        self.rounds.rederive([row.session_uid for row in stale])

    def _may_be_stale(self) -> set[str] | None:
        """The only sessions that can be stale, None if any can be.

        If none was stale before, these are the sessions of this sweep that were not derived.
        """
        return set(self.rounds.behind) if self._was_settled else None

    def _note_end(self) -> None:
        """Note what the next sweep needs to know, and this one's numbers, unless there is nothing new."""
        report, known = self._report, self._known
        remembered = {**self._prices.to_remember(), retries.TRIED_WITH: code_versions()}
        remembered[PLACED_WITH] = places_mark(self._store.settings.places)
        if self._only is None and self._again is None:  # when they change, excluded files are checked again
            remembered[EXCLUSIONS] = exclusions_of(self._store)
        remembered = dict(remembered.items() - known.meta.items())
        mark = next_mark(known.day, int(self.rounds.order or 0), self._clock())
        is_news = bool(report.touched or report.files_changed or report.files_gone or report.files_skipped)
        may_settle = bool(report.touched) or not self._was_settled
        if not (remembered or mark or is_news or may_settle):
            return
        if mark is not None and not known.is_empty:
            fold_facts(self._store)
        with self._store.catalog.writing() as connection:
            if may_settle:
                remembered |= settled(self._store, connection, self.rounds.order, self._may_be_stale())
            meta.put_all(connection, remembered)
            if mark is not None:
                day_marks.put(connection, mark)
            if is_news:
                ledger.sort_in(connection)
                self._put_numbers(connection)

    def _put_numbers(self, connection: Connection) -> None:
        policy = self._store.settings.retention
        sweeps.put(
            connection,
            started_at=iso(microseconds(self._started)),
            ended_at=self._files.now(),
            seconds=self._report.seconds,
            counters=self._report.counters(),
            raw_bytes=live_files.raw_usage(connection),
            soft_cap_bytes=policy.raw_soft_cap_bytes,
            hard_cap_bytes=policy.raw_hard_cap_bytes,
        )
