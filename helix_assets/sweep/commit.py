"""Publishing a batch: files in place and synced, then one catalog transaction, then the replaced files unlinked.

After a kill at any time the whole batch counts or none of it: files that the catalog does not name are not part of the
store.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from helix_assets.agents import ADAPTERS
from helix_assets.agents.jsonl import failed_status
from helix_assets.agents.roles import UNREADABLE, main_log
from helix_assets.model.digest_text import written_digest
from helix_assets.model.errors import HelixError
from helix_assets.model.event import DIGEST_VERSION, SCHEMA_VERSION
from helix_assets.model.time import FIRST_DAY, day_of, iso, microseconds
from helix_assets.store.catalog import digests, live_files, meta, problems, sessions, sources
from helix_assets.store.catalog.connection import Connection, Row
from helix_assets.store.catalog.ledger import claim, put_shared, unclaim
from helix_assets.store.catalog.problems import problem_rows
from helix_assets.store.catalog.retries import clear, is_waiting, next_try
from helix_assets.store.catalog.session_keys import Chunk, Recorded, add_keys, all_keys, drop_keys
from helix_assets.store.catalog.sources import PRESENT_UNREADABLE
from helix_assets.store.catalog.tombstones import session_mark
from helix_assets.store.durable import sync
from helix_assets.store.fact_files import SessionRows
from helix_assets.store.fact_merge import DerivedSession, MergedFacts, WrittenFacts, fold_recent, merge_facts
from helix_assets.store.key import text_hash
from helix_assets.store.raw import PartFile
from helix_assets.store.store import Store, file_key
from helix_assets.sweep.plan import SessionState
from helix_assets.sweep.settle import Shares, owner_rows
from helix_assets.sweep.task import FileTask, Ingested, SourceCursor

if TYPE_CHECKING:
    from helix_assets.store.words.hashing import Words
    from helix_assets.sweep.pricing import Prices

Ids = Mapping[str, int]
"""The catalog's ids of sessions by uid."""


NO_PARSER = 0
"""The parser version of a session of which only the records could be stored: every parser reads it again."""


@dataclass
class Batch:
    """Results to commit, with what the catalog knew of their sessions before, and the marks of what was forgotten."""

    results: dict[str, Ingested]
    states: Mapping[str, SessionState]
    shares: Shares
    prices: Prices
    forgotten: Collection[str]
    now: datetime
    mtimes: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Committed:
    """What a commit wrote: partitions, bytes, digests, failed sessions, the words of the new part files, facts.

    `order` is its number in the order of work.
    """

    order: int
    partitions: set[tuple[str, str]] = field(default_factory=set)
    bytes_written: int = 0
    digests: int = 0
    failed: list[str] = field(default_factory=list)
    words: dict[str, Sequence[Words]] = field(default_factory=dict)
    facts: dict[str, WrittenFacts] = field(default_factory=dict)


def commit_batch(store: Store, batch: Batch) -> Committed:
    """Make a batch part of the store, all of it or none."""
    name_no_forgotten_parent(store, batch.results.values(), batch.forgotten)
    kept = {uid: r for uid, r in batch.results.items() if _is_session(r, batch.states[uid])}
    for uid, result in batch.results.items():
        if uid not in kept:
            discard(store, result)
    parts = {uid: _publish(store, batch, uid, r) for uid, r in kept.items()}
    names = {part.name for published in parts.values() for part in published}
    facts = _merge_facts(store, batch, kept)
    written = [store.raw.path(name) for name in names]
    sync(store.data_dir, written + [store.facts.path(file.name) for file in facts.files])
    at = iso(microseconds(batch.now)) or ""
    with store.catalog.writing() as connection:
        order = meta.next_order(connection)
        ids = {uid: s.row.id for uid, s in batch.states.items() if s.row is not None}
        stored = frozenset(ids.values())
        fresh = [uid for uid in kept if uid not in ids]
        ids |= zip(fresh, sessions.next_ids(connection, len(fresh)), strict=True)
        sessions.put(
            connection, [{"id": ids[uid], **_session_row(store, batch, r, order, at)} for uid, r in kept.items()]
        )
        rewritten = stored.intersection(ids[uid] for uid, r in kept.items() if not r.task.append)
        replaced = live_files.drop_parts(connection, rewritten)
        folded = [part.name for uid, r in kept.items() if r.folded for part in batch.states[uid].parts[r.task.folds :]]
        live_files.drop_named(connection, folded)
        live_files.put_parts(connection, [part.row(ids[uid]) for uid in kept for part in parts[uid]])
        digests.put(connection, [_digest_row(store, batch, r, at) for r in kept.values() if r.digest])
        live_files.put_fact_files(connection, facts.files, facts.gone)
        read = [f for r in batch.results.values() for f in r.task.files]
        problems.clear(connection, {f.path_key: f.line if f.offset else 0 for f in read})
        sources.put(
            connection, [row for uid, r in batch.results.items() for row in _source_rows(batch, r, ids.get(uid), at)]
        )
        sources.drop(connection, [key for uid, r in kept.items() for key in _replaced(batch.states[uid], r)])
        problems.put(connection, [row for r in batch.results.values() for row in _problems_of(store, r, at)])
        unclaim(
            connection, [(key, ids[uid]) for uid, keys in batch.shares.given_up.items() if uid in kept for key in keys]
        )
        claim(connection, [(key, ids[uid]) for uid, r in kept.items() for key in (*r.shareable, *r.message_ids)])
        put_shared(connection, owner_rows(batch.shares, ids))
        _put_keys(connection, kept, ids, stored)
        clear(connection, batch.results)
    for name in (*replaced, *folded):
        if name not in names:
            store.raw.remove(name)
    for file in facts.replaced + facts.gone:
        store.facts.remove(file.name)
    return replace(_committed(batch, kept, parts, order), facts=facts.written)


def fold_facts(store: Store) -> None:
    """Join the settled and the recent facts of each partition, so that what rests takes one file of each fact."""
    facts = fold_recent(store)
    if facts.files:
        sync(store.data_dir, [store.facts.path(file.name) for file in facts.files])
        with store.catalog.writing() as connection:
            live_files.put_fact_files(connection, facts.files, facts.gone)
        for file in facts.replaced + facts.gone:
            store.facts.remove(file.name)


def discard(store: Store, result: Ingested) -> None:
    """Remove what a result has in the staging folder, because it is not committed."""
    for part in result.staged:
        (store.raw.staging / part.name).unlink(missing_ok=True)


def _merge_facts(store: Store, batch: Batch, kept: Mapping[str, Ingested]) -> MergedFacts:
    """Price and write the facts of all sessions with a digest. If that fails for one, it keeps its old ones."""
    try:
        return _merged_facts(store, batch, kept)
    except (OSError, HelixError):
        raise
    except Exception:  # noqa: BLE001 - the fault of one session: the others continue without it
        for result in kept.values():
            if fault := fault_of(batch.prices, result):
                result.digest, result.failure = None, fault
        return _merged_facts(store, batch, kept)


def fault_of(prices: Prices, result: Ingested) -> str | None:
    """The error that this session alone causes when its costs and facts are made, None if there is none."""
    from helix_assets.store.fact_files import table_of
    from helix_assets.sweep.pricing import price_sessions

    if result.digest is None:
        return None
    try:
        (digest,) = price_sessions(prices, [(result.digest, dict(result.fact_rows))])
        written_digest(digest)
        for fact, rows in result.fact_rows.items():
            table_of(fact, [SessionRows(result.task.session_uid, result.task.generation, rows)])
    except Exception as exc:  # noqa: BLE001 - any error is reported in status and in a check
        return f"{type(exc).__name__} while its costs and facts were made"
    return None


def _merged_facts(store: Store, batch: Batch, kept: Mapping[str, Ingested]) -> MergedFacts:
    from helix_assets.sweep.pricing import price_sessions  # only if there is something to price

    derived = [(r, r.digest) for r in kept.values() if r.digest is not None]
    priced = price_sessions(batch.prices, [(digest, r.fact_rows) for r, digest in derived]) if derived else []
    for (result, _), digest in zip(derived, priced, strict=True):
        found_at, source_path = _origin(batch, result)
        result.digest = replace(digest, source_path=source_path, discovered_at=found_at)
        result.digest_text = written_digest(result.digest)
    merged = merge_facts(
        store,
        [
            DerivedSession(
                uid,
                _partition(batch, r),
                r.task.generation,
                r.fact_rows,
                batch.states[uid].row is not None,
                r.task.derived.facts if r.task.derived is not None else None,
            )
            for uid, r in kept.items()
            if r.digest is not None
        ],
    )
    for result in kept.values() if merged.failed else ():
        if result.digest is not None and (reason := merged.failed.get(_partition(batch, result))):
            result.digest, result.failure = None, f"its facts cannot be kept: {reason}"
    return merged


def _origin(batch: Batch, result: Ingested) -> tuple[str | None, str | None]:
    """When the session was first stored, and where its main log is."""
    state = batch.states[result.task.session_uid]
    files = {s.path_key: (s.role, s.file_rank, s.path) for s in state.sources}
    read = {cursor.path_key for cursor in result.cursors}
    files |= {f.path_key: (f.role, f.rank, f.shown) for f in result.task.files if f.path_key in read}
    for key in _replaced(state, result):
        files.pop(key, None)
    at = state.row.discovered_at if state.row is not None else iso(microseconds(batch.now))
    return at, main_log(files.values())


def _partition(batch: Batch, result: Ingested) -> tuple[str, str]:
    return result.task.flavor, _day(batch, result).isoformat()


def _committed(
    batch: Batch, kept: Mapping[str, Ingested], parts: Mapping[str, Sequence[_Published]], order: int
) -> Committed:
    return Committed(
        order=order,
        partitions={_partition(batch, r) for r in kept.values()},
        bytes_written=sum(part.bytes for r in kept.values() for part in r.staged),
        digests=sum(r.digest is not None for r in kept.values()),
        failed=[uid for uid, r in kept.items() if r.digest is None],
        words={one.name: one.part.words for some in parts.values() for one in some if one.part.words},
    )


def _is_session(result: Ingested, state: SessionState) -> bool:
    """Whether there is a session: a file without any record is not one. Records that are not understood count, too.

    A file that cannot be read is a session of which only the times are known.
    """
    is_there = any(file.role == UNREADABLE for file in result.task.files)
    return state.row is not None or result.objects > 0 or is_there


def _day(batch: Batch, result: Ingested) -> date:
    """The partition day: the UTC day of the earliest dated record within [first day, today], fixed when first seen."""
    row = batch.states[result.task.session_uid].row
    if row is not None:
        return date.fromisoformat(row.day)
    started = result.started_us
    if started is None:
        times = [batch.mtimes[c.path_key] for c in result.cursors if c.path_key in batch.mtimes]
        started = min(times, default=microseconds(batch.now))
    today = max(batch.now.date(), FIRST_DAY)  # a clock far behind must not name a day that no partition has
    try:
        return min(max(day_of(started), FIRST_DAY), today)
    except OverflowError:
        return FIRST_DAY if started < 0 else today


class _Published(NamedTuple):
    """A part file in its place, and its number in the session."""

    number: int
    name: str
    part: PartFile

    def row(self, session_id: int) -> dict[str, Any]:
        part = self.part
        return {"session_id": session_id, "part": self.number, "name": self.name, "bytes": part.bytes,
                "hash": part.hash, "row_count": part.rows, "record_count": part.records,
                "text_bytes": part.text_bytes}  # fmt: skip


def _publish(store: Store, batch: Batch, uid: str, result: Ingested) -> list[_Published]:
    published = []
    for number, part in enumerate(result.staged, len(_staying(batch.states[uid], result))):
        stem = f"{file_key(store, uid)}.{result.task.generation}.{number}"
        name = f"flavor={result.task.flavor}/day={_day(batch, result)}/{stem}.parquet"
        store.raw.publish(part.name, name)
        published.append(_Published(number, name, part))
    return published


def _staying(state: SessionState, result: Ingested) -> Sequence[Row]:
    """The part files that the result neither replaces nor folds."""
    if not result.task.append:
        return ()
    return state.parts[: result.task.folds] if result.folded is not None else state.parts


def _session_row(store: Store, batch: Batch, result: Ingested, order: int, at: str) -> dict[str, Any]:
    task, state, digest, facts = result.task, batch.states[result.task.session_uid], result.digest, result.facts
    row, old, new = state.row, _staying(state, result), result.staged
    failures = (row.failures if row is not None else 0) + 1 if result.failure else 0
    retry_at = next_try(batch.now, failures)
    if row is not None and result.failure and is_waiting(row, batch.now):
        failures, retry_at = row.failures, row.retry_at  # it was not tried again
    evicted = not new and not old
    return {
        "session_uid": task.session_uid,
        "flavor": task.flavor,
        "native_session_id": state.native_id,
        "day": _day(batch, result).isoformat(),
        "file_key": file_key(store, task.session_uid),
        "repo": digest.repo if digest else row.repo if row is not None else None,
        "domain": digest.domain if digest else row.domain if row is not None else None,
        "cwd": facts.cwd,
        "git_branch": facts.git_branch,
        "model": facts.model,
        "title": facts.title,
        "task_ref": digest.task_ref if digest else row.task_ref if row is not None else None,
        "parent_uid": f"{task.flavor}:{facts.parent_native_id}" if facts.parent_native_id else None,
        "facts": asdict(facts),
        "started_us": result.started_us,
        "ended_us": result.ended_us,
        "outcome": digest.outcome if digest else row.outcome if row is not None else "unknown",
        "source_bytes": _source_bytes(state, result),
        "raw_bytes": sum(p.bytes for p in old) + sum(p.bytes for p in new),
        "row_count": sum(p.row_count for p in old) + sum(p.rows for p in new),
        "record_count": sum(p.record_count for p in old) + sum(p.records for p in new),
        "unparsed_count": result.unparsed,
        "last_row": list(result.last_row),
        "schema_version": SCHEMA_VERSION,
        "parser_version": NO_PARSER if task.is_bare else ADAPTERS[task.flavor].version,
        "redaction_version": store.rules_version,  # rows of older rules are never appended to
        "generation": task.generation,
        "derived_generation": task.generation if digest else row.derived_generation if row is not None else None,
        "derivation_version": DIGEST_VERSION if digest else row.derivation_version if row is not None else None,
        "discovered_at": at,
        "ingested_at": at if row is None or result.cursors else row.ingested_at,
        "analyzed_at": at if digest else row.analyzed_at if row is not None else None,
        "ingest_order": order if row is None or result.cursors else row.ingest_order,
        "analyze_order": order if digest else row.analyze_order if row is not None else None,
        **_what_is_gone(state, result),
        "evicting_at": None,
        "evicted_at": row.evicted_at if row is not None and evicted else None,
        "failure": result.failure,
        "failures": failures,
        "retry_at": retry_at,
    }


def _what_is_gone(state: SessionState, result: Ingested) -> dict[str, Any]:
    """How many of the counted records are not stored, and whether the digest covers more than can still be read."""
    row = state.row
    if row is None or not result.task.append:
        is_partial = row is not None and row.is_partial and result.digest is None
        return {"is_partial": is_partial, "evicted_records": result.evicted, "light_records": result.light}
    return {
        "is_partial": row.is_partial or result.is_merged,
        "evicted_records": row.evicted_records,
        "light_records": row.light_records,
    }


def _put_keys(connection: Connection, kept: Mapping[str, Ingested], ids: Ids, stored: frozenset[int]) -> None:
    """Record the keys that each digest counts, only the new ones if keys were only added. No digest counts nothing.
    `stored` are the sessions that are not new.

    An earlier version recorded none. For a session that it evicted, those that could be gathered are recorded.
    """
    made = {ids[uid]: r for uid, r in kept.items() if r.digest is not None}
    before = all_keys(connection, [number for number, r in made.items() if r.task.append])
    chunks, replaced = list[Chunk](), list[int]()
    for number, result in made.items():
        known, earlier = before.get(number, Recorded()), result.task.earlier
        if result.task.merges and not known.chunks and earlier is not None:
            add_keys(connection, [(number, earlier.keys)], is_gathered=True)
        is_added = result.task.merges or (known.chunks > 0 and known.keys.all <= result.keys.all)
        if is_added and not known.is_full:
            chunks.append((number, result.keys.without(known.keys)))
        else:
            replaced.append(number)
            chunks.append((number, known.keys.with_more(result.keys) if is_added else result.keys))
    drop_keys(connection, stored.intersection(replaced))
    add_keys(connection, chunks)


def _source_bytes(state: SessionState, result: Ingested) -> int:
    sizes = {s.path_key: s.size for s in state.sources if s.status != "gone"}
    sizes |= {cursor.path_key: cursor.size for cursor in result.cursors}
    return sum(sizes.values())


def _digest_row(store: Store, batch: Batch, result: Ingested, at: str) -> dict[str, Any]:
    digest, text = result.digest, result.digest_text
    if digest is None or text is None:
        raise ValueError("no digest to write")
    return {
        "session_uid": digest.session_uid,
        "digest": text,
        "flavor": digest.flavor,
        "repo": digest.repo,
        "domain": digest.domain,
        "outcome": digest.outcome,
        "started_at": digest.started_at,
        "ended_at": digest.ended_at,
        "schema_version": digest.schema_version,
        "day": _day(batch, result).isoformat(),
        "generation": result.task.generation,
        "hash": text_hash(store.key, text.encode()),
        "written_at": at,
    }


def _source_rows(batch: Batch, result: Ingested, session_id: int | None, at: str) -> list[dict[str, Any]]:
    state = batch.states[result.task.session_uid]
    tasks = {f.path_key: f for f in result.task.files}
    continued = {f.rank for f in result.task.files if result.task.append or f.offset}
    outlived = {s.file_rank for s in state.sources if s.is_outlived and s.file_rank in continued} | result.outlived
    return [
        {
            **_cursor_columns(cursor),
            "path": tasks[cursor.path_key].shown,
            "flavor": state.flavor,
            "role": tasks[cursor.path_key].role,
            "native_id": state.native_id,
            "session_id": session_id,
            "file_rank": tasks[cursor.path_key].rank,
            "is_doubted": False,
            "is_outlived": tasks[cursor.path_key].rank in outlived,
            "status": _source_status(cursor, tasks[cursor.path_key], session_id),
            "discovered_at": at,
            "ingested_at": at,
            "gone_at": None,
        }
        for cursor in result.cursors
    ]


def _replaced(state: SessionState, result: Ingested) -> list[str]:
    """Sources whose file was moved or packed and was read at its new place, so that they are no longer needed."""
    if result.task.append:
        return []
    read = {cursor.path_key for cursor in result.cursors if not cursor.problem}
    taken = {key for file in result.task.files if file.path_key in read for key in file.took_over}
    return [s.path_key for s in state.sources if s.path_key in taken and s.file_rank not in result.outlived]


def _source_status(cursor: SourceCursor, file: FileTask, session_id: int | None) -> str:
    if file.role == UNREADABLE:
        return PRESENT_UNREADABLE
    if cursor.problem:
        return failed_status(file.path, cursor.problem)
    return "ok" if session_id is not None else "empty"


def _cursor_columns(cursor: SourceCursor) -> dict[str, Any]:
    columns = cursor._asdict()
    columns["parser_state"] = columns.pop("state")
    return columns


def _problems_of(store: Store, result: Ingested, at: str) -> list[dict[str, Any]]:
    return problem_rows(
        store, result.task.flavor, result.problems, {f.shown: f.path_key for f in result.task.files}, at
    )


def name_no_forgotten_parent(store: Store, results: Iterable[Ingested], forgotten: Collection[str]) -> None:
    """Remove a forgotten parent from what was derived. `forgotten` are the marks of what was forgotten."""
    parents = [result for result in results if result.facts.parent_native_id]
    for result in parents if forgotten else ():
        if session_mark(store, f"{result.task.flavor}:{result.facts.parent_native_id}") in forgotten:
            result.facts.parent_native_id = None
            result.digest = result.digest and replace(result.digest, parent_uid=None)
