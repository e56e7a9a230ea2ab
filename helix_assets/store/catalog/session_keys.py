"""What each session has counted: the keys of its records, bad lines and messages. They outlive the raw bytes.

A record counts if and only if its key is new to its session, whatever happened to the log: a place in a file that may
be cut, rewritten or replaced proves nothing. Keys are stored in chunks, one for each commit that added some.
Belongs here: reading and writing the keys. Not here: who owns a record that several sessions contain
(`store.catalog.ledger`).
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from helix_assets.model.errors import StoreError
from helix_assets.model.event import AFTER_THE_END, DOCUMENT, UNPARSED
from helix_assets.store.catalog.connection import Connection
from helix_assets.store.key import hasher

MAX_CHUNKS = 32
"""A session with so many chunks gets them joined into one."""
Chunk = tuple[int, "SessionKeys"]
"""A session's id and some of its keys."""


class SessionKeys(NamedTuple):
    """The keys of a session's records and bad lines, and for each message the record whose usage counts."""

    records: frozenset[int] = frozenset()
    bad_lines: frozenset[int] = frozenset()
    messages: Mapping[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self.all)

    @property
    def all(self) -> frozenset[int]:
        """All keys that are counted, as one set."""
        return self.records | self.bad_lines | self.messages.keys()

    def with_more(self, more: SessionKeys) -> SessionKeys:
        """These keys and some more. For a message in both, the later record counts."""
        return SessionKeys(
            self.records | more.records, self.bad_lines | more.bad_lines, {**self.messages, **more.messages}
        )

    def without(self, known: SessionKeys | None) -> SessionKeys:
        """Those of these keys that are not among the known ones."""
        if known is None:
            return self
        messages = dict(self.messages.items() - known.messages.items())
        return SessionKeys(self.records - known.records, self.bad_lines - known.bad_lines, messages)


class Recorded(NamedTuple):
    """The keys that are recorded of a session, in how many chunks, and whether any were gathered."""

    keys: SessionKeys = SessionKeys()
    chunks: int = 0
    is_gathered: bool = False

    @property
    def is_full(self) -> bool:
        """Whether the chunks should be joined before another is added."""
        return self.chunks >= MAX_CHUNKS and not self.is_gathered


def keys_of(connection: Connection, session_id: int) -> SessionKeys | None:
    """All that the session has counted. None if nothing is recorded, as with earlier versions."""
    found = all_keys(connection, [session_id]).get(session_id)
    return None if found is None else found.keys


def all_keys(connection: Connection, session_ids: Collection[int]) -> dict[int, Recorded]:
    """The keys of those of these sessions that have any recorded. StoreError if they are damaged."""
    found: dict[int, Recorded] = {}
    for row in connection.for_each("SELECT * FROM session_keys WHERE session_id IN ({}) ORDER BY id", session_ids):
        before = found.get(row.session_id, Recorded())
        try:
            keys = before.keys.with_more(_unpacked(row))
        except ValueError as exc:
            raise StoreError(f"what session {row.session_id} counts is recorded in numbers that are cut") from exc
        found[row.session_id] = Recorded(keys, before.chunks + 1, before.is_gathered or row.is_gathered)
    return found


def gathered(connection: Connection) -> set[int]:
    """Sessions whose keys were gathered from what an earlier version left: some may be missing."""
    return set(connection.column("SELECT DISTINCT session_id FROM session_keys WHERE is_gathered"))


def recorded(connection: Connection, session_ids: Collection[int]) -> set[int]:
    """Those of these sessions whose keys are recorded."""
    query = "SELECT DISTINCT session_id FROM session_keys WHERE session_id IN ({})"
    return {row.session_id for row in connection.for_each(query, session_ids)}


def add_keys(connection: Connection, chunks: Iterable[Chunk], *, is_gathered: bool = False) -> None:
    """Add keys to those that are recorded of the sessions, in a chunk for each."""
    connection.insert("session_keys", [_packed(number, keys, is_gathered) for number, keys in chunks if keys])


def drop_keys(connection: Connection, session_ids: Collection[int]) -> None:
    """Remove the keys of sessions."""
    connection.run_for("DELETE FROM session_keys WHERE session_id IN ({})", session_ids)


def keys_of_rows(paths: Sequence[Path], key: bytes) -> SessionKeys:
    """The keys that a session's part files contain. StoreError if one is damaged."""
    from helix_assets.store.parquet import read_rows  # loads pyarrow

    hash64, messages, keys = hasher(key), dict[int, int](), dict[int, str]()
    for row in read_rows(paths, raw=False):
        if row.native_type != AFTER_THE_END:
            keys[row.record_key] = row.native_type
        if row.message_id and row.tokens is not None:
            messages[message_key(hash64, row.message_id)] = row.record_key
    return SessionKeys(
        frozenset(key for key, kind in keys.items() if kind not in (UNPARSED, DOCUMENT)),
        frozenset(key for key, kind in keys.items() if kind == UNPARSED),
        messages,
    )


def message_key(hash64: Callable[[bytes], int], message_id: str) -> int:
    """The key of an API message."""
    return hash64(b"message:" + message_id.encode("utf-8", "replace"))


def _packed(session_id: int, keys: SessionKeys, is_gathered: bool) -> dict[str, Any]:
    pairs = (number for pair in keys.messages.items() for number in pair)
    return {
        "session_id": session_id,
        "records": array("q", sorted(keys.records)).tobytes(),
        "bad_lines": array("q", sorted(keys.bad_lines)).tobytes(),
        "messages": array("q", pairs).tobytes(),
        "is_gathered": is_gathered,
    }


def _unpacked(row: Any) -> SessionKeys:
    pairs = array("q", row.messages)
    return SessionKeys(
        frozenset(array("q", row.records)),
        frozenset(array("q", row.bad_lines)),
        dict(zip(pairs[::2], pairs[1::2], strict=True)),
    )
