"""The facts of a batch, merged into the files of the partitions they belong to: each file is written once per batch.

A session that grows gains a few rows per turn, while its partition has thousands. So a large partition has two files of
each fact: one of settled rows, and a small one of recent rows, which each turn replaces. Where a settled row changed,
or many are recent, the settled file is rewritten. A session's rows are those in the first file, then those in the
second. Belongs here: which files a batch replaces. Not here: the files themselves (`store.fact_files`), or when the
catalog names them (`sweep.commit`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isqrt
from typing import TYPE_CHECKING, Any, NamedTuple

from helix_assets.model.errors import StoreError
from helix_assets.model.facts import FACTS, SessionFactRows
from helix_assets.store import fact_files
from helix_assets.store.catalog import live_files, sessions
from helix_assets.store.fact_files import (
    FactFile,
    SessionRows,
    next_version,
    only,
    rows_of,
    say_the_same,
    without,
)
from helix_assets.store.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

SETTLED_BYTES = 8 << 10
"""Smaller files are always written whole: another file would cost as much."""
Partition = tuple[str, str]


class DerivedSession(NamedTuple):
    """A session with newly derived facts, and where they go. `is_known` says that it may have rows there already."""

    session_uid: str
    partition: Partition
    generation: int
    rows: SessionFactRows
    is_known: bool
    before: WrittenFacts | None = None


@dataclass(frozen=True)
class WrittenFacts:
    """The facts of a session as they were written: its rows, and for each fact how many are in which settled file."""

    rows: SessionFactRows
    settled: dict[str, tuple[str, int]] = field(default_factory=dict)


@dataclass
class MergedFacts:
    """New fact files that the catalog does not name yet, those they replace, and which partitions failed and why.

    `written` is what was written of each session.
    """

    files: list[FactFile] = field(default_factory=list)
    replaced: list[FactFile] = field(default_factory=list)
    gone: list[FactFile] = field(default_factory=list)
    written: dict[str, WrittenFacts] = field(default_factory=dict)
    failed: dict[Partition, str] = field(default_factory=dict)


def merge_facts(store: Store, derived: Iterable[DerivedSession]) -> MergedFacts:
    """Write the fact files of every partition that these sessions belong to."""
    by_partition: dict[Partition, list[DerivedSession]] = defaultdict(list)
    for session in derived:
        by_partition[session.partition].append(session)
    old: dict[Partition, dict[str, list[FactFile]]] = defaultdict(lambda: defaultdict(list))
    with store.catalog.reading() as connection:
        for file in live_files.fact_files(connection, by_partition.keys()) if by_partition else ():
            old[file.flavor, file.day][file.fact].append(file)
        there = sessions.uids_by_partition(connection, old)
    merged = MergedFacts()
    for partition, members in by_partition.items():
        others = there.get(partition, set()) - {session.session_uid for session in members}
        try:
            one = _merge_partition(store, partition, old[partition], members, carries_over=bool(others))
        except StoreError as exc:
            merged.failed[partition] = str(exc)
            continue
        except BaseException:
            _remove(store, merged)
            raise
        merged.files += one.files
        merged.replaced += one.replaced
        merged.gone += one.gone
        merged.written |= one.written
    return merged


def fold_recent(store: Store) -> MergedFacts:
    """Write all recent rows to the settled files. Of a partition with a damaged file nothing changes."""
    with store.catalog.reading() as connection:
        files = live_files.fact_files(connection)
    merged = MergedFacts()
    for recent in (file for file in files if file.is_recent):
        key = (recent.fact, recent.flavor, recent.day)
        old = [file for file in files if (file.fact, file.flavor, file.day) == key]
        try:
            fresh = store.facts.replace(recent.fact, (recent.flavor, recent.day), old, [])
        except StoreError as exc:
            merged.failed[recent.flavor, recent.day] = str(exc)
            continue
        merged.files += [fresh] if fresh is not None else []
        merged.replaced += [file for file in old if not file.is_recent]
        merged.gone.append(recent)
    return merged


def _merge_partition(
    store: Store,
    partition: Partition,
    old: Mapping[str, Sequence[FactFile]],
    sessions: Sequence[DerivedSession],
    *,
    carries_over: bool,
) -> MergedFacts:
    """All facts of a partition or none: those written before a failure are removed again.

    Without sessions to carry over the old files need not be read.
    """
    merged = MergedFacts(written={s.session_uid: WrittenFacts(s.rows) for s in sessions})
    try:
        for fact in FACTS:
            before = old.get(fact, ())
            if any(s.rows.get(fact) for s in sessions) or (before and any(s.is_known for s in sessions)):
                _Merge(store, fact, partition, before, sessions, merged).run(carries_over=carries_over)
    except BaseException:
        _remove(store, merged)
        raise
    return merged


class _Merge:
    """The merge of one fact of some sessions into its files of a partition."""

    def __init__(  # noqa: PLR0913, PLR0917 - the merge of a partition passes its own arguments on
        self,
        store: Store,
        fact: str,
        partition: Partition,
        old: Sequence[FactFile],
        sessions: Sequence[DerivedSession],
        merged: MergedFacts,
    ) -> None:
        self._files, self._fact, self._partition, self._old, self._merged = store.facts, fact, partition, old, merged
        self._sessions = [SessionRows(s.session_uid, s.generation, s.rows.get(fact, ())) for s in sessions]
        self._before = {s.session_uid: s.before for s in sessions if s.before is not None}
        self._uids = {s.session_uid for s in sessions}
        settled = [file for file in old if not file.is_recent]
        self._settled = settled[0] if settled and settled[0].bytes >= SETTLED_BYTES else None
        self._is_damaged = False

    def run(self, *, carries_over: bool) -> None:
        """Write the files. Damage of the old ones only matters if rows of other sessions are carried over."""
        try:
            if not self._extend():
                self._rewrite(self._old if carries_over else ())
        except StoreError:
            if carries_over:
                raise
            self._settled, self._is_damaged = None, True
            self._rewrite(())

    def _extend(self) -> bool:
        """Write only recent rows if the settled ones stay as they are, and the recent ones stay few."""
        settled = self._settled
        if settled is None:
            return False
        counts = self._settled_counts(settled)
        if counts is None:
            return False
        parts = zip(self._sessions, counts, strict=True)
        rest = [SessionRows(s.session_uid, s.generation, s.rows[n:]) for s, n in parts]
        recent = [file for file in self._old if file.is_recent]
        table = self._with_others(recent, rest)
        if table.num_rows > _most(settled.row_count):
            return False
        self._put(recent, table, is_recent=True)
        self._note(settled.name, counts)
        return True

    def _settled_counts(self, settled: FactFile) -> list[int] | None:
        """How many rows of each session are in the settled file; None if some there are no longer as they were."""
        counts = []
        table = None
        for session in self._sessions:
            before = self._before.get(session.session_uid)
            name, count = before.settled.get(self._fact, ("", 0)) if before is not None else ("", 0)
            if before is not None and name == settled.name:
                is_same = _alike(before.rows.get(self._fact, ())[:count], session.rows) == count
            else:
                table = self._files.read(settled) if table is None else table
                mine = only(table, session.session_uid)
                count = mine.num_rows
                first = SessionRows(session.session_uid, session.generation, session.rows[:count])
                is_same = say_the_same(mine, fact_files.table_of(self._fact, [first]))
            if not is_same or count > len(session.rows):
                return None
            counts.append(count)
        return counts

    def _rewrite(self, old: Sequence[FactFile]) -> None:
        """Write the settled file. Of a session that grew, rows that are new stay recent: they may still change.

        The rows of other sessions in the old files are carried over.
        """
        counts = [len(session.rows) for session in self._sessions]
        if self._settled is not None:
            alike = [_alike(self._rows_before(session), session.rows) for session in self._sessions]
            few = [n or len(s.rows) for s, n in zip(self._sessions, alike, strict=True)]
            if sum(counts) - sum(few) <= _most(sum(few)):
                counts = few
        parts = list(zip(self._sessions, counts, strict=True))
        first = [SessionRows(s.session_uid, s.generation, s.rows[:n]) for s, n in parts]
        rest = [SessionRows(s.session_uid, s.generation, s.rows[n:]) for s, n in parts if n < len(s.rows)]
        name = self._put([file for file in self._old if not file.is_recent], self._with_others(old, first))
        recent = [file for file in self._old if file.is_recent]
        self._put(recent, fact_files.table_of(self._fact, rest), is_recent=True)
        self._note(name, counts)

    def _rows_before(self, session: SessionRows) -> Sequence[tuple[Any, ...]]:
        before = self._before.get(session.session_uid)
        if before is not None:
            return before.rows.get(self._fact, ())
        tables = [only(self._files.read(file), session.session_uid) for file in self._old]
        return [row for table in tables for one in rows_of(table) for row in one.rows]

    def _with_others(self, old: Sequence[FactFile], sessions: Sequence[SessionRows]) -> pa.Table:
        """The rows of these sessions after those of all others in the old files."""
        import pyarrow as pa

        others = [without(self._files.read(file), self._uids) for file in old]
        return pa.concat_tables([*others, fact_files.table_of(self._fact, sessions)])

    def _put(self, old: Sequence[FactFile], table: pa.Table, *, is_recent: bool = False) -> str:
        """Write the successor of the old file, if any is needed. Returns the name of the file that has the rows."""
        if not table.num_rows:
            self._merged.gone += old
            return ""
        for file in old if not self._is_damaged else ():
            if file.row_count == table.num_rows and say_the_same(self._files.read(file), table):
                return file.name
        file = self._files.write(self._fact, self._partition, next_version(self._old), table, is_recent=is_recent)
        self._merged.files.append(file)
        self._merged.replaced += old
        return file.name

    def _note(self, name: str, counts: Sequence[int]) -> None:
        for session, count in zip(self._sessions, counts, strict=True):
            self._merged.written[session.session_uid].settled[self._fact] = name, count


def _most(settled: int) -> int:
    """How many recent rows there may be: with a few new rows per commit, as many as make both files cost the same."""
    return 4 * isqrt(settled)


def _alike(before: Sequence[tuple[Any, ...]], now: Sequence[tuple[Any, ...]]) -> int:
    """How many rows at the beginning are the same."""
    pairs = enumerate(zip(before, now, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(before), len(now)))


def _remove(store: Store, merged: MergedFacts) -> None:
    for file in merged.files:
        store.facts.remove(file.name)
