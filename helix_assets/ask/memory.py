"""`from helix_assets import Memory`: the memory for notebooks, scripts and other Dagster projects. Reads only.

Belongs here: digests, events and facts as pandas DataFrames and as DuckDB relations. All of it is checked by its
hashes. What no sweep has redacted by the rules in force is withheld. Not here: what they contain (`ask.views`), and the
plain SQLite table for programs without Python (docs/kaizen.md).
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from helix_assets.ask.reading import open_existing, proven_digest
from helix_assets.ask.withheld import note_on_texts, refuse_unredacted, refuse_withheld_texts
from helix_assets.model.errors import NotFoundError, QueryError, SettingsError, StoreError
from helix_assets.model.facts import FACTS
from helix_assets.settings import Settings, load_settings
from helix_assets.store.catalog import hook_events, sessions
from helix_assets.store.catalog.catalog import CATALOG

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

    from helix_assets.ask.reports.frame import Report
    from helix_assets.ask.search import Filters, Finder, Found
    from helix_assets.ask.sql import Answer
    from helix_assets.model.digest import Digest

# The time that `since` is compared with. Facts and events without a time of their own count for the day of the session.
_TIMES = {"sessions": "coalesce(started_at, day)", "digests": "started_at", "patterns": "last_seen",
          "losses": "lost_at", "schema_versions": "day", "hook_events": "ts"}  # fmt: skip
_TIMES |= dict.fromkeys(("events", "records", *FACTS), "coalesce(ts, day)")


class Memory:
    """An open memory. A relation stays valid until it is closed, and shows the memory as it was when it was made."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        """Open the store whose `helix.db` is at `path`, by default that of HELIX_STORE_DB, else of the settings."""
        self._store = open_existing(_settings(path))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; its relations can no longer be read."""
        if "_engine" in self.__dict__:
            self._engine.close()
        self._store.close()

    def frame(self, name: str, since: date | str | None = None) -> pd.DataFrame:
        """A view of docs/sql.md, or `hook_events`, as a DataFrame: times are UTC, and unknown numbers are NA.

        With `since`, a day or a time (UTC if it names no zone), only what happened from then on. StoreError names what
        is damaged.
        """
        from helix_assets.ask.dataframes import to_frame

        if name not in _TIMES:
            raise NotFoundError(f"there is no view {name!r}; there are {', '.join(sorted(_TIMES))}")
        where = "true" if since is None else f"{_TIMES[name]} >= TIMESTAMP '{_utc(since)}'"
        if name == "hook_events":
            return to_frame(self.hook_events().filter(where).to_arrow_table())
        return to_frame(self._rows(name, where=where))

    def report(self, name: str, since: date | str | None = None, until: date | str | None = None) -> Report:
        """A report of docs/reports.md from the first to the last day; its `frame()` is a DataFrame."""
        from helix_assets.ask.reports.all_reports import make_report
        from helix_assets.ask.reports.frame import Span, day_of_text

        days = (day_of_text(which, day) for which, day in (("since", since), ("until", until)))
        return make_report(self._store, name, Span(*days))

    def digest(self, session_uid: str) -> Digest:
        """One digest, with all fields of docs/digest.schema.json. NotFoundError if there is none."""
        found = proven_digest(self._store, session_uid)
        if found is None:
            raise NotFoundError(f"no digest of {session_uid!r} in the memory; `helix sessions` lists the sessions")
        return found

    def digests(self, *, skip_damaged: bool = False) -> DuckDBPyRelation:
        """A row per digest, as the view of docs/sql.md: figures as columns, and the digest as JSON.

        StoreError names the damaged ones, unless `skip_damaged` leaves them out.
        """
        return self._view("digests", skip_damaged=skip_damaged)

    def events(self, session_uid: str | None = None) -> DuckDBPyRelation:
        """The events of one session or of all, as the view of docs/sql.md; an evicted session has none.

        WithheldError if this session's texts are withheld. Of all, these are left out with a warning that counts them.
        """
        refuse_unredacted(self._store)
        if session_uid is not None:
            self._refuse(session_uid)
        return self._view("events", rows_of=session_uid)

    def facts(self, name: str) -> DuckDBPyRelation:
        """One fact table over all sessions, including evicted ones, as the view of docs/sql.md."""
        if name not in FACTS:
            raise NotFoundError(f"there is no fact {name!r}; there are {', '.join(FACTS)}")
        return self._view(name)

    def hook_events(self) -> DuckDBPyRelation:
        """The times reported by the agents' hooks: prompts, starts of tools, ends of turns and sessions. UTC."""
        import pyarrow as pa

        refuse_unredacted(self._store)
        with self._store.catalog.reading() as connection:
            rows = hook_events.every(connection)
        names = ("session_uid", "ts", "event", "call_id")
        table = pa.table(
            {name: pa.array([row[place] for row in rows], pa.string()) for place, name in enumerate(names)}
        )
        return self._relation(table).project("* replace (ts::timestamp as ts, nullif(call_id, '') as call_id)")

    def sql(self, query: str) -> Answer:
        """The answer to one SELECT over the views of docs/sql.md. QueryError says what is wrong with it."""
        from helix_assets.ask.sql import ask

        return ask(self._store, query)

    def search(self, query: str, filters: Filters | None = None) -> Found:
        """The sessions that a full-text search finds: see docs/search.md."""
        return self._finder.find(query, filters)

    @cached_property
    def _finder(self) -> Finder:
        from helix_assets.ask.search import Finder

        return Finder(self._store)

    def _refuse(self, session_uid: str) -> None:
        """An error unless the memory contains this session and its texts may be shown."""
        with self._store.catalog.reading() as connection:
            session = sessions.one(connection, session_uid)
        refuse_withheld_texts(self._store, session_uid, session.redaction_version)

    def _view(self, name: str, *, skip_damaged: bool = False, rows_of: str | None = None) -> DuckDBPyRelation:
        """All rows of a view, copied, so that later sweeps do not change them."""
        return self._relation(self._rows(name, skip_damaged=skip_damaged, rows_of=rows_of))

    def _rows(
        self, name: str, *, where: str = "true", skip_damaged: bool = False, rows_of: str | None = None
    ) -> pa.Table:
        from helix_assets.ask.views import Views, with_views

        def rows(views: Views) -> pa.Table:
            if views.left_out and not skip_damaged:
                raise StoreError(f"damaged: {', '.join(views.left_out)}. Run `helix verify`")
            if views.withheld:
                warnings.warn(note_on_texts(views.withheld), stacklevel=2)
            return views.connection.sql(f"FROM {name} WHERE {where}").to_arrow_table()

        return with_views(self._store, [name], rows, rows_of=rows_of)

    def _relation(self, table: pa.Table) -> DuckDBPyRelation:
        return self._engine.from_arrow(table)

    @cached_property
    def _engine(self) -> DuckDBPyConnection:
        import duckdb

        return duckdb.connect(config={"autoinstall_known_extensions": False})


def _utc(since: date | str) -> datetime:
    """A day or time as UTC, without a zone as the views have it."""
    try:
        moment = datetime.fromisoformat(since if isinstance(since, str) else since.isoformat())
        return (moment.astimezone(UTC) if moment.tzinfo else moment).replace(tzinfo=None)
    except (AttributeError, ValueError, OverflowError) as exc:
        raise QueryError(f"since {since!r} is not a time: write it like 2026-01-31 or 2026-01-31T18:30+00:00") from exc


def _settings(path: str | os.PathLike[str] | None) -> Settings:
    settings = load_settings()
    named = path or os.environ.get("HELIX_STORE_DB")
    if not named:
        return settings
    file = Path(named).expanduser().absolute()
    if file.is_dir():
        file = file / CATALOG
    if file.name != CATALOG:
        raise SettingsError(f"{file} is not a store: HELIX_STORE_DB, or the path given, has to end in {CATALOG}")
    return replace(settings, data_dir=file.parent)
