"""Proves each session: its files, its counters, its digest and its records agree, and so does what is written twice.

Belongs here: one function for each promise about a session, listed in `OF_A_SESSION`. A sweep may run meanwhile: what
changed during its proof is proven again. Not here: promises about the store as a whole (`prove.promises`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from helix_assets.agents import ADAPTERS
from helix_assets.agents.jsonl import PACKED
from helix_assets.ask.coverage import versions
from helix_assets.model.digest_text import parsed_digest
from helix_assets.model.errors import StoreError
from helix_assets.model.event import AFTER_THE_END, DOCUMENT, UNPARSED, UNPLACED
from helix_assets.model.identity import is_worldwide
from helix_assets.model.time import iso
from helix_assets.prove.answer import Violation
from helix_assets.store.catalog import digests, live_files, losses, meta, sessions, sources
from helix_assets.store.catalog.connection import Row
from helix_assets.store.catalog.ledger import News, claims_on, news_of, owners_of
from helix_assets.store.catalog.schema import KEYS_SINCE
from helix_assets.store.catalog.session_keys import SessionKeys, all_keys
from helix_assets.store.proof import fault_of, is_proven
from helix_assets.store.store import Store

_AT_ONCE = 200
_COLUMNS = ["session_uid", "seq", "kind", "native_type", "record_id", "record_key", "raw"]
_SAME_IN_DIGEST = ("flavor", "repo", "domain", "task_ref", "cwd", "git_branch", "title", "parent_uid", "outcome")
_TOKENS = ("input", "output", "cache_read", "cache_write_5m", "cache_write_1h")
_SPENT = tuple(f"{kind}_tokens" for kind in _TOKENS)


@dataclass(frozen=True)
class Session:
    """What the catalog says of one session at one moment."""

    store: Store
    row: Row
    parts: Sequence[Row]
    sources: Sequence[Row]
    held: Row | None
    was_evicted: bool
    news: News
    keys: SessionKeys | None
    are_keys_gathered: bool
    keys_since: int
    is_stored_whole: bool

    @property
    def mark(self) -> tuple[Any, ...]:
        """Differs whenever the session was written to."""
        return (self.row.generation, self.row.evicting_at, self.row.evicted_at, *(part.name for part in self.parts))

    @cached_property
    def digest(self) -> dict[str, Any] | None:
        """Its digest, None if it is missing or damaged: `prove.promises` names these."""
        if self.held is None or not is_proven(self.held, self.store.key):
            return None
        return parsed_digest(self.held.digest)

    @cached_property
    def agreed(self) -> dict[str, Any] | None:
        """Its digest, if it is of the generation that its columns and the session's row say."""
        if self.digest is None or self.held is None:
            return None
        generation = self.held.generation
        says_the_same = self.digest["coverage"]["generation"] == generation == self.row.derived_generation
        return self.digest if says_the_same and generation <= self.row.generation else None

    @property
    def current(self) -> dict[str, Any] | None:
        """Its digest, if it is of the stored rows."""
        return self.agreed if self.row.derived_generation == self.row.generation else None

    def wrong(self, check: str, what: str, path: str | None = None) -> Violation:
        return Violation(check, what, self.row.session_uid, path)


@dataclass
class Contents:
    """What a session's files contain, counted from the files. `is_whole` if none is missing or damaged."""

    rows: int = 0
    records: int = 0
    keys: set[int] = field(default_factory=set)
    shareable: list[int] = field(default_factory=list)
    parsed: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    last_seq: int = -1
    is_whole: bool = True


Proof = Callable[[Session, Contents], Iterator[Violation]]


def wrong_sessions(store: Store) -> Iterator[Violation]:
    """Everything that is wrong with the sessions."""
    with store.catalog.reading() as connection:
        every = [(row.id, row.session_uid) for row in sessions.every_uid(connection)]
    return _proven(store, every, OF_A_SESSION)


def wrong_messages(store: Store, some: Collection[int]) -> Iterator[Violation]:
    """What is wrong with the tokens of these sessions, according to their stored messages. Reads nothing else."""
    return _proven(store, [(number, None) for number in some], (tokens_are_those_of_the_messages,))


def _proven(store: Store, some: Sequence[tuple[int, str | None]], proofs: Sequence[Proof]) -> Iterator[Violation]:
    """What is wrong with some sessions. One that the catalog cannot be read for is named, the others are proven."""
    for start in range(0, len(some), _AT_ONCE):
        batch = some[start : start + _AT_ONCE]
        try:
            for session in _load(store, [number for number, _ in batch]):
                yield from _settled(session, proofs)
        except StoreError as exc:
            if len(batch) == 1:
                yield Violation("catalog_readable", str(exc), batch[0][1])
            else:
                for one in batch:
                    yield from _proven(store, [one], proofs)


def _load(store: Store, ids: Collection[int]) -> list[Session]:
    """Sessions with all that belongs to them, read at one moment."""
    with store.catalog.reading() as connection:
        rows = sorted(sessions.by_id(connection, ids).values(), key=lambda row: str(row.session_uid))
        uids = [row.session_uid for row in rows]
        parts, files = live_files.parts_of(connection, ids), sources.of_sessions(connection, ids)
        held, went = digests.by_uid(connection, uids), losses.of_which_something_went(connection, uids)
        news, counted = news_of(connection), all_keys(connection, ids)
        since = int(meta.value(connection, KEYS_SINCE) or 0)
        whole = sessions.stored_whole(connection, versions(), ids)
    return [
        Session(
            store=store,
            row=row,
            parts=parts.get(row.id, ()),
            sources=files.get(row.id, ()),
            held=held.get(row.session_uid),
            was_evicted=row.session_uid in went or row.evicting_at is not None,
            news=news,
            keys=counted[row.id].keys if row.id in counted else None,
            are_keys_gathered=row.id in counted and counted[row.id].is_gathered,
            keys_since=since,
            is_stored_whole=row.id in whole,
        )
        for row in rows
    ]


def _settled(session: Session, proofs: Sequence[Proof]) -> list[Violation]:
    """What is wrong with a session that nobody wrote to during its proof."""
    while found := list(_wrong(session, proofs)):
        now = _load(session.store, [session.row.id])
        if not now or now[0].mark == session.mark:
            break
        session = now[0]
    return found


def _wrong(session: Session, proofs: Sequence[Proof]) -> Iterator[Violation]:
    contents = Contents()
    for proof in proofs:
        try:
            yield from proof(session, contents)
        except (TypeError, ValueError, ArithmeticError) as exc:  # a number of the catalog that is none, say
            what = f"a value of it in the catalog is damaged ({type(exc).__name__} in {proof.__name__})"
            yield Violation("catalog_readable", what, session.row.session_uid)


# -- the promises about a session ------------------------------------------------------------------------------------


def files_are_as_written(session: Session, contents: Contents) -> Iterator[Violation]:
    """Each live file exists, has the right bytes and contains what the catalog says. Fills in the contents."""
    contents.is_whole = session.row.evicting_at is None
    for part in session.parts:
        for wrong in _file(session, part, contents):
            contents.is_whole = False
            yield wrong


def _file(session: Session, part: Row, contents: Contents) -> Iterator[Violation]:
    import pyarrow as pa

    path = session.store.raw.path(part.name)
    if fault := fault_of(path, part.bytes, part.hash, session.store.key):
        if fault[0] != "row_has_file" or session.row.evicting_at is None:
            yield session.wrong(*fault, path=part.name)
        return
    try:
        yield from _rows(session, part, path, contents)
    except (OSError, pa.ArrowInvalid) as exc:
        yield session.wrong("file_readable", type(exc).__name__, path=part.name)


def _rows(session: Session, part: Row, path: Path, contents: Contents) -> Iterator[Violation]:
    import pyarrow.parquet as pq

    rows = records = 0
    last_seq = contents.last_seq
    keys = set[int]()
    parquet = pq.ParquetFile(path)
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
                    contents.shareable.append(key)
    contents.last_seq = last_seq
    contents.rows += rows
    contents.records += records
    for name, counted, said in (("row", rows, part.row_count), ("record", records, part.record_count)):
        if counted != said:
            yield session.wrong(f"{name}_count", f"holds {counted} {name}s, not {said}", path=part.name)


def counters_add_up(session: Session, contents: Contents) -> Iterator[Violation]:
    """Bytes, rows and records of the session are the sums of its files."""
    row = session.row
    sums = {
        "raw_bytes": sum(part.bytes for part in session.parts),
        "row_count": sum(part.row_count for part in session.parts),
        "record_count": sum(part.record_count for part in session.parts),
    }
    for name, total in sums.items():
        if (row.evicted_at is None or name == "raw_bytes") and row[name] != total:
            yield session.wrong(name, f"the catalog says {row[name]}, the files add up to {total}")
    if contents.is_whole and session.parts and contents.rows != sums["row_count"]:
        yield session.wrong("row_count", f"the files hold {contents.rows} rows, not {sums['row_count']}")


def generations_agree(session: Session, _: Contents) -> Iterator[Violation]:
    """The digest is of the generation that its columns and the session's row say."""
    if session.digest is not None and session.held is not None and session.agreed is None:
        yield session.wrong(
            "digest_generation",
            f"the digest covers generation {session.digest['coverage']['generation']}, its row says "
            f"{session.held.generation}, the session {session.row.derived_generation} of {session.row.generation}",
        )


def columns_are_those_of_the_digest(session: Session, _: Contents) -> Iterator[Violation]:
    """What is a column of the digest, too, says the same."""
    for name in ("flavor", "repo", "domain", "outcome", "started_at", "ended_at", "schema_version"):
        if session.agreed is not None and session.held is not None and session.held[name] != session.agreed[name]:
            yield session.wrong("digest_columns", f"column {name} differs from the digest")


def every_record_counts_once(session: Session, contents: Contents) -> Iterator[Violation]:
    """A digest counts every recorded key once, evicted or not. Those of a current one include all stored records."""
    digest, keys = session.agreed, session.keys
    if digest is None:
        return
    if keys is None and digest["record_count"] and (session.row.analyze_order or 0) > session.keys_since:
        yield session.wrong("counted_once", "which records its digest counts is not recorded")
    if keys is None or session.are_keys_gathered:
        return
    if session.current is not None and contents.is_whole and not contents.keys <= keys.records:
        missing = len(contents.keys - keys.records)
        yield session.wrong("records_are_recorded", f"{missing} stored records are not among those that it counts")
    if digest["record_count"] != len(keys.records):
        what = f"the digest counts {digest['record_count']} records, the session has {len(keys.records)}"
        yield session.wrong("counted_once", what)


def session_says_what_its_digest_says(session: Session, _: Contents) -> Iterator[Violation]:
    """What the session's row and a current digest both say is the same."""
    row = session.row
    said = {name: row[name] for name in _SAME_IN_DIGEST}
    said |= {"started_at": iso(row.started_us), "ended_at": iso(row.ended_us), "unparsed_lines": row.unparsed_count}
    for name, value in said.items():
        if session.current is not None and session.current[name] != value:
            yield session.wrong("digest_agrees", f"{name} differs between session and digest")


def digest_covers_what_is_stored(session: Session, contents: Contents) -> Iterator[Violation]:
    """A digest at the current generation covers every stored record, and those evicted before."""
    digest = session.current
    if digest is None or not contents.is_whole or not session.parts:
        return
    for name, stored in (("records", contents.parsed), ("events", contents.kinds.total())):
        covers = digest["coverage"][name]
        if covers < stored or (covers > stored and not session.was_evicted):
            yield session.wrong("digest_covers", f"covers {covers} {name} where {stored} are stored")
    if not session.was_evicted and not session.row.is_partial and digest["kind_counts"] != contents.kinds:
        yield session.wrong("events_counted_once", "the digest counts other events than are stored")


def tokens_are_those_of_the_messages(session: Session, contents: Contents) -> Iterator[Violation]:
    """A digest counts the tokens of its stored messages, once each: the last and largest line of a message counts."""
    digest = session.current
    if digest is None or not contents.is_whole or not session.is_stored_whole:
        return
    try:
        spent = _spent(session)
    except StoreError as exc:
        yield session.wrong("file_readable", str(exc))
        return
    if spent != [digest["tokens"][kind] or 0 for kind in _TOKENS]:
        yield session.wrong("tokens_of_messages", f"its tokens are not the {sum(spent)} of its messages")


def _spent(session: Session) -> list[int]:
    """The tokens of a session's stored messages, by kind."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    largest: dict[str, tuple[int, int, tuple[int, ...]]] = {}
    for part in session.parts:
        try:
            parquet = pq.ParquetFile(session.store.raw.path(part.name))
            table = parquet.read(["seq", "message_id", "tokens", *_SPENT], use_threads=False)
        except (OSError, pa.ArrowInvalid) as exc:
            raise StoreError(f"{part.name} is missing or damaged") from exc
        for row in table.filter(pc.is_valid(table.column("tokens"))).to_pylist():
            tokens = tuple(row[name] or 0 for name in _SPENT)
            line = (row["output_tokens"] or 0, row["seq"], tokens)
            message = row["message_id"] or f"line {row['seq']}"
            largest[message] = max(largest.get(message, line), line)
    return [sum(tokens[at] for _, _, tokens in largest.values()) for at in range(len(_TOKENS))]


def names_agree(session: Session, _: Contents) -> Iterator[Violation]:
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


def cursors_are_within_files(session: Session, _: Contents) -> Iterator[Violation]:
    """No log was read further than it is long."""
    for source in session.sources:
        # The offset of a packed file counts unpacked bytes; that of a doubted file does not say how far it was read.
        if source.offset > source.size and not source.path.endswith(PACKED) and not source.is_doubted:
            what = f"read up to {source.offset} of {source.size} bytes"
            yield session.wrong("cursor_within_file", what, path=source.path)


def shared_records_have_one_owner(session: Session, contents: Contents) -> Iterator[Violation]:
    """A record that several sessions contain is stored by its owner alone, and the ledger lists all these sessions."""
    adapter = ADAPTERS.get(session.row.flavor)
    if adapter is None or not adapter.shares_history:
        return
    claims: dict[int, set[int]] = {}
    with session.store.catalog.reading() as connection:
        for key, claimant in claims_on(connection, contents.shareable, session.news):
            claims.setdefault(key, set()).add(claimant)
        shared = [key for key, claimants in claims.items() if len(claimants) > 1]
        owners = owners_of(connection, shared)
    me = session.row.id
    missing = sum(me not in claims.get(key, ()) for key in contents.shareable)
    foreign = sum(owners.get(key) != me for key in shared)
    if missing:
        yield session.wrong("ledger_knows_records", f"the ledger misses {missing} of its records")
    if foreign:
        yield session.wrong("record_once", f"stores {foreign} records that another session owns")


OF_A_SESSION: Sequence[Proof] = (
    files_are_as_written,  # first: it counts what the others compare
    counters_add_up,
    generations_agree,
    columns_are_those_of_the_digest,
    every_record_counts_once,
    session_says_what_its_digest_says,
    digest_covers_what_is_stored,
    tokens_are_those_of_the_messages,
    names_agree,
    cursors_are_within_files,
    shared_records_have_one_owner,
)
