"""Growth of a session whose earlier records can be read no more: what is new of it counts, beside what is kept.

Belongs here: what of a session is known to be told before (by ledger, facts, stored rows, cursors and time), and
joining what came later to its kept digest and facts. Not here: how two digests become one (`core.merge`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import select

from helix_assets.core.errors import StoreError
from helix_assets.core.facts import SessionFactRows
from helix_assets.plan import Candidate, SessionState, plan_merge, told_before
from helix_assets.reading import digest_text
from helix_assets.storage.ledger import claims_of
from helix_assets.storage.tables import digests
from helix_assets.store import Store
from helix_assets.task import BEFORE_TIME, Ingested, IngestTask, Merging

if TYPE_CHECKING:
    from helix_assets.core.digest import Digest


def plan_growth(
    store: Store, state: SessionState, changed: Sequence[Candidate], present: Mapping[str, Candidate]
) -> IngestTask:
    """Read the changed files from the start, and take from them what was not told before.

    StoreError where what is kept is damaged: then nothing can be told apart.
    """
    row = state.row
    if row is None:
        raise ValueError("a new session has nothing to be merged with")
    kept = _kept_digest(store, state.uid)
    with store.catalog.reading() as connection:
        claimed = claims_of(connection, {row.id})
    known = claimed | {fact[0] for rows in _kept_facts(store, state).values() for fact in rows}
    last_us = row.last_row[0] if row.last_row else BEFORE_TIME
    last_seq = max((last for _, last in kept.coverage.ranges), default=-1) if kept is not None else -1
    merging = Merging(frozenset(known), max(row.ended_us or BEFORE_TIME, last_us), last_seq + 1)
    read_before = {
        candidate.path_key: source.offset if (source := told_before(store, state, candidate, present)) else 0
        for candidate in changed
    }
    task = plan_merge(store, state, present, merging, read_before)
    if kept is None:
        return task
    # All that parsers go on from is what was spent before: a log may say the sum of it again.
    t = kept.tokens
    spent = {"spent": [t.input, t.output, t.cache_read, t.cache_write, t.reasoning or 0]}
    return replace(task, files=tuple(replace(file, state=spent) for file in task.files))


def merge_into_kept(store: Store, state: SessionState, result: Ingested) -> Ingested:
    """Join what came later to the digest and facts that are kept; with damaged facts the digest waits."""
    from helix_assets.core.merge import merged  # loads pydantic

    if result.digest is None:
        return result
    try:
        kept, facts = _kept_digest(store, state.uid), _kept_facts(store, state)
    except StoreError as exc:
        return replace(result, digest=None, failure=f"what is kept of it is damaged: {exc}")
    if kept is None:
        return result
    for fact, rows in result.fact_rows.items():
        facts.setdefault(fact, []).extend(rows)
    counts = {fact: len(rows) for fact, rows in facts.items() if rows}
    return replace(result, digest=merged(kept, result.digest, counts), fact_rows=facts)


def is_derived_now_or_never(state: SessionState, result: Ingested) -> bool:
    """Whether what is stored of a session will not do to derive it later: then the reading waits, too."""
    is_rowless = result.part is None and not (result.task.append and state.parts)
    return result.task.merging is not None or is_rowless


def _kept_digest(store: Store, uid: str) -> Digest | None:
    from helix_assets.core.digest import Digest  # loads pydantic

    with store.catalog.reading() as connection:
        text = digest_text(connection.execute(select(digests).where(digests.c.session_uid == uid)).first(), store.key)
    return None if text is None else Digest.model_validate_json(text)


def _kept_facts(store: Store, state: SessionState) -> SessionFactRows:
    row = state.row
    files = store.catalog.fact_files({(row.flavor, row.day)}) if row is not None else []
    found: SessionFactRows = {}
    for file in files:
        rows = [fact for some in store.facts.rows(file) if some.session_uid == state.uid for fact in some.rows]
        if rows:
            found[file.fact] = rows
    return found
