"""Keeping the search index in step with the raw cache: it contains what is stored, and nothing that is gone.

The index is a function of the live part files and of the digests of evicted sessions, so there is one way to build,
update and repair it: compare the names, erase what is gone, add what is missing. A kill costs the part that was being
read. Belongs here: what the index should contain, and reading that. Not here: the files of the index
(`store.words.segment`), or searching it (`ask.search`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helix_assets.model.digest_text import parsed_digest
from helix_assets.model.errors import StoreError
from helix_assets.store.catalog import digests, live_files, meta
from helix_assets.store.catalog.catalog import INDEX_FOLDER, index_bytes
from helix_assets.store.catalog.connection import Connection
from helix_assets.store.durable import drop, new_file, open_plain
from helix_assets.store.proof import is_proven
from helix_assets.store.raw import LIGHT
from helix_assets.store.store import Store

if TYPE_CHECKING:
    from helix_assets.store.words.hashing import WordHasher, Words
    from helix_assets.store.words.segment import Document, WordIndex

FoundWords = Mapping[str, Sequence["Words"]]
"""The words of each row group of part files, by file name, found while the files were written."""
STAMP = "stamp"
_log = logging.getLogger(__name__)
DIGEST = "digest:"
AT_ONCE_BYTES = 24 << 20
"""How many bytes of part files make a segment. A kill costs no more than that."""


@dataclass(frozen=True)
class Indexed:
    """What an update did: documents that went, files and digests that were added."""

    gone: int = 0
    added: int = 0


def index_of(store: Store) -> WordIndex:
    """The search index of a store."""
    from helix_assets.store.words.segment import WordIndex  # loads numpy: not for a sweep that finds nothing new

    return WordIndex(store.data_dir, store.key)


def live_names(store: Store) -> dict[str, Any]:
    """What the index should contain, by name: live part files, and digests of sessions whose texts went."""
    with store.catalog.reading() as connection:
        return _live_names(connection)


def _live_names(connection: Connection) -> dict[str, Any]:
    found: dict[str, Any] = {row.name: row for row in live_files.parts_to_search(connection)}
    return found | {DIGEST + row.hash: row for row in digests.without_texts(connection, LIGHT)}


def update_index(store: Store, *, words: FoundWords | None = None, thorough: bool = False) -> Indexed:
    """Bring the index up to date, piece by piece; remove it if it is off. Needs the writer lock.

    Files whose words are in `words` are not read again. `thorough` proves all of the index and rebuilds what is
    damaged.
    """
    from helix_assets.store.words.segment import names_of

    index = index_of(store)
    if store.settings.search.index == "off":
        index.remove()
        return Indexed()
    index.make_folder()
    with store.catalog.reading() as connection:
        stamp, live, raw_bytes = _stamp(store, connection), _live_names(connection), live_files.raw_usage(connection)
    gone = index.keep(live.__contains__, thorough=thorough)
    known = names_of(index.open()[0])
    missing = {name: row for name, row in live.items() if name not in known}
    added = 0
    for piece in _pieces(missing):
        if raw_bytes + index_bytes(store.data_dir) > store.settings.retention.raw_hard_cap_bytes:
            _log.warning(
                "the search index has no room under the hard cap: %d files stay unindexed", len(missing) - added
            )
            break
        read = _read_all(store, piece, words or {})
        if read:
            index.add(read)
        added += len({document.name for document, _ in read})
    if not known & live.keys() <= names_of(index.open()[0]):
        return update_index(store, words=words)  # a segment was found damaged during a merge, and removed
    _write_stamp(store, stamp)
    return Indexed(gone, added)


def keep_up(store: Store, *, changed: bool, words: FoundWords | None = None) -> None:
    """Bring the index up to date if needed. If it cannot be written, as on a full disk, the next sweep does it."""
    try:
        if changed or is_behind(store):
            update_index(store, words=words)
    except OSError as exc:
        _log.warning("the search index cannot be brought up to date (%s): the next sweep tries again", exc)


def is_behind(store: Store) -> bool:
    """Whether anything was written since the index was last brought up to date. Cheap, because every sweep asks."""
    try:
        with open_plain(store.data_dir / INDEX_FOLDER / STAMP) as file:
            stamped = file.read()
    except OSError:
        # If it is off, there should be none.
        return store.settings.search.index == "on" or (store.data_dir / INDEX_FOLDER).is_dir()
    with store.catalog.reading() as connection:
        return stamped != _stamp(store, connection).encode()


def _write_stamp(store: Store, text: str) -> None:
    path = store.data_dir / INDEX_FOLDER / STAMP
    drop(path)
    with new_file(path) as file:
        file.write(text.encode())


def _stamp(store: Store, connection: Connection) -> str:
    """Changes whenever other files or digests may be live, or there may be more room for them."""
    files, gone = live_files.newest(connection)
    order = meta.value(connection, meta.ORDER)
    room = store.settings.retention.raw_hard_cap_bytes
    return f"{store.settings.search.index} {order} {files} {gone} {store.rules_version} {room}"


def drop_gone(store: Store) -> None:
    """Erase from the index what is gone from the raw cache. The next sweep adds what is missing. Needs the lock."""
    from helix_assets.store.words.segment import names_of

    folder = store.data_dir / INDEX_FOLDER
    if folder.is_dir():
        index, live = index_of(store), live_names(store)
        index.keep(live.__contains__)
        # A replaced digest has another name now, and a segment that cannot be rewritten goes as a whole.
        if not live.keys() <= names_of(index.open()[0]):
            drop(folder / STAMP)


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


def _read_all(store: Store, piece: Sequence[tuple[str, Any]], known: FoundWords) -> list[tuple[Document, Words]]:
    """The words of some files and digests; those not known are read.

    Damaged files are left for `verify` to name. Where finding words fails, the file stays unindexed, as `search` says.
    """
    from helix_assets.store.words.hashing import WordHasher

    hasher = WordHasher(store.key)
    texts = _digest_texts(store, [row.session_uid for name, row in piece if name.startswith(DIGEST)])
    found: list[tuple[Document, Words]] = []
    for name, row in piece:
        if name.startswith(DIGEST) and row.session_uid in texts:
            found += _documents(name, -1, hasher, [texts[row.session_uid]])
    found += [_document(name, place, one) for name, _ in piece for place, one in enumerate(known.get(name, ()))]
    parts = [(name, row) for name, row in piece if not name.startswith(DIGEST) and name not in known]
    if not parts:
        return found
    # Reading and hashing release Python's lock for most of their time.
    with ThreadPoolExecutor(store.settings.sweep.workers) as pool:
        for one in pool.map(lambda part: _read_part(store, hasher, *part), parts):
            found += one
    return found


def _read_part(store: Store, hasher: WordHasher, name: str, row: Any) -> list[tuple[Document, Words]]:
    from helix_assets.store.parquet import read_texts

    return _documents(name, 0, hasher, read_texts(store.raw.path(name), store.key, row.hash))


def _documents(name: str, first: int, hasher: WordHasher, texts: Iterable[bytes]) -> list[tuple[Document, Words]]:
    try:
        return [_document(name, place, hasher.words(text)) for place, text in enumerate(texts, first)]
    except StoreError:
        return []
    except Exception as exc:  # noqa: BLE001 - a fault of the index must not stop the sweep
        _log.warning("%s stays out of the search index: %s while its words were found", name, type(exc).__name__)
        return []


def _document(name: str, place: int, words: Words) -> tuple[Document, Words]:
    from helix_assets.store.words.segment import Document

    return Document(name, place, words.size), words


def _digest_texts(store: Store, uids: Sequence[str]) -> dict[str, bytes]:
    """The searched texts of digests: title, prompts, last message, error samples, paths and places."""
    wanted = set(uids)
    if not wanted:
        return {}
    with store.catalog.reading() as connection:
        rows = digests.every(connection)
    return {
        row.session_uid: "\n".join(text for _, text in digest_passages(parsed_digest(row.digest))).encode()
        for row in rows
        if row.session_uid in wanted and is_proven(row, store.key)
    }


def digest_passages(digest: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """The texts of a digest that are searched, each with its kind."""
    for name in ("title", "first_prompt", "last_assistant", "repo", "git_branch", "task_ref", "cwd"):
        if digest.get(name):
            yield name, digest[name]
    for snippet in digest["error_snippets"]:
        yield "error", snippet["sample"]
    for file in digest["files"]:
        yield "file", file["path"]
