"""Tombstones: they keep a forgotten session from coming back, without saying what it was.

Belongs here: keyed hashes of session uids and of source paths, and reading them. Every sweep does, so nothing heavy
is loaded. Not here: the erasing (`keep.erase`).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

from helix_assets.model.digest_text import whole_digest, written_digest
from helix_assets.store.catalog import digests, sessions
from helix_assets.store.catalog.connection import Connection
from helix_assets.store.key import text_hash
from helix_assets.store.store import Store

_HIDDEN = "hidden:"


def session_mark(store: Store, uid: str) -> str:
    """What a tombstone contains instead of a session's uid."""
    return text_hash(store.key, b"session:" + uid.encode("utf-8", "surrogateescape"))


def source_mark(store: Store, path: str) -> str:
    """What a tombstone contains instead of a source's path on disk."""
    return text_hash(store.key, os.fsencode(path))


def mark_of_key(store: Store, path_key: str) -> str:
    """The mark of a source by its name in the catalog, which is its path or that same hash."""
    return path_key.removeprefix(_HIDDEN) if path_key.startswith(_HIDDEN) else source_mark(store, path_key)


def alias(store: Store, uid: str) -> str:
    """The name under which a forgotten session stays in logs whose figures must stay true."""
    return f"forgotten:{session_mark(store, uid)[:16]}"


def forgotten_marks(connection: Connection) -> frozenset[str]:
    """The marks of all sessions and sources that were forgotten."""
    return frozenset(connection.column("SELECT mark FROM forgotten"))


def extent(connection: Connection) -> tuple[int, str | None]:
    """How many tombstones there are, and the time of the newest."""
    count, newest = connection.execute("SELECT count(*), max(at) FROM forgotten").fetchone()
    return count, newest


def unfinished(connection: Connection) -> list[str]:
    """Sessions of which traces may be left outside the catalog."""
    return connection.column("SELECT unfinished FROM forgotten WHERE unfinished IS NOT NULL")


def put(connection: Connection, tombstones: Sequence[Mapping[str, str | None]]) -> None:
    """Leave tombstones, or renew them."""
    connection.upsert("forgotten", tombstones, ["mark"])


def all_finished(connection: Connection) -> None:
    """Nothing is left of any forgotten session."""
    connection.execute("UPDATE forgotten SET unfinished = NULL")


def stay_forgotten(store: Store, path: str, *, at: str) -> None:
    """Remember a file that contains a forgotten session, so that it is not read again."""
    with store.catalog.writing() as connection:
        connection.insert("forgotten", [{"mark": source_mark(store, path), "at": at}], or_="IGNORE")


def keep_tombstones(store: Store, catalog: Path) -> None:
    """Copy the tombstones of another catalog, if it can be read. Their sessions have to be erased again."""
    with suppress(sqlite3.Error), closing(sqlite3.connect(f"{catalog.absolute().as_uri()}?mode=ro", uri=True)) as other:
        rows = other.execute("select mark, at from forgotten").fetchall()
        with store.catalog.writing() as connection:
            tombstones = [{"mark": mark, "at": at, "unfinished": ""} for mark, at in rows]
            connection.insert("forgotten", tombstones, or_="IGNORE")


def without_parent(store: Store, connection: Connection, uids: Iterable[str]) -> None:
    """Remove these sessions as parents of others, in the catalog and in digests."""
    children = """SELECT s.id, s.facts, d.session_uid, d.digest FROM sessions s
        LEFT JOIN digests d ON d.session_uid = s.session_uid WHERE s.parent_uid IN ({})"""
    for child in connection.for_each(children, list(uids)):
        facts = {**child.facts, "parent_native_id": None}
        sessions.change(connection, child.id, parent_uid=None, facts=facts)
        if child.digest is not None:
            text = written_digest(replace(whole_digest(child.digest), parent_uid=None))
            digests.change(connection, child.session_uid, digest=text, hash=text_hash(store.key, text.encode()))
