"""Proves the store: every row has its file and the reverse, numbers match the disk, digests cover what they say.

Belongs here: finding and naming what is wrong. Nothing is changed and no lock is taken, so a sweep may run meanwhile:
what changed during its check is checked again. Not here: repairs.
"""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Row, select

from helix_assets.agents import ADAPTERS
from helix_assets.agents.jsonl import PACKED
from helix_assets.model.errors import StoreError
from helix_assets.model.event import AFTER_THE_END, DOCUMENT, UNPARSED, UNPLACED
from helix_assets.model.identity import is_worldwide
from helix_assets.model.time import iso
from helix_assets.prove.verify_facts import wrong_facts
from helix_assets.settings import Settings
from helix_assets.store.catalog.ledger import News, claims_on, news_of, owners_of
from helix_assets.store.catalog.old_tables import (
    KEYS_SINCE,
    digests,
    evictions,
    losses,
    meta,
    raw_files,
    sessions,
    sources,
)
from helix_assets.store.catalog.session_keys import SessionKeys, all_keys, gathered
from helix_assets.store.folder import all_in
from helix_assets.store.key import text_hash
from helix_assets.store.proof import stream_hash
from helix_assets.store.store import Store, open_store
from helix_assets.store.words.keep import index_of, live_names

_AT_ONCE = 200
_COLUMNS = ["session_uid", "seq", "kind", "native_type", "record_id", "record_key", "raw"]
_SAME_IN_DIGEST = ("flavor", "repo", "domain", "task_ref", "cwd", "git_branch", "title", "parent_uid", "outcome")


@dataclass(frozen=True)
class Violation:
    """Something that must never be: the name of the check, what was found, and where."""

    check: str
    what: str
    session_uid: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class _Session:
    """What the catalog says of one session at one moment."""

    row: Row[Any]
    parts: Sequence[Row[Any]]
    sources: Sequence[Row[Any]]
    digest: Row[Any] | None
    lost_at: frozenset[int]
    was_evicted: bool
    news: News
    keys: SessionKeys | None
    are_keys_gathered: bool
    keys_since: int
    evicted_generations: frozenset[int]

    @property
    def mark(self) -> tuple[Any, ...]:
        """Differs whenever the session was written to."""
        return (self.row.generation, self.row.evicting_at, self.row.evicted_at, *(part.name for part in self.parts))

    def wrong(self, check: str, what: str, path: str | None = None) -> Violation:
        return Violation(check, what, self.row.session_uid, path)


@dataclass
class _Contents:
    """What a session's files contain, counted from the files."""

    rows: int = 0
    records: int = 0
    keys: set[int] = field(default_factory=set)
    parsed: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    last_seq: int = -1


def verify(store: Store) -> list[Violation]:
    """Everything that is wrong with the store; an empty list proves it."""
    found: list[Violation] = []
    for check in (_modes, _integrity, _unknown_files, _sessions, _facts, _search):
        try:
            found.extend(check(store))
        except StoreError as exc:
            found.append(Violation("catalog_readable", str(exc), path=str(store.catalog.path)))
    return found


# -- the catalog and the folder --------------------------------------------------------------------------------------


def _integrity(store: Store) -> Iterator[Violation]:
    for what in store.catalog.damage():
        yield Violation("catalog_integrity", what, path=str(store.catalog.path))


def _modes(store: Store) -> Iterator[Violation]:
    """Files and folders that other users could open."""
    for path, info in all_in(store.data_dir):
        if not stat.S_ISLNK(info.st_mode) and info.st_mode & 0o077:
            mode = stat.S_IMODE(info.st_mode)
            yield Violation("private", f"has mode {mode:04o}: run `chmod go= {path}`", path=path)


def _unknown_files(store: Store) -> Iterator[Violation]:
    """Files of the raw cache and the facts that the catalog does not name. A running or killed writer may have some."""
    on_disk = {path for root in (store.raw.root, store.facts.root) for path in root.rglob("*") if path.is_file()}
    if _is_being_written(store):
        return
    with store.catalog.reading() as connection:
        known = {store.raw.path(name) for name in connection.execute(select(raw_files.c.name)).scalars()}
    known |= {store.facts.path(file.name) for file in store.catalog.fact_files()}
    unknown = sorted(path for path in on_disk - known if path.exists())
    if unknown and not _is_being_written(store):
        for path in unknown:
            root = store.raw.root if path.is_relative_to(store.raw.root) else store.data_dir
            yield Violation("file_has_row", "is not in the catalog", path=str(path.relative_to(root)))


def _facts(store: Store) -> Iterator[Violation]:
    return (Violation(*wrong) for wrong in wrong_facts(store))


def _search(store: Store) -> Iterator[Violation]:
    """The search index is undamaged and contains nothing that is gone. The next sweep adds what it lacks."""
    from helix_assets.store.words.segment import names_of  # loads numpy

    whole, damaged = index_of(store).open(thorough=True)
    for path in damaged:
        what = "is damaged: run `helix search`, which rebuilds it from the raw cache"
        yield Violation("search_index", what, path=path.name)
    if names_of(whole) - _searched(store) and not _is_being_written(store):
        gone = names_of(index_of(store).open()[0]) - _searched(store)
        if gone:
            what = f"holds words of {len(gone)} files or digests that are gone: the next sweep with news erases them"
            yield Violation("search_index", what)


def _searched(store: Store) -> set[str]:
    """What the search index may contain: what belongs in it, and files whose eviction has begun."""
    with store.catalog.reading() as connection:
        return live_names(store).keys() | set(connection.execute(select(raw_files.c.name)).scalars())


def _is_being_written(store: Store) -> bool:
    """Whether a writer holds the lock, or was killed and its leftovers wait for the next one."""
    try:
        return (store.data_dir / "lock").stat().st_size > 0
    except FileNotFoundError:
        return False


# -- sessions --------------------------------------------------------------------------------------------------------


def _sessions(store: Store) -> Iterator[Violation]:
    with store.catalog.reading() as connection:
        uids = connection.execute(select(sessions.c.id, sessions.c.session_uid).order_by(sessions.c.session_uid)).all()
    for start in range(0, len(uids), _AT_ONCE):
        some = uids[start : start + _AT_ONCE]
        try:
            for session in _load(store, [row.id for row in some]):
                yield from _settled(store, session)
        except StoreError:
            yield from _one_by_one(store, [(row.id, row.session_uid) for row in some])


def _one_by_one(store: Store, some: Sequence[tuple[int, str]]) -> Iterator[Violation]:
    """Name the sessions for which the catalog cannot be read, and go on with the others."""
    for number, uid in some:
        try:
            for session in _load(store, [number]):
                yield from _settled(store, session)
        except StoreError as exc:
            yield Violation("catalog_readable", str(exc), uid)


def _load(store: Store, ids: Sequence[int]) -> list[_Session]:
    """Sessions with all that belongs to them, read at one moment."""
    with store.catalog.reading() as connection:

        def grouped(query: Any, key: str) -> dict[Any, list[Row[Any]]]:
            groups: dict[Any, list[Row[Any]]] = {}
            for row in connection.execute(query):
                groups.setdefault(getattr(row, key), []).append(row)
            return groups

        found = connection.execute(select(sessions).where(sessions.c.id.in_(ids)).order_by(sessions.c.session_uid))
        rows = found.all()
        uids = [row.session_uid for row in rows]
        parts = grouped(
            select(raw_files).where(raw_files.c.session_id.in_(ids)).order_by(raw_files.c.part), "session_id"
        )
        files = grouped(select(sources).where(sources.c.session_id.in_(ids)), "session_id")
        texts = grouped(select(digests).where(digests.c.session_uid.in_(uids)), "session_uid")
        lost = grouped(select(losses).where(losses.c.session_uid.in_(uids)), "session_uid")
        news = news_of(connection)
        keys, unsure = all_keys(connection, ids), gathered(connection)
        since = connection.execute(select(meta.c.value).where(meta.c.name == KEYS_SINCE)).scalar_one_or_none()
        gone = grouped(
            select(evictions.c.session_uid, evictions.c.generation).where(evictions.c.session_uid.in_(uids)),
            "session_uid",
        )
    return [
        _Session(
            row,
            parts.get(row.id, ()),
            files.get(row.id, ()),
            next(iter(texts.get(row.session_uid, ())), None),
            frozenset(loss.generation for loss in lost.get(row.session_uid, ())),
            row.session_uid in gone or row.session_uid in lost or row.evicting_at is not None,
            news,
            keys.get(row.id),
            row.id in unsure,
            int(since or 0),
            frozenset(one.generation for one in gone.get(row.session_uid, ())),
        )
        for row in rows
    ]


def _settled(store: Store, session: _Session) -> list[Violation]:
    """What is wrong with a session that nobody wrote to during the check."""
    while found := list(_session(store, session)):
        now = _load(store, [session.row.id])
        if not now or now[0].mark == session.mark:
            break
        session = now[0]
    return found


def _session(store: Store, session: _Session) -> Iterator[Violation]:
    contents = _Contents()
    keys: list[int] = []
    is_whole = session.row.evicting_at is None
    for part in session.parts:
        wrong = list(_file(store, session, part, contents, keys))
        is_whole = is_whole and not wrong
        yield from wrong
    yield from _counters(session, contents if is_whole else None)
    yield from _digest(store, session, contents if is_whole else None)
    yield from _watermarks(session)
    yield from _names(session)
    yield from _cursors(session)
    adapter = ADAPTERS.get(session.row.flavor)
    if adapter is not None and adapter.shares_history:
        yield from _ownership(store, session, keys)


def _file(
    store: Store, session: _Session, part: Row[Any], contents: _Contents, shareable: list[int]
) -> Iterator[Violation]:
    """One live file exists, has the right bytes and contains what the catalog says."""
    import pyarrow as pa

    try:
        with store.raw.path(part.name).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size != part.bytes:
                yield session.wrong(
                    "file_bytes", f"has {size} bytes where the catalog says {part.bytes}", path=part.name
                )
            elif stream_hash(file, store.key) != part.hash:
                yield session.wrong("file_hash", "is not the file that was written", path=part.name)
            else:
                yield from _rows(session, part, file, contents, shareable)
    except FileNotFoundError:
        if session.row.evicting_at is None:
            yield session.wrong("row_has_file", "the file is gone", path=part.name)
    except (OSError, pa.ArrowInvalid) as exc:
        yield session.wrong("file_readable", type(exc).__name__, path=part.name)


def _rows(
    session: _Session, part: Row[Any], file: Any, contents: _Contents, shareable: list[int]
) -> Iterator[Violation]:
    import pyarrow.parquet as pq

    file.seek(0)
    rows = records = 0
    last_seq = contents.last_seq
    keys = set[int]()
    parquet = pq.ParquetFile(file)
    for group in range(parquet.num_row_groups):
        table = parquet.read_row_group(group, columns=_COLUMNS, use_threads=False)
        if set(table.column("session_uid").to_pylist()) - {session.row.session_uid}:
            yield session.wrong("file_is_the_sessions", "holds rows of another session", path=part.name)
        has_raw = table.column("raw").is_valid().to_pylist()
        rows += table.num_rows
        records += sum(has_raw)
        contents.kinds.update(kind for kind in table.column("kind").to_pylist() if kind is not None)
        for seq in (seq for seq in table.column("seq").to_pylist() if seq != UNPLACED):
            if seq != last_seq + 1 and not (session.was_evicted and seq > last_seq):
                yield session.wrong("rows_in_sequence", f"seq {seq} follows {last_seq}", path=part.name)
            last_seq = seq
        columns = (table.column(name).to_pylist() for name in ("native_type", "record_id", "record_key"))
        for is_first, native_type, record_id, key in zip(has_raw, *columns, strict=True):
            if is_first and native_type != AFTER_THE_END:
                if native_type not in (UNPARSED, DOCUMENT):
                    contents.parsed += 1
                    contents.keys.add(key)
                if key in keys:
                    yield session.wrong("record_once", "holds a record twice", path=part.name)
                keys.add(key)
                if is_worldwide(record_id):
                    shareable.append(key)
    contents.last_seq = last_seq
    contents.rows += rows
    contents.records += records
    for name, counted, said in (("row", rows, part.row_count), ("record", records, part.record_count)):
        if counted != said:
            yield session.wrong(f"{name}_count", f"holds {counted} {name}s, not {said}", path=part.name)


def _counters(session: _Session, contents: _Contents | None) -> Iterator[Violation]:
    row = session.row
    sums = {
        "raw_bytes": sum(part.bytes for part in session.parts),
        "row_count": sum(part.row_count for part in session.parts),
        "record_count": sum(part.record_count for part in session.parts),
    }
    for name, total in sums.items():
        if (row.evicted_at is None or name == "raw_bytes") and row._mapping[name] != total:
            yield session.wrong(name, f"the catalog says {row._mapping[name]}, the files add up to {total}")
    if contents is not None and session.parts and contents.rows != sums["row_count"]:
        yield session.wrong("row_count", f"the files hold {contents.rows} rows, not {sums['row_count']}")


def _digest(store: Store, session: _Session, contents: _Contents | None) -> Iterator[Violation]:
    """The digest is the one that was written, agrees with its columns, and covers what it says."""
    row, held = session.row, session.digest
    if held is None:
        if row.derived_generation is not None or row.analyzed_at is not None:
            yield session.wrong("digest_exists", "counts as analysed and has no digest")
        return
    if text_hash(store.key, held.digest.encode()) != held.hash:
        yield session.wrong("digest_hash", "the digest is not the one that was written")
        return
    digest = orjson.loads(held.digest)
    covers = digest["coverage"]
    if not covers["generation"] == held.generation == row.derived_generation or held.generation > row.generation:
        yield session.wrong(
            "digest_generation",
            f"the digest covers generation {covers['generation']}, its row says {held.generation}, the session "
            f"{row.derived_generation} of {row.generation}",
        )
        return
    for name in ("flavor", "repo", "domain", "outcome", "started_at", "ended_at", "schema_version"):
        if held._mapping[name] != digest[name]:
            yield session.wrong("digest_columns", f"column {name} differs from the digest")
    is_current = held.generation == row.generation
    yield from _counted_once(session, digest, contents if is_current else None)
    if not is_current:
        return
    said = {name: row._mapping[name] for name in _SAME_IN_DIGEST}
    said |= {"started_at": iso(row.started_us), "ended_at": iso(row.ended_us), "unparsed_lines": row.unparsed_count}
    for name, value in said.items():
        if digest[name] != value:
            yield session.wrong("digest_agrees", f"{name} differs between session and digest")
    if contents is not None and session.parts:
        yield from _coverage(session, covers, contents)
        if not session.was_evicted and not row.is_partial and digest["kind_counts"] != contents.kinds:
            yield session.wrong("events_counted_once", "the digest counts other events than are stored")


def _coverage(session: _Session, covers: dict[str, int], contents: _Contents) -> Iterator[Violation]:
    """A digest at the current generation covers every stored record, and those evicted before."""
    for name, stored in (("records", contents.parsed), ("events", contents.kinds.total())):
        if covers[name] < stored or (covers[name] > stored and not session.was_evicted):
            yield session.wrong("digest_covers", f"covers {covers[name]} {name} where {stored} are stored")


def _counted_once(session: _Session, digest: dict[str, Any], contents: _Contents | None) -> Iterator[Violation]:
    """A digest counts every recorded key once, evicted or not. Those of a current one include all stored records."""
    keys = session.keys
    if keys is None and digest["record_count"] and (session.row.analyze_order or 0) > session.keys_since:
        yield session.wrong("counted_once", "which records its digest counts is not recorded")
    if keys is None or session.are_keys_gathered:
        return
    if contents is not None and not contents.keys <= keys.records:
        missing = len(contents.keys - keys.records)
        yield session.wrong("records_are_recorded", f"{missing} stored records are not among those that it counts")
    if digest["record_count"] != len(keys.records):
        what = f"the digest counts {digest['record_count']} records, the session has {len(keys.records)}"
        yield session.wrong("counted_once", what)


def _watermarks(session: _Session) -> Iterator[Violation]:
    """No raw bytes go before a digest covers them or a loss record names them, nor texts of rows that stay."""
    row = session.row
    covered = row.derived_generation if session.digest is not None and row.derived_generation is not None else -1
    if any(generation > covered and generation not in session.lost_at for generation in session.evicted_generations):
        yield session.wrong("evicted_was_covered", "texts or raw bytes went before a digest covered them")
    if row.evicted_at is None and row.evicting_at is None:
        return
    if row.evicted_at is not None and session.parts:
        yield session.wrong("evicted_is_gone", "is evicted and still has files")
    is_covered = session.digest is not None and row.derived_generation == row.generation
    if not is_covered and row.generation not in session.lost_at:
        yield session.wrong("evicted_is_covered", "raw bytes went without a covering digest or a loss record")


def _names(session: _Session) -> Iterator[Violation]:
    """What is written down twice says the same: uid, partition, paths."""
    row = session.row
    if row.session_uid != f"{row.flavor}:{row.native_session_id}":
        yield session.wrong("names_agree", "uid, agent and native id differ")
    for part in session.parts:
        if not part.name.startswith(f"flavor={row.flavor}/day={row.day}/"):
            yield session.wrong("names_agree", "is in another partition than the session", path=part.name)
    for source in session.sources:
        if source.path != source.path_key and not source.path_key.startswith("hidden:"):
            yield session.wrong("names_agree", "a source's path and its key differ", path=source.path)


def _cursors(session: _Session) -> Iterator[Violation]:
    for source in session.sources:
        # The offset of a packed file counts unpacked bytes; that of a doubted file does not say how far it was read.
        if source.offset > source.size and not source.path.endswith(PACKED) and not source.is_doubted:
            yield session.wrong(
                "cursor_within_file", f"read up to {source.offset} of {source.size} bytes", path=source.path
            )


def _ownership(store: Store, session: _Session, keys: Sequence[int]) -> Iterator[Violation]:
    """A record that several sessions contain is stored by its owner alone, and the ledger lists all these sessions."""
    claims: dict[int, set[int]] = {}
    with store.catalog.reading() as connection:
        for key, claimant in claims_on(connection, keys, session.news):
            claims.setdefault(key, set()).add(claimant)
        shared = [key for key, claimants in claims.items() if len(claimants) > 1]
        owners = owners_of(connection, shared)
    me = session.row.id
    missing = sum(me not in claims.get(key, ()) for key in keys)
    foreign = sum(owners.get(key) != me for key in shared)
    if missing:
        yield session.wrong("ledger_knows_records", f"the ledger misses {missing} of its records")
    if foreign:
        yield session.wrong("record_once", f"stores {foreign} records that another session owns")


def is_sound(settings: Settings) -> bool:
    """Whether the store exists and nothing is wrong with it."""
    if not settings.catalog_path.is_file():
        return False
    try:
        store = open_store(settings)
    except StoreError:
        return False
    try:
        return not verify(store)
    finally:
        store.close()
