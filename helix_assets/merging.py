"""Sessions of which records went: what they have counted, and joining what came later to a kept digest and its facts.

A record is new if its key is not among those that the session has counted (`storage.session_keys`). While all of them
can be read, the digest is rebuilt from the log; only where some are gone for good is it merged.
Not here: how two digests become one (`core.merge`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Row, select

from helix_assets.adapters.base import SessionFacts
from helix_assets.core.errors import StoreError
from helix_assets.core.facts import SessionFactRows
from helix_assets.reading import digest_text
from helix_assets.storage.ledger import claims_of
from helix_assets.storage.session_keys import SessionKeys, add_keys, gathered, keys_of, keys_of_rows
from helix_assets.storage.tables import digests
from helix_assets.store import Store
from helix_assets.task import BEFORE_TIME, Earlier, Ingested

if TYPE_CHECKING:
    from helix_assets.core.digest import Digest
    from helix_assets.plan import SessionState


def earlier_of(store: Store, state: SessionState) -> Earlier:
    """What an evicted session counted before; StoreError where what is kept of it is damaged."""
    row = state.row
    if row is None:
        raise ValueError("a new session has counted nothing")
    kept = _kept_digest(store, state.uid)
    with store.catalog.reading() as connection:
        keys, is_recorded = keys_of(connection, row.id), row.id not in gathered(connection)
    if keys is None and kept is not None:
        keys, is_recorded = _gathered_keys(store, row, state.parts), False
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
    """Join what came later to the digest and facts that are kept; with damaged facts the digest waits."""
    from helix_assets.core.merge import merged  # loads pydantic

    earlier, row = result.task.earlier, state.row
    if not result.task.merges or result.digest is None or earlier is None or row is None:
        return result
    try:
        kept, facts = _kept_digest(store, state.uid), _kept_facts(store, row)
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
    """Whether what is stored of a session will not do to derive it later: then the reading waits, too."""
    return result.part is None and not (result.task.append and state.parts)


def put_unrecorded(store: Store, connection: Connection, row: Row[Any], parts: Sequence[Row[Any]]) -> None:
    """Record the keys of a session that its digest covers and of which an earlier version recorded none.

    Where some of its records are not stored, the rest of the keys are gathered: some may be missing.
    """
    is_all_stored = not row.evicted_records and not row.is_partial
    with suppress(StoreError):  # of a damaged one they are gathered when it matters
        if is_all_stored:
            keys = keys_of_rows([store.raw.path(part.name) for part in parts], store.key)
        else:
            keys = _gathered_keys(store, row, parts)
        add_keys(connection, [(row.id, keys)], is_gathered=not is_all_stored)


def _state(kept: Digest | None, model: str | None) -> dict[str, Any] | None:
    """All that parsers go on from: what was spent before, for a log may repeat the sum of it, and the model."""
    if kept is None:
        return None
    t = kept.tokens
    return {"spent": [t.input, t.output, t.cache_read, t.cache_write, t.reasoning or 0], "model": model}


def _gathered_keys(store: Store, row: Row[Any], parts: Sequence[Row[Any]]) -> SessionKeys:
    """The keys of a session that an earlier version evicted: of stored rows, facts, and what others may hold, too."""
    with store.catalog.reading() as connection:
        claimed = claims_of(connection, {row.id})
    facts = {fact[0] for rows in _kept_facts(store, row).values() for fact in rows}
    stored = keys_of_rows([store.raw.path(part.name) for part in parts], store.key)
    # Claims are of records and of messages, and do not say which: known they are, but they need not be met again.
    return SessionKeys(frozenset(facts), frozenset(), dict.fromkeys(claimed, 0)).with_more(stored)


def _kept_digest(store: Store, uid: str) -> Digest | None:
    from helix_assets.core.digest import Digest  # loads pydantic

    with store.catalog.reading() as connection:
        text = digest_text(connection.execute(select(digests).where(digests.c.session_uid == uid)).first(), store.key)
    return None if text is None else Digest.model_validate_json(text)


def _kept_facts(store: Store, row: Row[Any]) -> SessionFactRows:
    found: SessionFactRows = {}
    for file in store.catalog.fact_files({(row.flavor, row.day)}):
        rows = [fact for some in store.facts.rows(file) if some.session_uid == row.session_uid for fact in some.rows]
        if rows:
            found[file.fact] = rows
    return found
