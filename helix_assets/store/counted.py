"""What a session that an earlier version evicted has counted, gathered from what is stored of it.

That version recorded no keys (`store.catalog.session_keys`). Some may be missing from what is gathered.
Not here: deciding by the keys what is new (`sweep.merging`).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from helix_assets.model.errors import StoreError
from helix_assets.model.facts import SessionFactRows
from helix_assets.store.catalog import live_files
from helix_assets.store.catalog.connection import Connection, Row
from helix_assets.store.catalog.ledger import claims_of
from helix_assets.store.catalog.session_keys import SessionKeys, add_keys, keys_of_rows
from helix_assets.store.store import Store


def put_unrecorded(store: Store, connection: Connection, row: Row, parts: Sequence[Row]) -> None:
    """Record the keys of a session that its digest covers and of which an earlier version recorded none.

    Where some of its records are not stored, the rest of the keys are gathered.
    """
    is_all_stored = not row.evicted_records and not row.is_partial
    with suppress(StoreError):  # of a damaged one they are gathered when it matters
        if is_all_stored:
            keys = keys_of_rows([store.raw.path(part.name) for part in parts], store.key)
        else:
            keys = gathered_keys(store, row, parts)
        add_keys(connection, [(row.id, keys)], is_gathered=not is_all_stored)


def gathered_keys(store: Store, row: Row, parts: Sequence[Row]) -> SessionKeys:
    """The keys of a session's stored rows, of its facts, and of what other sessions may hold, too."""
    with store.catalog.reading() as connection:
        claimed = claims_of(connection, {row.id})
    facts = {fact[0] for rows in kept_facts(store, row).values() for fact in rows}
    stored = keys_of_rows([store.raw.path(part.name) for part in parts], store.key)
    # Claims are of records and of messages, and do not say which: they are known, but need not be met again.
    return SessionKeys(frozenset(facts), frozenset(), dict.fromkeys(claimed, 0)).with_more(stored)


def kept_facts(store: Store, row: Row) -> SessionFactRows:
    """All facts of a session, by their tables."""
    found: SessionFactRows = {}
    with store.catalog.reading() as connection:
        files = live_files.fact_files(connection, {(row.flavor, row.day)})
    for file in files:
        rows = [fact for some in store.facts.rows(file) if some.session_uid == row.session_uid for fact in some.rows]
        if rows:
            found.setdefault(file.fact, []).extend(rows)
    return found
