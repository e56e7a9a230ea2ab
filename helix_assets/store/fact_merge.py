"""The facts of a batch, merged into the files of the partitions they belong to: each file is written once per batch.

Belongs here: which files a batch replaces. Not here: the files themselves (`store.fact_files`), or when the catalog
names them (`sweep.commit`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from helix_assets.model.errors import StoreError
from helix_assets.model.facts import FACTS, SessionFactRows
from helix_assets.store.catalog import live_files, sessions
from helix_assets.store.fact_files import FactFile, SessionRows
from helix_assets.store.store import Store

Partition = tuple[str, str]


class DerivedSession(NamedTuple):
    """A session with newly derived facts, and where they go. `is_known` says that it may have rows there already."""

    session_uid: str
    partition: Partition
    generation: int
    rows: SessionFactRows
    is_known: bool


@dataclass
class MergedFacts:
    """New fact files that the catalog does not name yet, those they replace, and which partitions failed and why."""

    files: list[FactFile] = field(default_factory=list)
    replaced: list[FactFile] = field(default_factory=list)
    gone: list[FactFile] = field(default_factory=list)
    failed: dict[Partition, str] = field(default_factory=dict)


def merge_facts(store: Store, derived: Iterable[DerivedSession]) -> MergedFacts:
    """Write the fact files of every partition that these sessions belong to."""
    by_partition: dict[Partition, list[DerivedSession]] = defaultdict(list)
    for session in derived:
        by_partition[session.partition].append(session)
    old: dict[Partition, dict[str, FactFile]] = defaultdict(dict)
    with store.catalog.reading() as connection:
        for file in live_files.fact_files(connection, by_partition.keys()) if by_partition else ():
            old[file.flavor, file.day][file.fact] = file
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
    return merged


def _merge_partition(
    store: Store,
    partition: Partition,
    old: Mapping[str, FactFile],
    sessions: Sequence[DerivedSession],
    *,
    carries_over: bool,
) -> MergedFacts:
    """All facts of a partition or none: those written before a failure are removed again.

    Without sessions to carry over the old files need not be read.
    """
    merged = MergedFacts()
    try:
        for fact in FACTS:
            rows = [SessionRows(s.session_uid, s.generation, s.rows.get(fact, ())) for s in sessions]
            before = old.get(fact)
            if not any(session.rows for session in rows) and not (before and any(s.is_known for s in sessions)):
                continue
            file = store.facts.replace(fact, partition, before, rows, carries_over=carries_over)
            if file is not None:
                merged.files.append(file)
            if before is not None:
                (merged.replaced if file is not None else merged.gone).append(before)
    except BaseException:
        _remove(store, merged)
        raise
    return merged


def _remove(store: Store, merged: MergedFacts) -> None:
    for file in merged.files:
        store.facts.remove(file.name)
