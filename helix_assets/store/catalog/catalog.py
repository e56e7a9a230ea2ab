"""The catalog: sources and cursors, sessions with their watermarks, digests, the ledger of record keys, losses.

SQLite in WAL mode through SQLAlchemy Core. Belongs here: what is read from and written to the tables. There is no
method that deletes a digest. Not here: when any of it happens (`sweep.sweep`).
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from json import JSONDecodeError
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import (
    Connection,
    Engine,
    Row,
    Table,
    bindparam,
    create_engine,
    delete,
    event,
    func,
    insert,
    literal_column,
    select,
    update,
)
from sqlalchemy.dialects.sqlite import insert as upsert
from sqlalchemy.exc import DatabaseError, IntegrityError, ProgrammingError

from helix_assets.model.changes import FileState
from helix_assets.model.errors import DiskFullError, NotFoundError, StoreError
from helix_assets.model.facts import FACTS
from helix_assets.store.catalog.schema import (
    CATALOG_VERSION,
    MIGRATIONS,
    digests,
    evictions,
    fact_files,
    losses,
    meta,
    problems,
    raw_files,
    sessions,
    shared_keys,
    sources,
    sweeps,
)
from helix_assets.store.fact_files import FactFile
from helix_assets.store.lock import writer_lock

if TYPE_CHECKING:
    from helix_assets.model.digest import Digest

CATALOG = "helix.db"
INDEX_FOLDER = "search"
_ROOM_TO_READ = 64 << 10
_MANY = 5_000
_FEW = 50
# Built once: a sweep without news runs it ten times, and building it takes as long as running it.
_META_VALUE = select(meta.c.value).where(meta.c.name == bindparam("name"))


class KnownSources(NamedTuple):
    """What the catalog remembers of all files by path key: their states, and the status of those that are not fine."""

    states: dict[str, FileState]
    unusual: dict[str, str]


_DAMAGED_KEYS = """SELECT DISTINCT session_uid FROM session_keys JOIN sessions ON sessions.id = session_id
    WHERE length(records) % 8 OR length(bad_lines) % 8 OR length(messages) % 16"""


class Catalog:
    """One open catalog. Reads take a snapshot each; writes need the writer lock, which the caller holds."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.engine = _engine(path)

    def close(self) -> None:
        if (watcher := self.__dict__.pop("_watcher", None)) is not None:
            watcher.close()
        self.engine.dispose()

    @cached_property
    def _watcher(self) -> sqlite3.Connection:
        """A connection that never writes, and so notices what all others do."""
        return sqlite3.connect(self.path, check_same_thread=False, isolation_level=None)

    def change(self) -> int:
        """A number that changes with every commit."""
        try:
            return int(self._watcher.execute("PRAGMA data_version").fetchone()[0])
        except sqlite3.Error as exc:
            raise StoreError(f"{self.path} cannot be read: {exc}. `helix verify` says what is damaged") from exc

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection whose reads all see one moment."""
        with _plainly(self.path, "read"), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction: all of it or nothing."""
        with _plainly(self.path, "written"), self.engine.begin() as connection:
            yield connection

    # -- reading -----------------------------------------------------------------------------------------------------

    def known_sources(self) -> KnownSources:
        """Every file ever seen."""
        with self.reading() as connection:
            s = sources.c
            rows = connection.execute(select(s.path_key, s.dev, s.inode, s.size, s.mtime_ns))
            # Straight from the driver: this takes most of the time of a sweep that finds nothing new.
            states = {row[0]: row[1:] for row in rows.cursor.fetchall()}
            is_unusual = s.status != literal_column("'ok'")  # without a parameter SQLite can use a partial index
            unusual = connection.execute(select(s.path_key, s.status).where(is_unusual))
            return KnownSources(states, {row[0]: row[1] for row in unusual})

    def session(self, session_uid: str) -> Row[Any]:
        """One session's row; NotFoundError when there is none."""
        with self.reading() as connection:
            row = connection.execute(select(sessions).where(sessions.c.session_uid == session_uid)).one_or_none()
        if row is None:
            raise NotFoundError(f"no session {session_uid!r} in the memory; `helix sessions` lists them")
        return row

    def sessions_by_uid(self, uids: Collection[str]) -> dict[str, Row[Any]]:
        """Those of the sessions that exist."""
        with self.reading() as connection:
            return {
                row.session_uid: row
                for part in in_parts(uids)
                for row in connection.execute(select(sessions).where(sessions.c.session_uid.in_(part)))
            }

    def sessions_by_id(self, ids: Collection[int]) -> dict[int, Row[Any]]:
        """Those of the sessions that exist."""
        with self.reading() as connection:
            return {
                row.id: row
                for part in in_parts(ids)
                for row in connection.execute(select(sessions).where(sessions.c.id.in_(part)))
            }

    def files_of(self, session_ids: Collection[int]) -> dict[int, list[Row[Any]]]:
        """Live part files by session, in order."""
        query = select(raw_files).order_by(raw_files.c.session_id, raw_files.c.part)
        return self._grouped(query, raw_files.c.session_id, session_ids)

    def sources_of(self, session_ids: Collection[int]) -> dict[int, list[Row[Any]]]:
        """Source files by session."""
        return self._grouped(select(sources).order_by(sources.c.path_key), sources.c.session_id, session_ids)

    def _grouped(self, query: Any, column: Any, ids: Collection[int]) -> dict[int, list[Row[Any]]]:
        found: dict[int, list[Row[Any]]] = {}
        with self.reading() as connection:
            for part in in_parts(ids):
                for row in connection.execute(query.where(column.in_(part))):
                    found.setdefault(row.session_id, []).append(row)
        return found

    def fact_files(self, partitions: Collection[tuple[str, str]] | None = None) -> list[FactFile]:
        """Live fact files, of these (flavor, day) partitions or of all."""
        f = fact_files.c
        query = select(*(f[name] for name in FactFile._fields)).order_by(f.fact, f.flavor, f.day)
        if partitions is not None and len(partitions) <= _FEW:
            flavors, days = zip(*partitions, strict=True) if partitions else ((), ())
            query = query.where(f.fact.in_(FACTS), f.flavor.in_(set(flavors)), f.day.in_(set(days)))
        with self.reading() as connection:
            files = [FactFile._make(row) for row in connection.execute(query)]
        return [file for file in files if partitions is None or (file.flavor, file.day) in partitions]

    def uids_by_partition(self, partitions: Collection[tuple[str, str]]) -> dict[tuple[str, str], set[str]]:
        """The sessions of these (flavor, day) partitions."""
        s = sessions.c
        found: dict[tuple[str, str], set[str]] = {partition: set() for partition in partitions}
        with self.reading() as connection:
            for part in in_parts({day for _, day in partitions}):
                of_days = s.flavor.in_({flavor for flavor, _ in partitions}) & s.day.in_(part)
                for row in connection.execute(select(s.flavor, s.day, s.session_uid).where(of_days)):
                    if (row.flavor, row.day) in found:
                        found[row.flavor, row.day].add(row.session_uid)
        return found

    def sources_by_key(self, path_keys: Collection[str]) -> dict[str, Row[Any]]:
        """The full rows of some files."""
        with self.reading() as connection:
            return {
                row.path_key: row
                for part in in_parts(path_keys)
                for row in connection.execute(select(sources).where(sources.c.path_key.in_(part)))
            }

    def get_digest(self, session_uid: str) -> Digest | None:
        """The session's digest, None when it has none yet."""
        with self.reading() as connection:
            text = connection.execute(
                select(digests.c.digest).where(digests.c.session_uid == session_uid)
            ).scalar_one_or_none()
        if text is None:
            return None
        from helix_assets.model.digest import Digest  # loads pydantic, which few callers need

        return Digest.model_validate_json(text)

    def place_problems(self) -> dict[tuple[str, str], bool]:
        """Problems of whole files and folders by path key and reason, and whether the path is a source."""
        p, is_source = problems.c, sources.c.id.is_not(None)
        query = select(p.path_key, p.reason, is_source).outerjoin(sources, sources.c.path_key == p.path_key)
        with self.reading() as connection:
            return {(row[0], row[1]): row[2] for row in connection.execute(query.where(p.line == 0))}

    def meta_value(self, name: str) -> str | None:
        """A fact about the store itself."""
        with self.reading() as connection:
            return connection.execute(_META_VALUE, {"name": name}).scalar_one_or_none()

    def raw_usage(self) -> int:
        """Bytes of Tier 1: the sum over live files, without the search index."""
        with self.reading() as connection:
            return int(connection.execute(select(func.coalesce(func.sum(raw_files.c.bytes), 0))).scalar_one())

    def damage(self) -> Iterator[str]:
        """What is wrong with the database itself: its pages, its indexes, its references."""
        with self.reading() as connection:
            for (line,) in connection.exec_driver_sql("PRAGMA integrity_check"):
                if line != "ok":
                    yield str(line)
            for table, *_ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
                yield f"a row of {table} points nowhere"
            for (uid,) in connection.exec_driver_sql(_DAMAGED_KEYS):
                yield f"what {uid} counts is recorded in numbers that are cut"

    # -- writing -----------------------------------------------------------------------------------------------------

    def next_order(self, connection: Connection) -> int:
        """The next number in the order of work."""
        text = connection.execute(select(meta.c.value).where(meta.c.name == "order")).scalar_one_or_none()
        number = int(text or 0) + 1
        self.set_meta(connection, "order", str(number))
        return number

    def set_meta(self, connection: Connection, name: str, value: str) -> None:
        """Remember a fact about the store itself."""
        connection.execute(
            upsert(meta)
            .values(name=name, value=value)
            .on_conflict_do_update(index_elements=["name"], set_={"value": value})
        )

    def next_ids(self, connection: Connection, count: int) -> range:
        """Ids for so many new sessions. There is one writer, so they stay free until the transaction ends."""
        last = connection.execute(select(func.coalesce(func.max(sessions.c.id), 0))).scalar_one()
        return range(last + 1, last + 1 + count)

    def put_sessions(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert or update sessions by uid. Columns that never change are kept. All rows have the same columns."""
        _upsert(connection, sessions, rows, ["session_uid"], keep=("id", "day", "discovered_at", "file_key"))

    def update_session(self, connection: Connection, session_id: int, **values: Any) -> None:
        """Change some columns of a session."""
        connection.execute(update(sessions).where(sessions.c.id == session_id).values(**values))

    def put_sources(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Insert or update files by path key; every row must have the same columns."""
        _upsert(connection, sources, rows, ["path_key"], keep=("discovered_at",))

    def mark_sources(self, connection: Connection, path_keys: Collection[str], **values: Any) -> None:
        """Change some columns of some files."""
        for part in in_parts(path_keys):
            connection.execute(update(sources).where(sources.c.path_key.in_(part)).values(**values))

    def drop_sources(self, connection: Connection, path_keys: Collection[str]) -> None:
        """Remove files that were moved elsewhere."""
        for part in in_parts(path_keys):
            connection.execute(delete(sources).where(sources.c.path_key.in_(part)))

    def put_raw_files(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Name published files as live."""
        if rows:
            connection.execute(insert(raw_files), list(rows))

    def replace_raw_file(self, connection: Connection, number: int, **values: Any) -> None:
        """Replace a live file by another."""
        connection.execute(update(raw_files).where(raw_files.c.id == number).values(**values))

    def join_raw_files(self, connection: Connection, numbers: Collection[int], joined: Mapping[str, Any]) -> None:
        """Replace several live files by one."""
        connection.execute(delete(raw_files).where(raw_files.c.id.in_(numbers)))
        connection.execute(insert(raw_files).values(**joined))

    def drop_raw_files(self, connection: Connection, session_ids: Collection[int]) -> list[str]:
        """Remove the live files of sessions. Returns their names so that they can be unlinked after the commit."""
        names: list[str] = []
        for part in in_parts(session_ids):
            names += connection.execute(
                delete(raw_files).where(raw_files.c.session_id.in_(part)).returning(raw_files.c.name)
            ).scalars()
        return names

    def put_fact_files(self, connection: Connection, files: Sequence[FactFile], gone: Sequence[FactFile]) -> None:
        """Name these files as live, each replacing the one before. `gone` ones have no successor."""
        _upsert(connection, fact_files, [file._asdict() for file in files], ["fact", "flavor", "day"])
        for file in gone:
            connection.execute(delete(fact_files).where(fact_files.c.name == file.name))

    def put_digests(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write or replace digests, each in one step."""
        _upsert(connection, digests, rows, ["session_uid"])

    def put_shared(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Record which session owns each key that several sessions contain."""
        _upsert(connection, shared_keys, rows, ["key"])

    def put_problems(self, connection: Connection, rows: Sequence[Mapping[str, Any]]) -> None:
        """Record what could not be read, once each."""
        if rows:
            connection.execute(upsert(problems).on_conflict_do_nothing(), list(rows))

    def drop_problems(self, connection: Connection, ones: Collection[tuple[str, str]]) -> None:
        """Remove problems of whole files and folders, by path key and reason."""
        for path_key, reason in ones:
            is_it = (problems.c.path_key == path_key) & (problems.c.reason == reason) & (problems.c.line == 0)
            connection.execute(delete(problems).where(is_it))

    def clear_problems(self, connection: Connection, read_from: Mapping[str, int]) -> None:
        """Remove the problems of files that are read again: by path key, from which line on (0 for the whole file)."""
        by_line: dict[int, list[str]] = {}
        for path_key, line in read_from.items():
            by_line.setdefault(line, []).append(path_key)
        for line, path_keys in by_line.items():
            for part in in_parts(path_keys):
                connection.execute(delete(problems).where(problems.c.path_key.in_(part), problems.c.line >= line))

    def put_eviction(self, connection: Connection, **values: Any) -> None:
        """Add to the append-only log of evictions."""
        connection.execute(insert(evictions).values(**values))

    def put_loss(self, connection: Connection, **values: Any) -> None:
        """A durable record of raw bytes that go without a digest."""
        connection.execute(insert(losses).values(**values))

    def put_sweep(self, connection: Connection, **values: Any) -> int:
        """Record a finished sweep."""
        return int(connection.execute(insert(sweeps).values(**values).returning(sweeps.c.id)).scalar_one())


def index_bytes(data_dir: Path) -> int:
    """Bytes of the search index on disk. It belongs to Tier 1 and goes with the texts."""
    try:
        entries = list(os.scandir(data_dir / INDEX_FOLDER))
    except OSError:  # there is no index, or it is not a folder
        return 0
    return sum(map(_size_of, entries))


def _size_of(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:  # just replaced: it is counted next time
        return 0


def open_catalog(data_dir: Path) -> Catalog:
    """Open the catalog, upgrading it under the writer lock if needed; a newer one is refused unchanged."""
    path = data_dir / CATALOG
    catalog = Catalog(path)
    try:
        version = _version(catalog)
        if version < CATALOG_VERSION:
            with writer_lock(data_dir, "upgrade", recovers=False):
                for number in range(_version(catalog), CATALOG_VERSION):
                    _migrate(catalog.engine, number)
    except BaseException:
        catalog.close()
        raise
    if version > CATALOG_VERSION:
        catalog.close()
        raise StoreError(
            f"{path} was written by a newer version (catalog {version}, this program knows {CATALOG_VERSION}): "
            "upgrade helix_assets"
        )
    return catalog


def _version(catalog: Catalog) -> int:
    try:
        return int(catalog.meta_value("catalog_version") or 0)
    except DiskFullError:
        raise
    except Exception as exc:
        raise StoreError(
            f"{catalog.path} is not a catalog of helix_assets, or is damaged: {exc}. Restore it from a backup, "
            "or move it away"
        ) from exc


def create_catalog(data_dir: Path) -> None:
    """Make a new catalog under a temporary name, so that nobody sees a half-made one. Needs the writer lock."""
    path = data_dir / CATALOG
    fresh = path.with_name(f".{CATALOG}")
    for suffix in ("", "-wal", "-shm"):
        fresh.with_name(fresh.name + suffix).unlink(missing_ok=True)
    os.close(os.open(fresh, os.O_CREAT | os.O_WRONLY, 0o600))
    with closing(sqlite3.connect(fresh)) as connection:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # see `pages.shrink`; only here, because it writes
        connection.execute("VACUUM")
    engine = _engine(fresh)
    for number in range(CATALOG_VERSION):
        _migrate(engine, number)
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
    engine.dispose()
    fresh.rename(path)


def _migrate(engine: Engine, number: int) -> None:
    with engine.begin() as connection:
        MIGRATIONS[number](connection)
        version = str(number + 1)
        connection.execute(
            upsert(meta)
            .values(name="catalog_version", value=version)
            .on_conflict_do_update(index_elements=["name"], set_={"value": version})
        )


def _engine(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": 60})

    @event.listens_for(engine, "connect")
    def _set_up(connection: Any, _: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, so that reads are snapshots too
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            "busy_timeout=60000",
            "secure_delete=ON",
        ):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.connection.cursor().execute("BEGIN")  # past SQLAlchemy, which takes ten times as long

    return engine


def _upsert(
    connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], by: list[str], keep: Collection[str] = ()
) -> None:
    """Insert rows, or update those that exist; columns in `keep` are written only once. One statement for all rows."""
    if rows:
        statement = upsert(table)
        changes = {name: statement.excluded[name] for name in rows[0] if name not in by and name not in keep}
        connection.execute(statement.on_conflict_do_update(index_elements=by, set_=changes), list(rows))


@contextmanager
def _plainly(path: Path, what: str) -> Iterator[None]:
    """Describe damage, a full disk and the like in one sentence. Errors of a wrong statement stay as they are."""
    try:
        yield
    except (DatabaseError, JSONDecodeError) as exc:
        if isinstance(exc, IntegrityError | ProgrammingError):
            raise
        if isinstance(exc, DatabaseError) and _is_disk_full(exc, path):
            raise DiskFullError(
                f"{path} cannot be {what}: the disk is full. Make room, or set a lower cap and evict "
                "(HELIX_RAW_SOFT_CAP_BYTES=1GiB helix evict --apply); the next run goes on"
            ) from exc
        reason = exc.orig if isinstance(exc, DatabaseError) else "a value in it is damaged"
        raise StoreError(
            f"{path} cannot be {what}: {reason}. `helix verify` says what is damaged; restore that from a backup"
        ) from exc


def _is_disk_full(error: DatabaseError, path: Path) -> bool:
    """Whether SQLite failed because the disk is full. Even reading needs some room, or SQLite reports an I/O error."""
    name = getattr(error.orig, "sqlite_errorname", "")
    is_io_error = name.startswith(("SQLITE_IOERR", "SQLITE_CANTOPEN"))
    return name == "SQLITE_FULL" or (is_io_error and shutil.disk_usage(path.parent).free < _ROOM_TO_READ)


def in_parts(values: Collection[Any]) -> Iterator[list[Any]]:
    """The values in parts of the size that one statement may contain."""
    items = list(values)
    for start in range(0, len(items), _MANY):
        yield items[start : start + _MANY]
