"""Publishing a batch: files renamed and synced, then one catalog transaction, then the replaced files unlinked.

Killed anywhere, either the whole batch counts or none of it: what is not named by the catalog is no part of the store.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from helix_assets.adapters import ADAPTERS
from helix_assets.adapters.base import Problem
from helix_assets.core.digest import DIGEST_VERSION, Digest
from helix_assets.core.moments import day_of, iso, microseconds
from helix_assets.core.schema import SCHEMA_VERSION
from helix_assets.ingest import Ingested, SourceCursor
from helix_assets.plan import SessionState
from helix_assets.sharing import Shares, owner_rows
from helix_assets.storage.key import text_hash
from helix_assets.store import Store

FIRST_DAY = date(2024, 1, 1)
"""The first partition; a session that claims to be older is kept under this day."""


@dataclass
class Batch:
    """Results on their way into the catalog, with what the catalog knew of their sessions before."""

    results: dict[str, Ingested]
    states: Mapping[str, SessionState]
    shares: Shares
    now: datetime
    mtimes: Mapping[str, int] = field(default_factory=dict)


@dataclass
class Committed:
    """What a commit changed: sessions written, their partitions, bytes and digests."""

    partitions: set[tuple[str, str]] = field(default_factory=set)
    bytes_written: int = 0
    digests: int = 0
    failed: list[str] = field(default_factory=list)


def commit_batch(store: Store, batch: Batch) -> Committed:
    """Make a batch part of the store, all of it or nothing."""
    done = Committed()
    kept = {uid: r for uid, r in batch.results.items() if _is_session(r, batch.states[uid])}
    for uid, result in batch.results.items():
        if uid not in kept and result.part is not None:
            (store.raw.staging / result.part.name).unlink()
    names = {uid: _publish(store, batch, uid, r) for uid, r in kept.items()}
    sync(store.raw.root, [store.raw.path(name) for name in names.values() if name])
    replaced: list[str] = []
    with store.catalog.writing() as connection:
        order = store.catalog.next_order(connection)
        ids = {uid: s.row.id for uid, s in batch.states.items() if s.row is not None}
        for uid, result in kept.items():
            ids[uid] = _put_session(store, connection, batch, result, order)
            replaced += _put_files(store, connection, ids[uid], batch.states[uid], result, names[uid])
            _put_digest(store, connection, batch, result, done)
            done.partitions.add((result.task.flavor, _day(batch, result).isoformat()))
            done.bytes_written += result.part.bytes if result.part else 0
        for uid, result in batch.results.items():
            _put_sources(store, connection, batch, result, ids.get(uid))
            if uid in ids and ADAPTERS[result.task.flavor].shares_history:
                store.catalog.claim(connection, ids[uid], [*result.shareable, *result.message_ids])
        store.catalog.put_shared(connection, owner_rows(batch.shares, ids))
    for name in replaced:
        store.raw.remove(name)
    return done


def _is_session(result: Ingested, state: SessionState) -> bool:
    """A file without a single readable record makes no session."""
    return state.row is not None or result.lines > result.unparsed


def _day(batch: Batch, result: Ingested) -> date:
    """The partition day: fixed at first sight, the UTC day of the earliest dated record within [first day, today]."""
    row = batch.states[result.task.session_uid].row
    if row is not None:
        return date.fromisoformat(row.day)
    started = result.started_us
    if started is None:
        times = [batch.mtimes[c.path_key] for c in result.cursors if c.path_key in batch.mtimes]
        started = min(times, default=microseconds(batch.now))
    today = batch.now.date()
    try:
        return min(max(day_of(started), FIRST_DAY), today)
    except OverflowError:
        return FIRST_DAY if started < 0 else today


def _publish(store: Store, batch: Batch, uid: str, result: Ingested) -> str | None:
    if result.part is None:
        return None
    parts = batch.states[uid].parts if result.task.append else ()
    key = text_hash(store.key, uid.encode("utf-8", "replace"))[:20]
    name = f"flavor={result.task.flavor}/day={_day(batch, result)}/{key}.{result.task.generation}.{len(parts)}.parquet"
    store.raw.publish(result.part.name, name)
    return name


def sync(root: Path, files: Sequence[Path]) -> None:
    """Bring files and their folders to the disk: one syncfs where there is one, else file by file."""
    if not files:
        return
    if len(files) > 4 and sys.platform == "linux":
        fd = os.open(root, os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).syncfs(fd) == 0:
                return
            raise OSError(ctypes.get_errno(), "syncfs failed", str(root))
        finally:
            os.close(fd)
    for path in [*files, *{file.parent for file in files}]:
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _put_session(store: Store, connection: Connection, batch: Batch, result: Ingested, order: int) -> int:
    task, state, digest = result.task, batch.states[result.task.session_uid], result.digest
    now = iso(microseconds(batch.now))
    row = state.row
    grows = task.append and row is not None
    old = state.parts if grows else ()
    part = result.part
    facts = result.facts
    values: dict[str, Any] = {
        "session_uid": task.session_uid,
        "flavor": task.flavor,
        "native_session_id": state.native_id,
        "day": _day(batch, result).isoformat(),
        "file_key": text_hash(store.key, task.session_uid.encode("utf-8", "replace"))[:20],
        "cwd": facts.cwd,
        "git_branch": facts.git_branch,
        "model": facts.model,
        "title": facts.title,
        "parent_uid": f"{task.flavor}:{facts.parent_native_id}" if facts.parent_native_id else None,
        "facts": asdict(facts),
        "started_us": result.started_us,
        "ended_us": result.ended_us,
        "raw_bytes": sum(p.bytes for p in old) + (part.bytes if part else 0),
        "row_count": sum(p.row_count for p in old) + (part.rows if part else 0),
        "record_count": sum(p.record_count for p in old) + (part.records if part else 0),
        "unparsed_count": result.unparsed,
        "last_row": list(result.last_row),
        "schema_version": SCHEMA_VERSION,
        "parser_version": ADAPTERS[task.flavor].version,
        "redaction_version": row.redaction_version if row is not None and old else store.redactor.version,
        "generation": task.generation,
        "discovered_at": now,
        "ingested_at": now if result.cursors or row is None else row.ingested_at,
        "ingest_order": order if result.cursors or row is None else row.ingest_order,
        "failure": result.failure,
        "failures": (row.failures if row is not None else 0) + 1 if result.failure else 0,
        "source_bytes": _source_bytes(state, result),
    }
    if part is not None:
        values |= {"evicted_at": None, "evicting_at": None}
    if digest is not None:
        values |= {
            "repo": digest.repo,
            "domain": digest.domain,
            "task_ref": digest.task_ref,
            "outcome": digest.outcome,
            "derived_generation": task.generation,
            "derivation_version": DIGEST_VERSION,
            "analyzed_at": now,
            "analyze_order": order,
        }
    return store.catalog.put_session(connection, values)


def _source_bytes(state: SessionState, result: Ingested) -> int:
    sizes = {s.path_key: s.size for s in state.sources if s.status != "gone"}
    sizes |= {cursor.path_key: cursor.size for cursor in result.cursors}
    return sum(sizes.values())


def _put_files(
    store: Store, connection: Connection, session_id: int, state: SessionState, result: Ingested, name: str | None
) -> list[str]:
    """Name the new part as live; gives the names of the files it replaces."""
    replaced = [] if result.task.append else store.catalog.drop_raw_files(connection, session_id)
    part = result.part
    if part is not None and name is not None:
        number = len(state.parts) if result.task.append else 0
        store.catalog.put_raw_file(
            connection,
            session_id=session_id,
            part=number,
            name=name,
            bytes=part.bytes,
            hash=part.hash,
            row_count=part.rows,
            record_count=part.records,
        )
    return [old for old in replaced if old != name]


def _put_digest(store: Store, connection: Connection, batch: Batch, result: Ingested, done: Committed) -> None:
    digest: Digest | None = result.digest
    if digest is None:
        done.failed.append(result.task.session_uid)
        return
    text = digest.model_dump_json()
    at = iso(microseconds(batch.now)) or ""
    store.catalog.put_digest(
        connection,
        digest,
        day=_day(batch, result).isoformat(),
        generation=result.task.generation,
        text=text,
        text_hash=text_hash(store.key, text.encode()),
        at=at,
    )
    done.digests += 1


def _put_sources(store: Store, connection: Connection, batch: Batch, result: Ingested, session_id: int | None) -> None:
    at = iso(microseconds(batch.now)) or ""
    state = batch.states[result.task.session_uid]
    tasks = {f.path_key: f for f in result.task.files}
    read_whole = [f.path_key for f in result.task.files if not f.offset]
    store.catalog.clear_problems(connection, read_whole)
    rows = [
        {
            **_cursor_columns(cursor),
            "path": tasks[cursor.path_key].shown,
            "flavor": state.flavor,
            "role": tasks[cursor.path_key].role,
            "native_id": state.native_id,
            "session_id": session_id,
            "file_rank": tasks[cursor.path_key].rank,
            "status": "unreadable" if cursor.problem else "ok" if session_id is not None else "empty",
            "discovered_at": at,
            "ingested_at": at,
            "gone_at": None,
        }
        for cursor in result.cursors
    ]
    store.catalog.put_sources(connection, rows)
    store.catalog.put_problems(
        connection,
        problem_rows(store, state.flavor, result.problems, {f.shown: f.path_key for f in result.task.files}, at),
    )


def _cursor_columns(cursor: SourceCursor) -> dict[str, Any]:
    columns = cursor._asdict()
    columns["parser_state"] = columns.pop("state")
    return columns


def problem_rows(
    store: Store, flavor: str, found: Collection[Problem], keys: Mapping[str, str], at: str
) -> list[dict[str, Any]]:
    """Problems as rows of the catalog, their paths made safe to show."""
    rows = []
    for problem in found:
        shown = store.redactor.text(problem.path).text
        rows.append({"path_key": keys.get(problem.path, shown), "path": shown, "flavor": flavor, "line": problem.line or 0,
                     "offset": problem.offset, "reason": problem.reason[:300], "seen_at": at})  # fmt: skip
    return rows
