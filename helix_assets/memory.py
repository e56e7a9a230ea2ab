"""`from helix_assets import Memory`: the memory for notebooks, scripts and other Dagster projects. Reads only.

Belongs here: digests, events and facts as DuckDB relations (`.df()` makes a DataFrame of one). All of it is proven by
its hashes and reads by the redaction rules in force. Not here: how a session is opened (`reading`), and the bare SQLite
table for programs without Python (docs/kaizen.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import orjson
from sqlalchemy import select

from helix_assets.core.errors import NotFoundError, SettingsError, StoreError
from helix_assets.core.facts import FACTS
from helix_assets.core.schema import Row as EventRow
from helix_assets.reading import digest_shown, is_outdated, is_proven, open_existing, open_session
from helix_assets.rescan import table_again
from helix_assets.settings import Settings, load_settings
from helix_assets.storage.catalog import CATALOG
from helix_assets.storage.tables import digests, hook_events, sessions
from helix_assets.store import Store

if TYPE_CHECKING:
    import pyarrow as pa
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

    from helix_assets.search import Filters, Finder, Found
    from helix_assets.sql import Answer

_COLUMNS = ("session_uid", "flavor", "repo", "domain", "outcome", "started_at", "ended_at", "schema_version", "day",
            "written_at", "digest")  # fmt: skip


class Memory:
    """An open memory. Relations stay valid until it is closed, and show what was there when they were asked for."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """Open the store whose `helix.db` is at `path`; without one HELIX_STORE_DB and then the settings name it."""
        self._store = open_existing(_settings(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store; relations made of it can be read no more."""
        if "_engine" in self.__dict__:
            self._engine.close()
        self._store.close()

    def digest(self, session_uid: str) -> dict[str, Any]:
        """One digest; NotFoundError when there is none."""
        found = self._store.get_digest(session_uid)
        if found is None:
            raise NotFoundError(f"no digest of {session_uid!r} in the memory; `helix sessions` lists the sessions")
        return found

    def digests(self, *, skip_damaged: bool = False) -> DuckDBPyRelation:
        """A row per session: the plain columns of the contract, and the digest as JSON.

        StoreError names the damaged ones, unless they are to be left out.
        """
        rows = list(_digest_rows(self._store, skip_damaged=skip_damaged))
        relation = self._relation(_table(rows))
        return relation.project("* replace (digest::json as digest)")

    def events(self, session_uid: str | None = None) -> DuckDBPyRelation:
        """The events of one session, or of all that are still cached, without the source lines; evicted: no rows."""
        import pyarrow as pa

        from helix_assets.storage.parquet import LIGHT, SCHEMA

        schema = pa.schema([field for field in SCHEMA if field.name in {"session_uid", *LIGHT}])
        uids = [session_uid] if session_uid is not None else self._cached()
        tables = []
        for uid in uids:
            with suppress(*([NotFoundError] if session_uid is None else [])):
                tables.append(_events(self._store, uid, schema))
        return self._relation(pa.concat_tables([schema.empty_table(), *tables]))

    def facts(self, name: str) -> DuckDBPyRelation:
        """One fact table over all sessions, evicted ones too: see docs/facts.md."""
        import pyarrow as pa

        from helix_assets.storage.facts import schema_of

        if name not in FACTS:
            raise NotFoundError(f"there is no fact {name!r}; there are {', '.join(FACTS)}")
        stale = self._stale_partitions()
        tables = [schema_of(name).empty_table()]
        for file in self._store.catalog.fact_files():
            if file.fact == name:
                table = self._store.facts.read(file)
                is_stale = (file.flavor, file.day) in stale
                tables.append(table_again(table, self._store.redactor) if is_stale else table)
        return self._relation(pa.concat_tables(tables))

    def hook_events(self) -> DuckDBPyRelation:
        """When things happened by the agents' own hooks: prompts, starts of tools, ends of turns and sessions."""
        import pyarrow as pa

        h = hook_events.c
        with self._store.catalog.reading() as connection:
            rows = connection.execute(select(h.session_uid, h.at, h.event, h.call_id).order_by(h.at)).all()
        names = ("session_uid", "ts", "event", "call_id")
        table = pa.table(
            {name: pa.array([row[place] for row in rows], pa.string()) for place, name in enumerate(names)}
        )
        return self._relation(table).project("* replace (ts::timestamptz as ts, nullif(call_id, '') as call_id)")

    def sql(self, query: str) -> Answer:
        """The answer to one SELECT over the views of docs/sql.md; QueryError says what is wrong with it."""
        from helix_assets.sql import ask

        return ask(self._store, query)

    def search(self, query: str, filters: Filters | None = None) -> Found:
        """The sessions that a full-text search finds: see docs/search.md."""
        return self._finder.find(query, filters)

    @cached_property
    def _finder(self) -> Finder:
        from helix_assets.search import Finder

        return Finder(self._store)

    def _cached(self) -> list[str]:
        s = sessions.c
        with self._store.catalog.reading() as connection:
            query = select(s.session_uid).where(s.evicted_at.is_(None), s.row_count > 0).order_by(s.session_uid)
            return list(connection.execute(query).scalars())

    def _stale_partitions(self) -> set[tuple[str, str]]:
        """Where sessions lie that were redacted by other rules than those in force."""
        s = sessions.c
        with self._store.catalog.reading() as connection:
            query = select(s.flavor, s.day).where(s.redaction_version != self._store.redactor.version).distinct()
            return {(flavor, day) for flavor, day in connection.execute(query)}

    def _relation(self, table: pa.Table) -> DuckDBPyRelation:
        return self._engine.from_arrow(table)

    @cached_property
    def _engine(self) -> DuckDBPyConnection:
        import duckdb

        return duckdb.connect(config={"autoinstall_known_extensions": False})


def _settings(path: str | os.PathLike[str] | None) -> Settings:
    settings = load_settings()
    named = path or os.environ.get("HELIX_STORE_DB")
    if not named:
        return settings
    file = Path(named).expanduser().absolute()
    if file.is_dir():
        file = file / CATALOG
    if file.name != CATALOG:
        raise SettingsError(f"{file} is no store: HELIX_STORE_DB, or the path given, has to end in {CATALOG}")
    return replace(settings, data_dir=file.parent)


def _digest_rows(store: Store, *, skip_damaged: bool) -> Iterator[dict[str, Any]]:
    query = select(digests, sessions.c.redaction_version).outerjoin(
        sessions, sessions.c.session_uid == digests.c.session_uid
    )
    with store.catalog.reading() as connection:
        rows = connection.execute(query.order_by(digests.c.session_uid)).all()
    damaged = [row.session_uid for row in rows if not is_proven(row, store.key)]
    if damaged and not skip_damaged:
        raise StoreError(f"damaged digests: {', '.join(damaged)}. Run `helix verify`")
    for row in rows:
        if row.session_uid in damaged:
            continue
        values = dict(row._mapping)
        if is_outdated(store, row.redaction_version):
            shown = digest_shown(store, row.digest, row.redaction_version)
            values |= {"repo": shown["repo"], "domain": shown["domain"], "digest": orjson.dumps(shown).decode()}
        yield values


def _events(store: Store, uid: str, schema: pa.Schema) -> pa.Table:
    import pyarrow as pa

    with open_session(store, uid) as session:
        rows = list(session.rows(raw=False))
    places = [EventRow._fields.index(field.name) for field in schema if field.name != "session_uid"]
    columns = [[row[place] for row in rows] for place in places]
    values = [[uid] * len(rows), *columns]
    return pa.Table.from_arrays(
        [pa.array(value, field.type) for value, field in zip(values, schema, strict=True)], schema=schema
    )


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    import pyarrow as pa

    types = {"schema_version": pa.int64()}
    return pa.table({name: pa.array([row[name] for row in rows], types.get(name, pa.string())) for name in _COLUMNS})
