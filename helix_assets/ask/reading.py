"""Reading one session from the store: complete and checked, or evicted. Readers never wait for a writer.

Belongs here: opening a store that exists, finding a session by what a person types, reading its rows and digest, and
reading again if files disappear meanwhile (`read_consistently`).
Not here: how any of it is shown (`cli`), or the check of the whole store (`prove.verify`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple, TypeVar

from helix_assets.ask.withheld import refuse_unredacted, refuse_withheld_texts
from helix_assets.model.digest_text import whole_digest
from helix_assets.model.errors import ChangedError, NotFoundError, StoreError
from helix_assets.model.event import Row as EventRow
from helix_assets.settings import Settings
from helix_assets.store.catalog import digests, live_files, sessions, sources
from helix_assets.store.catalog.catalog import Catalog
from helix_assets.store.catalog.connection import Row
from helix_assets.store.proof import digest_text, is_proven, stream_hash
from helix_assets.store.store import Store, open_store, refuse_lost_catalog

if TYPE_CHECKING:
    from helix_assets.model.digest import Digest

T = TypeVar("T")
_PATIENCE_S = 30.0


@dataclass(frozen=True)
class OpenSession:
    """A session at one time. Its files are kept open, so that its rows can be read even if it is evicted meanwhile."""

    row: Row
    sources: Sequence[Row]
    digest_text: str | None
    files: Sequence[IO[bytes]]

    @property
    def evicted_at(self) -> str | None:
        """When its rows were evicted; a session that is marked for eviction counts as evicted."""
        at: str | None = self.row.evicted_at or self.row.evicting_at
        return at

    @property
    def digest(self) -> Digest | None:
        """Its digest; None before there is one."""
        return None if self.digest_text is None else whole_digest(self.digest_text)

    def rows(self, *, raw: bool) -> Iterator[EventRow]:
        """All stored rows in `seq` order; without `raw` the source lines are not read."""
        from helix_assets.store.parquet import read_rows

        for file in self.files:
            file.seek(0)
        return read_rows(self.files, raw=raw)

    def record(self, wanted: int | str) -> EventRow | None:
        """The first row of the record with this id, or with an event of this number; its text is None if evicted."""
        from helix_assets.store.parquet import read_record

        return read_record(self.files, wanted)


def has_store(settings: Settings) -> bool:
    """Whether the folder of these settings has a store. StoreError if the store has lost its catalog."""
    if settings.catalog_path.is_file():
        return True
    refuse_lost_catalog(settings.data_dir)
    return False


def open_existing(settings: Settings) -> Store:
    """Open an existing store for reading; never creates one."""
    if not has_store(settings):
        raise NotFoundError(f"there is no memory in {settings.data_dir} yet: run `helix sweep` first")
    if not (settings.data_dir / "key").is_file():
        raise StoreError(
            f"{settings.data_dir / 'key'} is gone, and no file can be checked without it: restore it from the backup"
        )
    return open_store(settings)


def damage_of_catalog(settings: Settings) -> str | None:
    """What is wrong with the catalog, None if nothing is or there is none. StoreError if it cannot be opened."""
    if not settings.catalog_path.is_file():
        return None
    with closing(Catalog(settings.catalog_path)) as catalog:
        return next(catalog.damage(), None)


def matching_uids(store: Store, text: str, limit: int = 20) -> Sequence[str]:
    """The sessions that `text` may mean: its uid, or the first characters of its uid or native id."""
    with store.catalog.reading() as connection:
        if text in sessions.by_uid(connection, [text]):
            return (text,)
        return sessions.uids_that_begin(connection, text, limit) if text else ()


# -- reading while others write ------------------------------------------------------------------------------------


def read_consistently(read: Callable[[], T]) -> T:
    """What `read` returns. It asks the catalog which files count, then reads them, and is called again whenever these
    are replaced or evicted meanwhile. ChangedError if that lasts for half a minute.
    """
    until = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return read()
        except ChangedError:
            if time.monotonic() > until:
                raise


class NamedFile(NamedTuple):
    """A file of the memory, as named in the catalog."""

    path: Path
    bytes: int
    hash: str


def named_files(store: Store) -> Sequence[NamedFile]:
    """Every file that the catalog names now: those of facts, then the parts of sessions, the newest first."""
    with store.catalog.reading() as connection:
        facts, parts = live_files.fact_files(connection), live_files.parts_with_sessions(connection)
    named = [NamedFile(store.facts.path(file.name), file.bytes, file.hash) for file in facts]
    return named + [NamedFile(store.raw.path(row.name), row.bytes, row.hash) for row in parts]


def refuse_changed(store: Store, files: Iterable[tuple[Path, str]]) -> None:
    """ChangedError if the catalog no longer names any of these files, each with its hash.

    For files that are missing or do not match their hash: those that the catalog still names are damaged.
    """
    if not {(file.path, file.hash) for file in named_files(store)}.issuperset(files):
        raise ChangedError("the store changes faster than it can be read: try again")


@contextmanager
def open_session(store: Store, session_uid: str, *, with_texts: bool = True) -> Iterator[OpenSession]:
    """Open a session and check its files by their hashes. StoreError names a damaged one.

    WithheldError if the redaction rules changed and no sweep has redacted the session since. Without `with_texts` only
    its row and its digest are used, so its texts may still be withheld.
    """
    refuse_unredacted(store)
    with ExitStack() as stack:
        yield read_consistently(lambda: _opened(store, session_uid, stack, with_texts=with_texts))


def _opened(store: Store, uid: str, stack: ExitStack, *, with_texts: bool) -> OpenSession:
    stack.close()  # what an earlier try has opened
    row, parts, files_read, digest = _from_catalog(store, uid)
    if with_texts:
        refuse_withheld_texts(store, uid, row.redaction_version)
    else:
        parts = []
    try:
        files = [stack.enter_context(store.raw.open(part.name)) for part in parts]
    except FileNotFoundError as exc:
        _refuse_changed_parts(store, parts)
        raise StoreError(f"a file of {uid} is missing: run `helix verify`") from exc
    for part, file in zip(parts, files, strict=True):
        if stream_hash(file, store.key) != part.hash:
            _refuse_changed_parts(store, parts)
            raise StoreError(f"a file of {uid} is damaged: run `helix verify`")
    if digest is None and row.derived_generation is not None:
        raise StoreError(f"the digest of {uid} is missing: run `helix verify`")
    return OpenSession(row, files_read, digest_text(digest, store.key), files)


def _refuse_changed_parts(store: Store, parts: Iterable[Row]) -> None:
    refuse_changed(store, [(store.raw.path(part.name), part.hash) for part in parts])


def sound_digests(store: Store) -> Iterator[Digest]:
    """Every digest in one snapshot. Leaves out damaged ones, which `helix verify` names. WithheldError as above."""
    refuse_unredacted(store)
    with store.catalog.reading() as connection:
        rows = digests.every(connection)
    for row in rows:
        if is_proven(row, store.key):
            yield whole_digest(row.digest)


def proven_digest(store: Store, session_uid: str) -> Digest | None:
    """A session's digest, None if it has none. StoreError if it is damaged, WithheldError as above."""
    refuse_unredacted(store)
    with store.catalog.reading() as connection:
        row = digests.of(connection, session_uid)
    text = digest_text(row, store.key)
    return None if text is None else whole_digest(text)


def _from_catalog(store: Store, uid: str) -> tuple[Row, Sequence[Row], Sequence[Row], Row | None]:
    """A session with its live files, sources and digest, in one snapshot."""
    with store.catalog.reading() as connection:
        row = sessions.one(connection, uid)
        parts = live_files.parts_of(connection, [row.id]) if row.evicting_at is None else {}
        files = sources.of_sessions(connection, [row.id]).get(row.id, [])
        by_path = sorted(files, key=lambda file: str(file.path))
        return row, parts.get(row.id, []), by_path, digests.of(connection, uid)
