"""Sessions with evicted records: what they have counted, and merging later records into the kept digest and facts.

A record is new if its key is not among those that the session has counted (`store.catalog.session_keys`). While all of
them can be read, the digest is rebuilt from the log; it is merged only if some are gone for good.
Not here: how two digests become one (`derive.merge`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from helix_assets.agents.spec import SessionFacts
from helix_assets.model.digest_text import whole_digest
from helix_assets.model.errors import StoreError
from helix_assets.store.catalog import digests
from helix_assets.store.catalog.session_keys import SessionKeys, all_keys
from helix_assets.store.counted import gathered_keys, kept_facts
from helix_assets.store.proof import digest_text
from helix_assets.store.store import Store
from helix_assets.sweep.task import BEFORE_TIME, Earlier, Ingested

if TYPE_CHECKING:
    from helix_assets.model.digest import Digest
    from helix_assets.sweep.plan import SessionState


def earlier_of(store: Store, state: SessionState) -> Earlier:
    """What an evicted session counted before. StoreError if what is kept of it is damaged."""
    row = state.row
    if row is None:
        raise ValueError("a new session has counted nothing")
    kept = _kept_digest(store, state.uid)
    with store.catalog.reading() as connection:
        counted = all_keys(connection, [row.id]).get(row.id)
    keys, is_recorded = (counted.keys, not counted.is_gathered) if counted is not None else (None, True)
    if keys is None and kept is not None:
        keys, is_recorded = gathered_keys(store, row, state.parts), False
    at_least = None if is_recorded or kept is None else 0 if row.is_partial else kept.record_count
    return Earlier(
        keys=keys or SessionKeys(),
        first_seq=max((last for _, last in kept.coverage.ranges), default=-1) + 1 if kept is not None else 0,
        state=_state(kept, row.facts.get("model")),
        last_row=tuple(row.last_row) if row.last_row else (BEFORE_TIME, 0, 0),
        facts=SessionFacts(**row.facts),
        started_us=row.started_us,
        ended_us=row.ended_us,
        unparsed=row.unparsed_count,
        at_least=at_least,
    )


def merge_into_kept(store: Store, state: SessionState, result: Ingested) -> Ingested:
    """Merge later records into the kept digest and facts. If these are damaged, the digest waits."""
    from helix_assets.derive.merge import merged

    earlier, row = result.task.earlier, state.row
    if not result.task.merges or result.digest is None or earlier is None or row is None:
        return result
    try:
        kept, facts = _kept_digest(store, state.uid), kept_facts(store, row)
    except StoreError as exc:
        return replace(result, digest=None, failure=f"what is kept of it is damaged: {exc}")
    is_merged = bool(result.digest.coverage.records)
    if kept is None:
        return replace(result, is_merged=is_merged)
    before = earlier.keys.messages
    continued = [(before[key], record) for key, record in result.keys.messages.items() if key in before]
    digest, rows = merged(kept, result.digest, facts, result.fact_rows, continued)
    return replace(result, digest=digest, fact_rows=rows, is_merged=is_merged)


def is_derived_now_or_never(state: SessionState, result: Ingested) -> bool:
    """Whether the session cannot be derived later from stored rows. If it fails, it must be read again."""
    return result.part is None and not (result.task.append and state.parts)


def _state(kept: Digest | None, model: str | None) -> dict[str, Any] | None:
    """The state for parsers to continue from: the model, and the tokens so far, because a log may repeat their sum."""
    if kept is None:
        return None
    t = kept.tokens
    return {"spent": [t.input, t.output, t.cache_read, t.cache_write, t.reasoning or 0], "model": model}


def _kept_digest(store: Store, uid: str) -> Digest | None:
    with store.catalog.reading() as connection:
        text = digest_text(digests.of(connection, uid), store.key)
    return None if text is None else whole_digest(text)
