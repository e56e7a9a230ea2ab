"""Eviction: measures the raw cache, plans, and applies the plan so that a kill at any moment is only a pause.

Belongs here: the steps and their order. First a batch of sessions is marked in the catalog, with a loss record for each
that no digest covers. Then notes are written and files unlinked. Then the catalog records that they are gone. The next
writer finishes what is marked. Not here: which sessions go (`keep.retention`). Digests are never touched.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from helix_assets.ask.coverage import versions
from helix_assets.ask.status import bytes_of
from helix_assets.keep.carry_out import finish_interrupted
from helix_assets.keep.lighten import drop_texts
from helix_assets.keep.notes import write_memory_note
from helix_assets.keep.retention import Decision, EvictionPlan, RawUsage, Reason, RetentionPolicy, plan_eviction
from helix_assets.keep.writing import writing
from helix_assets.model.days import DayMark, days_since
from helix_assets.model.time import EPOCH, iso, microseconds
from helix_assets.store.catalog import live_files, losses, sessions
from helix_assets.store.catalog.catalog import index_bytes
from helix_assets.store.catalog.connection import Connection
from helix_assets.store.catalog.day_marks import count_day, read_marks
from helix_assets.store.catalog.pages import shrink, truncate_log
from helix_assets.store.catalog.retries import end_pauses
from helix_assets.store.catalog.session_keys import recorded
from helix_assets.store.counted import put_unrecorded
from helix_assets.store.reserve import give_up_reserve
from helix_assets.store.words.keep import keep_up

if TYPE_CHECKING:
    from helix_assets.settings.model import RetentionSettings
    from helix_assets.store.store import Store

_MARGIN = 1.1
"""How much more than usual the next batch may take on disk."""
_ROUNDS = 4
"""How often to evict more if the search index shrank less than planned, because it gained the words of digests."""
AT_ONCE = 50
"""Sessions marked and finished together: few enough that a full disk still has room for the catalog's log."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Evicted:
    """What an eviction did. `stuck` names sessions whose files cannot be deleted yet; the next writer tries again."""

    plan: EvictionPlan
    gone: tuple[Decision, ...]
    stuck: tuple[str, ...]
    usage_after: int
    notes: tuple[Path, ...]

    @property
    def losses(self) -> tuple[Decision, ...]:
        return tuple(decision for decision in self.gone if decision.is_loss)

    @property
    def bytes_freed(self) -> int:
        return sum(decision.bytes for decision in self.gone)

    def to_dict(self) -> dict[str, Any]:
        """What was done and the plan it came from, as plain data."""
        return {
            "gone": [asdict(decision) for decision in self.gone],
            "bytes_freed": self.bytes_freed,
            "usage_after": self.usage_after,
            "losses": [decision.session_uid for decision in self.losses],
            "stuck": list(self.stuck),
            "notes": [str(note) for note in self.notes],
            "plan": self.plan.figures(),
        }

    def by_partition(self) -> dict[tuple[str, str], list[Decision]]:
        """What went, by flavor and day."""
        found: dict[tuple[str, str], list[Decision]] = {}
        for decision in self.gone:
            found.setdefault((decision.flavor, decision.day), []).append(decision)
        return found


def policy_of(settings: RetentionSettings) -> RetentionPolicy:
    """The caps as the settings say."""
    return RetentionPolicy(
        soft_cap_bytes=settings.raw_soft_cap_bytes,
        hard_cap_bytes=settings.raw_hard_cap_bytes,
        max_age_days=settings.raw_max_age_days,
        distilled_cap_bytes=settings.distilled_cap_bytes,
    )


# -- planning --------------------------------------------------------------------------------------------------------


def plan(
    store: Store, *, now: datetime, policy: RetentionPolicy | None = None, allow_loss: bool = False
) -> EvictionPlan:
    """What would go now and why. Reads only; needs no lock."""
    with store.catalog.reading() as connection:
        marks = read_marks(connection)
        return plan_eviction(
            _usages(connection, marks, now),
            policy or policy_of(store.settings.retention),
            now,
            last_sweep_at=marks[-1].at if marks else None,
            allow_loss=allow_loss,
            memory_bytes=memory_bytes(store, connection),
            index_bytes=index_bytes(store.data_dir),
        )


def _usages(connection: Connection, marks: Sequence[DayMark], now: datetime) -> list[RawUsage]:
    """Every session with bytes in the raw cache that is not marked for eviction already."""
    return [
        RawUsage(
            session_uid=row.session_uid,
            flavor=row.flavor,
            day=row.day,
            bytes=int(row.bytes),
            records=int(row.records),
            text_bytes=int(row.text_bytes),
            generation=row.generation,
            is_covered=bool(row.is_covered),
            ingest_order=row.ingest_order,
            ingested_at=datetime.fromisoformat(row.ingested_at),
            analyzed_order=row.analyze_order,
            ended_at=_moment(row.ended_us),
            is_pinned=row.is_pinned,
            counted_days=days_since(marks, row.ingest_order, now),
        )
        for row in live_files.usage_by_session(connection, versions())
    ]


def _moment(us: int | None) -> datetime | None:
    try:
        return None if us is None else EPOCH + timedelta(microseconds=us)
    except OverflowError:
        return None


def memory_bytes(store: Store, connection: Connection) -> int:
    """Bytes on disk of Tier 2: the catalog with its write-ahead log, and the facts as the catalog names them."""
    catalog = store.catalog.path
    paths = [catalog, catalog.with_name(catalog.name + "-wal")]
    return live_files.fact_bytes(connection) + bytes_of(paths)


# -- applying --------------------------------------------------------------------------------------------------------


def apply(  # noqa: PLR0913 - all but the store are options, named at the call
    store: Store,
    *,
    clock: Callable[[], datetime],
    policy: RetentionPolicy | None = None,
    allow_loss: bool = True,
    analyze: Callable[[], object] | None = None,
    is_lock_held: bool = False,
) -> Evicted:
    """Evict what the plan says.

    If the raw cache is over the hard cap and uncovered sessions are left, their pauses end, `analyze` is called and a
    new plan is made. Only then, and only with `allow_loss`, may any of them go. `analyze` runs under the caller's lock
    if that is held, else without one, so that it may be a sweep.
    """

    def lock() -> AbstractContextManager[None]:
        return nullcontext() if is_lock_held else writing(store, "evict")

    give_up_reserve(store.data_dir)
    with lock():
        first, dropped = _plan_and_drop(store, clock, policy, allow_loss=False)
    if first.must_analyze and analyze is not None:
        with lock(), store.catalog.writing() as connection:
            end_pauses(connection, first.must_analyze, clock())
        analyze()
        with lock():
            _, more = _plan_and_drop(store, clock, policy, allow_loss=allow_loss)
        dropped = _Dropped(dropped.decisions + more.decisions, dropped.notes + more.notes)
    return _result(store, first, dropped)


def _plan_and_drop(
    store: Store, clock: Callable[[], datetime], policy: RetentionPolicy | None, *, allow_loss: bool
) -> tuple[EvictionPlan, _Dropped]:
    made = again = plan(store, now=clock(), policy=policy, allow_loss=allow_loss)
    dropped = _drop(store, made.goes, clock())
    for _ in range(_ROUNDS):
        if not again.goes or not again.index_bytes:
            break
        again = plan(store, now=clock(), policy=policy)
        more = _drop(store, again.goes, clock())
        dropped = _Dropped(dropped.decisions + more.decisions, dropped.notes + more.notes)
    count_day(store.catalog, clock())  # after the plan: a clock that jumped must not confirm itself
    shrink(store.catalog)
    truncate_log(store.catalog)
    with store.catalog.reading() as connection:
        report_memory_over_cap(store, connection, clock())
    return made, dropped


def report_memory_over_cap(store: Store, connection: Connection, now: datetime) -> None:
    """Write a hub note and a log line, once a day, while Tier 2 is over its cap. Needs the writer lock."""
    used, cap = memory_bytes(store, connection), store.settings.retention.distilled_cap_bytes
    if used > cap and (note := write_memory_note(store.data_dir, iso(microseconds(now)) or "", used, cap)):
        _log.warning(
            "session_memory.over_cap: digests and facts take %d bytes, %d are allowed: see %s", used, cap, note
        )


def _result(store: Store, made: EvictionPlan, dropped: _Dropped) -> Evicted:
    with store.catalog.reading() as connection:
        stuck = frozenset(row.session_uid for row in sessions.being_evicted(connection))
        usage = live_files.raw_usage(connection)
    return Evicted(
        plan=made,
        gone=tuple(decision for decision in dropped.decisions if decision.session_uid not in stuck),
        stuck=tuple(sorted(stuck)),
        usage_after=usage,
        notes=tuple(dict.fromkeys(dropped.notes)),
    )


def make_room(store: Store, stored: int, source_bytes: int, *, clock: Callable[[], datetime]) -> tuple[Decision, ...]:
    """Evict covered sessions if storing so many more bytes of sources would exceed the hard cap.

    `stored` are the bytes of the raw cache. Called by a sweep between two batches; the caller holds the lock. Age and
    soft cap are left to the eviction job.
    """
    policy = policy_of(store.settings.retention)
    if stored + source_bytes <= policy.hard_cap_bytes:
        return ()
    with store.catalog.reading() as connection:
        # Only sessions with texts: light rows would make the next batch look too small.
        kept, read = sessions.bytes_with_texts(connection)
        ahead = int(source_bytes * min(1.0, _MARGIN * kept / read)) if read else source_bytes
        if not stored or stored + ahead <= policy.hard_cap_bytes:
            return ()
        tight = replace(policy, soft_cap_bytes=max(1, policy.hard_cap_bytes - ahead))
        goes = plan_eviction(_usages(connection, (), clock()), tight, clock()).goes
    return _drop(store, goes, clock()).decisions


class _Dropped(NamedTuple):
    """What went, with the bytes that it freed, and the notes written."""

    decisions: tuple[Decision, ...]
    notes: tuple[Path, ...]


def _drop(store: Store, goes: Sequence[Decision], now: datetime) -> _Dropped:
    """Drop texts, then whole files, batch by batch."""
    at = iso(microseconds(now)) or ""
    texts = [decision for decision in goes if decision.keeps_rows]
    whole = [decision for decision in goes if not decision.keeps_rows]
    freed: dict[str, int] = {}
    for start in range(0, len(texts), AT_ONCE):
        light = drop_texts(store, texts[start : start + AT_ONCE], at)
        freed |= light.freed
        whole += [replace(decision, reason=Reason.OVER_SOFT_CAP, keeps_rows=False) for decision in light.failed]
    notes: list[Path] = []
    for start in range(0, len(whole), AT_ONCE):
        _mark_batch(store, whole[start : start + AT_ONCE], at)
        notes += finish_interrupted(store)
    if goes:
        keep_up(store, changed=True)
    done = {one.session_uid: replace(one, bytes=freed[one.session_uid]) for one in texts if one.session_uid in freed}
    done |= {one.session_uid: one for one in whole}
    return _Dropped(tuple(done[one.session_uid] for one in goes), tuple(notes))


def _mark_batch(store: Store, goes: Sequence[Decision], at: str) -> None:
    """Mark in the catalog what will go. From here on it is certain to go."""
    with store.catalog.writing() as connection:
        rows = sessions.by_uid(connection, [decision.session_uid for decision in goes])
        parts = live_files.parts_of(connection, [row.id for row in rows.values()])
        covered = {row.id: row for one in goes if not one.is_loss and (row := rows[one.session_uid]).id in parts}
        for number in covered.keys() - recorded(connection, covered):
            put_unrecorded(store, connection, covered[number], parts[number])
        for decision in goes:
            if decision.is_loss:
                losses.put_loss(
                    connection,
                    at=at,
                    session_uid=decision.session_uid,
                    flavor=decision.flavor,
                    day=decision.day,
                    bytes=decision.bytes,
                    records=decision.records,
                    generation=decision.generation,
                    reason=decision.reason.value,
                )
            sessions.mark_evicting(connection, decision.session_uid, decision.generation, at, decision.reason.value)
