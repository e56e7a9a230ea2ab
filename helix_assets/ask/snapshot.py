"""The store at one moment, as queries see it: what the catalog says in one snapshot, and which of its files are proven.

Belongs here: reading that snapshot and checking the files it names by their hashes. Not here: what is asked of it
(`ask.views`, `ask.sql`), or the proof of the store as a whole (`prove.verify`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import JSON, Connection, Row, exists, select

from helix_assets.ask.coverage import is_covered
from helix_assets.ask.reading import is_outdated, refuse_changed
from helix_assets.store.catalog.schema import digests, fact_files, losses, raw_files, sessions, sources
from helix_assets.store.fact_files import FactFile
from helix_assets.store.raw import file_hash
from helix_assets.store.store import Store

_HASHING_THREADS = 2


@dataclass(frozen=True)
class LiveFile:
    """A file that counts at this moment.

    `is_outdated`: some of it was redacted by other rules than those in force. `has_siblings`: it is a part of several.
    `may_lack`: columns, for it was written by an older version.
    """

    path: Path
    owner: str
    hash: str
    is_outdated: bool
    has_siblings: bool = False
    may_lack: bool = True


@dataclass(frozen=True)
class Moment:
    """What counts: rows of the catalog, live files, and `left_out`, the names of what is damaged and so not among them.

    A digest's row carries its session's redaction version.
    """

    sessions: Sequence[Any] = ()
    digests: Sequence[Row[Any]] = ()
    losses: Sequence[Row[Any]] = ()
    sources: Sequence[Any] = ()
    rows: Sequence[LiveFile] = ()
    facts: dict[str, list[LiveFile]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    @property
    def files(self) -> list[LiveFile]:
        """Every live file that was asked for."""
        return [*self.rows, *(file for files in self.facts.values() for file in files)]


def read_moment(  # noqa: PLR0913 - what of the store is wanted
    store: Store,
    *,
    with_sessions: bool,
    with_digests: bool,
    with_rows: bool,
    facts: Collection[str],
    rows_of: str | None = None,
) -> Moment:
    """The store now, as far as it is wanted, its files proven. `facts` names fact tables, `rows_of` the only session
    whose rows are wanted. ChangedError when files were replaced or evicted since the catalog was asked.
    """
    moment = _snapshot(store, with_sessions, with_digests, with_rows, facts, rows_of)
    if bad := _unproven(store.key, moment.files):
        refuse_changed(store, [(file.path, file.hash) for file in bad])
    return _without(moment, bad)


def _snapshot(  # noqa: PLR0913, PLR0917 - as above
    store: Store, with_sessions: bool, with_digests: bool, with_rows: bool, facts: Collection[str], rows_of: str | None
) -> Moment:
    s, d = sessions.c, digests.c
    # JSON tells queries nothing, and costs more than all else.
    plain = [column for column in s if not isinstance(column.type, JSON)]
    columns: list[Any] = [*plain, is_covered().label("is_covered")]
    if not with_sessions:
        columns = [s.flavor, s.day, s.redaction_version]
    with store.catalog.reading() as connection:
        known: Sequence[Row[Any]] = connection.execute(select(*columns).order_by(s.id)).all()
        version = s.redaction_version
        told = select(digests, version).join(sessions, s.session_uid == d.session_uid, isouter=True)
        missing = select(s.session_uid).where(
            s.derived_generation.is_not(None), ~exists().where(d.session_uid == s.session_uid)
        )
        return Moment(
            sessions=known if with_sessions else (),
            digests=connection.execute(told.order_by(d.session_uid)).all() if with_digests else (),
            losses=connection.execute(select(losses).order_by(losses.c.id)).all(),
            sources=connection.execute(
                select(sources.c.path, sources.c.file_rank, s.session_uid, version).join(sessions)
            ).all() if with_rows else (),
            rows=_raw_files(store, connection, rows_of) if with_rows else (),
            facts=_fact_files(store, connection, known, facts),
            left_out=tuple(connection.execute(missing).scalars()) if with_digests else (),
        )  # fmt: skip


def _raw_files(store: Store, connection: Connection, only: str | None) -> list[LiveFile]:
    s = sessions.c
    f = raw_files.c
    query = select(f.name, f.hash, f.part, f.text_bytes, s.session_uid, s.redaction_version).join(sessions)
    if only is not None:
        query = query.where(s.session_uid == only)
    # The newest first: DuckDB takes the columns from there, and complains about files that lack any.
    rows = connection.execute(query.where(s.evicting_at.is_(None)).order_by(f.id.desc())).all()
    grown = {row.session_uid for row in rows if row.part}
    return [
        LiveFile(
            path=store.raw.path(row.name),
            owner=row.session_uid,
            hash=row.hash,
            is_outdated=is_outdated(store, row.redaction_version),
            has_siblings=row.session_uid in grown,
            may_lack=row.text_bytes is None,
        )
        for row in rows
    ]


def _fact_files(
    store: Store, connection: Connection, known: Iterable[Any], wanted: Collection[str]
) -> dict[str, list[LiveFile]]:
    outdated = {(row.flavor, row.day) for row in known if is_outdated(store, row.redaction_version)}
    f = fact_files.c
    query = select(*(f[name] for name in FactFile._fields)).order_by(f.fact, f.name)
    found: dict[str, list[LiveFile]] = {}
    for file in map(FactFile._make, connection.execute(query)):
        if file.fact in wanted:
            is_old = (file.flavor, file.day) in outdated
            one = LiveFile(store.facts.path(file.name), file.name, file.hash, is_old)
            found.setdefault(file.fact, []).append(one)
    return found


def _unproven(key: bytes, files: Sequence[LiveFile]) -> list[LiveFile]:
    def is_proven(file: LiveFile) -> bool:
        try:
            return file_hash(file.path, key) == file.hash
        except OSError:
            return False

    with ThreadPoolExecutor(_HASHING_THREADS) as pool:
        return [file for file, proven in zip(files, pool.map(is_proven, files), strict=True) if not proven]


def _without(moment: Moment, bad: Sequence[LiveFile]) -> Moment:
    """The moment without damaged files; a session with one damaged part goes as a whole."""
    owners = {file.owner for file in bad}
    return replace(
        moment,
        rows=[file for file in moment.rows if file.owner not in owners],
        facts={fact: [file for file in files if file.owner not in owners] for fact, files in moment.facts.items()},
        left_out=tuple(sorted({*moment.left_out, *owners})),
    )
