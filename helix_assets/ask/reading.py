"""Reading one session from the store: complete and checked, or evicted. Readers never wait for a writer.

Belongs here: opening a store that exists, finding a session by what a person types, reading its rows and digest, and
reading again if files disappear meanwhile (`read_consistently`).
Not here: how any of it is shown (`cli`), or the check of the whole store (`prove.verify`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, NamedTuple, TypeVar

import orjson
from sqlalchemy import BindParameter, Row, Select, bindparam, func, or_, select

from helix_assets.agents import pieces_of
from helix_assets.model.errors import ChangedError, NotFoundError, StoreError
from helix_assets.model.event import Row as EventRow
from helix_assets.redaction import Redactor
from helix_assets.redaction.again import digest_again, row_again, rows_again, value_again
from helix_assets.settings import Settings
from helix_assets.store.catalog.catalog import Catalog
from helix_assets.store.catalog.old_tables import digests, raw_files, sessions, sources
from helix_assets.store.proof import digest_text, is_proven, stream_hash
from helix_assets.store.store import Store, open_store, refuse_lost_catalog

T = TypeVar("T")
_PATIENCE_S = 30.0
# Built once: building a query takes as long as its answer.
_UID: BindParameter[str] = bindparam("uid")
_ID: BindParameter[int] = bindparam("id")
_DIGEST: Select[Any] = (
    select(digests.c.session_uid, digests.c.digest, digests.c.hash, sessions.c.redaction_version)
    .outerjoin(sessions, sessions.c.session_uid == digests.c.session_uid)
    .where(digests.c.session_uid == _UID)
)
_SESSION = select(sessions).where(sessions.c.session_uid == _UID)
_PARTS = select(raw_files).where(raw_files.c.session_id == _ID).order_by(raw_files.c.part)
_SOURCES = select(sources).where(sources.c.session_id == _ID).order_by(sources.c.path)


@dataclass(frozen=True)
class OpenSession:
    """A session at one time. Its files are kept open, so that its rows can be read even if it is evicted meanwhile.

    All of it is shown by the current redaction rules; `redactor` is set if it was stored by other ones.
    """

    row: Any
    sources: Sequence[Any]
    digest: str | None
    files: Sequence[IO[bytes]]
    redactor: Redactor | None = None

    @property
    def evicted_at(self) -> str | None:
        """When its rows were evicted; a session that is marked for eviction counts as evicted."""
        at: str | None = self.row.evicted_at or self.row.evicting_at
        return at

    def digest_content(self) -> dict[str, Any] | None:
        """Its digest as data; None before there is one."""
        return None if self.digest is None else parsed_digest(self.digest)

    def rows(self, *, raw: bool) -> Iterator[EventRow]:
        """All stored rows in `seq` order; without `raw` the source lines are not read."""
        from helix_assets.store.parquet import read_rows

        for file in self.files:
            file.seek(0)
        rows = read_rows(self.files, raw=raw)
        return rows if self.redactor is None else rows_again(self.redactor, rows, pieces_of(self.row.flavor))

    def record(self, wanted: int | str) -> EventRow | None:
        """The first row of the record with this id, or with an event of this number; its text is None if evicted."""
        from helix_assets.store.parquet import read_record

        row = read_record(self.files, wanted)
        if row is None or self.redactor is None:
            return row
        if pieces_of(self.row.flavor) is None:
            return row_again(self.redactor, row)
        return next(again for again in self.rows(raw=True) if again.record_key == row.record_key)


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


def matching_uids(catalog: Catalog, text: str, limit: int = 20) -> list[str]:
    """The sessions that `text` may mean: its uid, or the first characters of its uid or native id."""
    s = sessions.c
    with catalog.reading() as connection:
        exact = connection.execute(select(s.session_uid).where(s.session_uid == text)).scalar_one_or_none()
        if exact is not None:
            return [exact]
        starts = [func.substr(column, 1, len(text)) == text for column in (s.session_uid, s.native_session_id)]
        found = select(s.session_uid).where(or_(*starts)).order_by(s.session_uid).limit(limit)
        return list(connection.execute(found).scalars()) if text else []


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


def named_files(store: Store) -> list[NamedFile]:
    """Every file that the catalog names now: those of facts, then the parts of sessions, the newest first."""
    facts = [NamedFile(store.facts.path(file.name), file.bytes, file.hash) for file in store.catalog.fact_files()]
    f = raw_files.c
    query = select(f.name, f.bytes, f.hash).join(sessions).where(sessions.c.evicting_at.is_(None)).order_by(f.id.desc())
    with store.catalog.reading() as connection:
        return facts + [NamedFile(store.raw.path(row.name), row.bytes, row.hash) for row in connection.execute(query)]


def refuse_changed(store: Store, files: Iterable[tuple[Path, str]]) -> None:
    """ChangedError if the catalog no longer names any of these files, each with its hash.

    For files that are missing or do not match their hash: those that the catalog still names are damaged.
    """
    if not {(file.path, file.hash) for file in named_files(store)}.issuperset(files):
        raise ChangedError("the store changes faster than it can be read: try again")


@contextmanager
def open_session(store: Store, session_uid: str) -> Iterator[OpenSession]:
    """Open a session and check its files by their hashes. StoreError names a damaged one."""
    with ExitStack() as stack:
        yield read_consistently(lambda: _opened(store, session_uid, stack))


def _opened(store: Store, uid: str, stack: ExitStack) -> OpenSession:
    stack.close()  # what an earlier try has opened
    row, parts, files_read, digest = _from_catalog(store, uid)
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
    text = digest_text(digest, store.key)
    if not is_outdated(store, row.redaction_version):
        return OpenSession(row, files_read, text, files)
    shown = [row_shown(store, source) for source in files_read]
    digest_now = text and orjson.dumps(digest_shown(store, text, row.redaction_version)).decode()
    return OpenSession(row_shown(store, row), shown, digest_now, files, store.redactor)


def _refuse_changed_parts(store: Store, parts: Iterable[Row[Any]]) -> None:
    refuse_changed(store, [(store.raw.path(part.name), part.hash) for part in parts])


def is_outdated(store: Store, redaction_version: str | None) -> bool:
    """Whether something was redacted by other than the current rules, and must be redacted again to be shown."""
    return redaction_version != store.redactor.version


def row_shown(store: Store, row: Any) -> Any:
    """A row of the catalog, redacted by the current rules."""
    shown = value_again(store.redactor, dict(row._mapping))
    if "path" in shown:
        shown["path"] = store.shown_path(row.path)
    return SimpleNamespace(**shown)


def parsed_digest(text: str) -> dict[str, Any]:
    """The content of a digest. Whatever needs a digest as data gets it here."""
    digest: dict[str, Any] = orjson.loads(text)
    return digest


def digest_shown(store: Store, text: str, redaction_version: str | None) -> dict[str, Any]:
    """A digest as a reader may show it, redacted by the current rules."""
    digest = parsed_digest(text)
    if is_outdated(store, redaction_version):
        digest = digest_again(store.redactor, digest)
    return digest


def sound_digests(store: Store) -> Iterator[dict[str, Any]]:
    """Every digest as a reader may show it, in one snapshot. Leaves out damaged ones, which `helix verify` names."""
    query = select(digests, sessions.c.redaction_version).outerjoin(
        sessions, sessions.c.session_uid == digests.c.session_uid
    )
    with store.catalog.reading() as connection:
        for row in connection.execute(query.order_by(digests.c.session_uid)):
            if is_proven(row, store.key):
                yield digest_shown(store, row.digest, row.redaction_version)


def proven_digest(store: Store, session_uid: str) -> dict[str, Any] | None:
    """A session's digest as a reader may show it, None if it has none. StoreError if it is damaged."""
    with store.catalog.reading() as connection:
        row = connection.execute(_DIGEST, {"uid": session_uid}).one_or_none()
    text = digest_text(row, store.key)
    return None if row is None or text is None else digest_shown(store, text, row.redaction_version)


def _from_catalog(store: Store, uid: str) -> tuple[Row[Any], Sequence[Row[Any]], Sequence[Row[Any]], Row[Any] | None]:
    """A session with its live files, sources and digest, in one snapshot."""
    with store.catalog.reading() as connection:
        row = connection.execute(_SESSION, {"uid": uid}).one_or_none()
        if row is None:
            raise NotFoundError(f"no session {uid!r} in the memory; `helix sessions` lists them")
        return (
            row,
            connection.execute(_PARTS, {"id": row.id}).all() if row.evicting_at is None else [],
            connection.execute(_SOURCES, {"id": row.id}).all(),
            connection.execute(_DIGEST, {"uid": uid}).one_or_none(),
        )
