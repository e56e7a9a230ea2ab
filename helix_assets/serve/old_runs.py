"""Evicting Dagster's own records of old runs, so that ten thousand sweeps cost no more than the last few hundred.

A run goes as a whole (its row, its events, its step logs) or not at all. It stays while it is one of the newest, has
not ended, or was the last to report something that the UI shows of an asset: above all the last materialization of a
partition, so that no partition ever looks missing. Not here: ticks (`serve.dagster_storage`, the instance config).
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from dagster import DagsterInstance, DagsterRunStatus, RunsFilter
from sqlalchemy import Connection, delete, func, select

from helix_assets.serve.dagster_private import (
    AssetCheckExecutionsTable,
    AssetDaemonAssetEvaluationsTable,
    AssetEventTagsTable,
    RunsTable,
    RunTagsTable,
    SqlEventLogStorageTable,
    SqliteEventLogStorage,
    SqliteRunStorage,
    SqliteScheduleStorage,
)

KEEP_RUNS = 500
KEEP_EVALUATIONS = 1000
"""Records of Dagster's checks whether to materialize an asset again; 20 to 70 kB each."""
_ENDED = [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE, DagsterRunStatus.CANCELED]
_AT_ONCE = 100
_FREE_SHARE = 0.5


@dataclass(frozen=True)
class EvictedRuns:
    """How many of Dagster's own records went, and how many bytes their databases shrank."""

    runs: int
    evaluations: int
    bytes: int


@dataclass(frozen=True)
class _Records:
    """The three SQLite databases of an instance, and those of each run."""

    log: SqliteEventLogStorage
    runs: SqliteRunStorage
    schedules: SqliteScheduleStorage

    def files_of(self, run_id: str) -> list[Path]:
        return [Path(self.log.path_for_shard(run_id) + suffix) for suffix in ("", "-wal", "-shm")]

    def databases(self) -> Iterator[Path]:
        for connected in (self.log.index_connection, self.runs.connect, self.schedules.connect):
            with connected() as connection:
                yield Path(str(connection.engine.url.database))


def _records(instance: DagsterInstance) -> _Records | None:
    """None for another kind of storage, which its owner has to clean up."""
    log, runs, schedules = instance.event_log_storage, instance.run_storage, instance.schedule_storage
    if not (isinstance(log, SqliteEventLogStorage) and isinstance(runs, SqliteRunStorage)):
        return None
    return _Records(log, runs, schedules) if isinstance(schedules, SqliteScheduleStorage) else None


def old_runs(instance: DagsterInstance, keep: int = KEEP_RUNS) -> list[str]:
    """Ended runs older than the `keep` newest that reported nothing still shown, oldest first."""
    records, newest = _records(instance), instance.get_run_ids(limit=keep)
    if records is None or len(newest) < keep:
        return []
    ended = RunsFilter(statuses=_ENDED)
    shown = _runs_still_shown(records)
    return [run_id for run_id in reversed(instance.get_run_ids(ended, cursor=newest[-1])) if run_id not in shown]


def evict_old_runs(instance: DagsterInstance, keep: int = KEEP_RUNS) -> EvictedRuns:
    """Remove the old runs and all but the newest evaluations of automation conditions."""
    records, gone = _records(instance), old_runs(instance, keep)
    if records is None:
        return EvictedRuns(0, 0, 0)
    freed = sum(_remove(instance, records, run_ids) for run_ids in _batches(gone))
    t = AssetDaemonAssetEvaluationsTable
    with records.schedules.connect() as connection:
        last = connection.execute(select(func.max(t.c.id))).scalar() or 0
        evaluations = connection.execute(delete(t).where(t.c.id <= last - KEEP_EVALUATIONS)).rowcount
    freed += sum(_shrink(database) for database in records.databases())
    return EvictedRuns(len(gone), evaluations, freed)


def _runs_still_shown(records: _Records) -> set[str]:
    """Runs that reported the newest event of a type for a partition, or the newest result of a check."""
    e, c = SqlEventLogStorageTable.c, AssetCheckExecutionsTable.c
    of_assets = select(func.max(e.id)).where(e.asset_key.is_not(None))
    of_assets = of_assets.group_by(e.asset_key, e.dagster_event_type, e.partition)
    of_checks = select(func.max(c.id)).group_by(c.asset_key, c.check_name, c.partition)
    with records.log.index_connection() as connection:
        shown = select(e.run_id).where(e.id.in_(of_assets)).union(select(c.run_id).where(c.id.in_(of_checks)))
        return set(connection.execute(shown).scalars())


def _remove(instance: DagsterInstance, records: _Records, run_ids: list[str]) -> int:
    """Remove some runs, their rows last, so that they are found again after a kill. Returns the bytes of their logs.

    `DagsterInstance.delete_run` takes a hundred times as long, and leaves the file, the tags and the check results.
    """
    freed = 0
    with records.log.index_connection() as connection:
        _remove_events(connection, run_ids)
    for run_id in run_ids:
        instance.compute_log_manager.delete_logs(prefix=[run_id])
        for path in records.files_of(run_id):
            with suppress(FileNotFoundError):
                freed += path.stat().st_size
                path.unlink()
    with records.runs.connect() as connection:
        connection.execute(delete(RunTagsTable).where(RunTagsTable.c.run_id.in_(run_ids)))
        connection.execute(delete(RunsTable).where(RunsTable.c.run_id.in_(run_ids)))
    return freed


def _remove_events(connection: Connection, run_ids: list[str]) -> None:
    e, tags, checks = SqlEventLogStorageTable, AssetEventTagsTable, AssetCheckExecutionsTable
    events = select(e.c.id).where(e.c.run_id.in_(run_ids))
    connection.execute(delete(tags).where(tags.c.event_id.in_(events)))
    connection.execute(delete(checks).where(checks.c.run_id.in_(run_ids)))
    connection.execute(delete(e).where(e.c.run_id.in_(run_ids)))


def _shrink(database: Path) -> int:
    """Free the unused pages of a database if they are most of it. Returns the bytes freed.

    If another process is writing, nothing happens until the next call.
    """
    before = database.stat().st_size
    connection = sqlite3.connect(database, isolation_level=None)
    try:
        free, pages = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("freelist_count", "page_count"))
        if free > pages * _FREE_SHARE:
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.OperationalError:
        return 0
    finally:
        connection.close()
    return before - database.stat().st_size


def _batches(run_ids: Iterable[str]) -> Iterator[list[str]]:
    ids = iter(run_ids)
    while batch := list(islice(ids, _AT_ONCE)):
        yield batch
