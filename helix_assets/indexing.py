"""Keeping the search index in step with the raw cache: whatever counts is in it, whatever went is not.

The index is a function of the live part files and of the digests of evicted sessions, so there is one way to make it, to
bring it up to date and to mend it: compare the names, erase what is gone, add what is missing. A kill costs the part that
was being read. Belongs here: what ought to be in the index, and reading it. Not here: how an index lies on disk
(`storage.word_index`), or asking it (`search`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import func, select

from helix_assets.core.errors import StoreError
from helix_assets.core.words import WordHasher, Words
from helix_assets.reading import is_proven
from helix_assets.storage.raw_files import file_hash
from helix_assets.storage.tables import digests, raw_files, sessions
from helix_assets.storage.word_index import Document, WordIndex, names_of
from helix_assets.store import Store

DIGEST = "digest:"
AT_ONCE_BYTES = 64 << 20
"""So many bytes of part files make a segment; a kill costs no more than that."""
Read = list[tuple[Document, Words]]


@dataclass(frozen=True)
class Indexed:
    """What an update did: documents that went, files and digests that were added."""

    gone: int = 0
    added: int = 0


def index_of(store: Store) -> WordIndex:
    """The search index of a store."""
    return WordIndex(store.data_dir, store.key)


def live_names(store: Store) -> dict[str, Any]:
    """What ought to be in the index, by name: rows of live part files, and of digests whose session has none."""
    s, d, f = sessions.c, digests.c, raw_files.c
    with store.catalog.reading() as connection:
        parts = select(f.name, f.bytes, f.hash, s.session_uid, s.id).join(sessions).where(s.evicting_at.is_(None))
        found: dict[str, Any] = {row.name: row for row in connection.execute(parts)}
        rowless = select(d.session_uid, d.hash, s.id).join(sessions, s.session_uid == d.session_uid)
        gone = s.evicted_at.is_not(None) | s.evicting_at.is_not(None)
        found |= {DIGEST + row.hash: row for row in connection.execute(rowless.where(gone, s.raw_bytes == 0))}
        return found


def update_index(store: Store) -> Indexed:
    """Bring the index up to date, piece by piece; off: remove it. Needs the writer lock."""
    index, stamp = index_of(store), _stamp(store)
    if store.settings.search.index == "off":
        index.clear()
        return Indexed()
    live = live_names(store)
    gone = index.keep(live.__contains__)
    known = names_of(index.open()[0])
    missing = {name: row for name, row in live.items() if name not in known}
    added = 0
    for piece in _pieces(missing):
        read = _read_all(store, piece)
        if read:
            index.add(read)
        added += len({document.name for document, _ in read})
    index.stamp(stamp)
    return Indexed(gone, added)


def is_behind(store: Store) -> bool:
    """Whether the raw cache changed since the index was last brought up to date; looks at counts only."""
    stamp = index_of(store).stamped()
    return stamp is not None if store.settings.search.index == "off" else stamp != _stamp(store)


def _stamp(store: Store) -> str:
    """Differs whenever other files or digests are live."""
    s, f = sessions.c, raw_files.c
    with store.catalog.reading() as connection:
        files = connection.execute(select(func.count(), func.sum(f.id), func.max(f.id), func.sum(f.bytes))).one()
        going = connection.execute(select(func.count()).where(s.evicted_at.is_not(None))).scalar_one()
        stale = select(func.count()).where(s.redaction_version != store.redactor.version)
        return f"{tuple(files)} {going} {connection.execute(stale).scalar_one()} {store.redactor.version}"


def drop_gone(store: Store) -> None:
    """Erase from the index what is in the raw cache no more. Needs the writer lock."""
    index = index_of(store)
    if index.root.is_dir():
        index.keep(live_names(store).__contains__)


def _pieces(missing: Mapping[str, Any]) -> Iterator[list[tuple[str, Any]]]:
    piece: list[tuple[str, Any]] = []
    held = 0
    for name, row in missing.items():
        piece.append((name, row))
        held += 1 << 10 if name.startswith(DIGEST) else row.bytes
        if held >= AT_ONCE_BYTES:
            yield piece
            piece, held = [], 0
    if piece:
        yield piece


def _read_all(store: Store, piece: Sequence[tuple[str, Any]]) -> Read:
    """The words of some files and digests; what is damaged is left for `verify` to name."""
    hasher = WordHasher(store.key)
    texts = _digest_texts(store, [row.session_uid for name, row in piece if name.startswith(DIGEST)])
    found = [
        (Document(name, -1, words.size), words)
        for name, row in piece
        if name.startswith(DIGEST) and row.session_uid in texts
        for words in [hasher.words(texts[row.session_uid])]
    ]
    parts = [(name, row) for name, row in piece if not name.startswith(DIGEST)]
    # Reading and hashing let go of Python's lock for most of their time.
    with ThreadPoolExecutor(store.settings.sweep.workers) as pool:
        for one in pool.map(lambda part: _read_part(store, hasher, *part), parts):
            found += one
    return found


def _read_part(store: Store, hasher: WordHasher, name: str, row: Any) -> Read:
    from helix_assets.storage.parquet import read_texts

    try:
        if file_hash(store.raw.path(name), store.key) != row.hash:
            return []
        groups = read_texts(store.raw.path(name))
        return [(Document(name, place, words.size), words)
                for place, words in enumerate(map(hasher.words, groups))]  # fmt: skip
    except (OSError, StoreError):
        return []


def _digest_texts(store: Store, uids: Sequence[str]) -> dict[str, bytes]:
    """What is searched of digests: title, prompts, last message, error samples and the places they speak of."""
    wanted = set(uids)
    if not wanted:
        return {}
    with store.catalog.reading() as connection:
        rows = connection.execute(select(digests)).all()
    return {
        row.session_uid: "\n".join(text for _, text in digest_passages(orjson.loads(row.digest))).encode()
        for row in rows
        if row.session_uid in wanted and is_proven(row, store.key)
    }


def digest_passages(digest: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The texts of a digest that are searched, each with what it is."""
    for name in ("title", "first_prompt", "last_assistant", "repo", "git_branch", "task_ref", "cwd"):
        if digest.get(name):
            yield name, digest[name]
    for snippet in digest["error_snippets"]:
        yield "error", snippet["sample"]
    for file in digest["files"]:
        yield "file", file["path"]
