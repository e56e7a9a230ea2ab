"""Where Dagster keeps its own records, and keeping only few of its sensors' ticks.

The project's dagster.yaml can take a path from a variable, but it has no default if that is unset, and cannot read
helix.toml. Without a folder in their config these classes use the settings, so that `dagster dev` and `helix up` share
one history under <data dir>/dagster.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from dagster import Field
from sqlalchemy import Connection, Engine, create_engine, delete, event

from helix_assets.serve.dagster_home import prepare_dagster_home
from helix_assets.serve.dagster_private import (
    INDEX_SHARD_NAME,
    RUNLESS,
    ConfigurableClassData,
    DagsterSqliteStorage,
    InstigatorTick,
    JobTickTable,
    LocalArtifactStorage,
    LocalComputeLogManager,
    SqliteEventLogStorage,
    SqliteRunStorage,
    SqliteScheduleStorage,
    TickStatus,
    event_logs_folder,
    runs_folder,
    schedules_folder,
)
from helix_assets.settings import load_settings

_BUSY_S = 30
_BASE_DIR = {"base_dir": Field(str, is_required=False)}
"""The folder to use; without it that of the settings."""


def _home() -> Path:
    return prepare_dagster_home(load_settings().data_dir)


class _StaysOpen:
    """A database that stays open. Dagster's own classes open it for each question, which takes longer than the answer.

    The last moments before a power failure may be missing in it; it is whole nevertheless.
    """

    _conn_string: str

    @cached_property
    def _engine(self) -> Engine:
        return _open(self._conn_string)

    @contextmanager
    def connect(self) -> Iterator[Connection]:
        """A transaction of its own."""
        with self._engine.begin() as connection:
            yield connection

    def dispose(self) -> None:
        """Close the database."""
        self._engine.dispose()


def _open(place: str) -> Engine:
    engine = create_engine(place, connect_args={"timeout": _BUSY_S})
    event.listen(engine, "connect", lambda opened, _: opened.execute("pragma synchronous=normal").close())
    return engine


class ScheduleStorage(_StaysOpen, SqliteScheduleStorage):
    """Schedules and ticks. A skipped tick replaces the one before it if that was skipped for the same reason.

    Sensors run every few seconds: 20,000 ticks a day without news, of 1 kB each.
    """

    def update_tick(self, tick: InstigatorTick) -> InstigatorTick:
        """Store what a tick has become."""
        updated = super().update_tick(tick)
        if tick.status is TickStatus.SKIPPED:
            self._drop_same_before(tick)
        return updated

    def _drop_same_before(self, tick: InstigatorTick) -> None:
        selector = tick.tick_data.selector_id or ""
        before = self.get_ticks(tick.instigator_origin_id, selector, before=tick.timestamp, limit=1)
        if before and before[0].status is TickStatus.SKIPPED and before[0].skip_reason == tick.skip_reason:
            with self.connect() as connection:
                connection.execute(delete(JobTickTable).where(JobTickTable.c.id == before[0].tick_id))


class RunStorage(_StaysOpen, SqliteRunStorage):
    """Runs, backfills and the daemons' heartbeats."""

    schedules: SqliteScheduleStorage | None = None
    _has_columns = False

    def dispose(self) -> None:
        """Close the database, and that of the schedules, which an instance at its end forgets."""
        super().dispose()
        if self.schedules:
            self.schedules.dispose()

    def has_run_stats_index_cols(self) -> bool:
        """Whether Dagster's schema has these columns; asked with each question about runs."""
        self._has_columns = self._has_columns or super().has_run_stats_index_cols()
        return self._has_columns


class EventLog(SqliteEventLogStorage):
    """The events of runs. The index of all runs, the database of the run used last and that of events without a run
    stay open.

    Dagster's own class opens, syncs and closes them three times for each event, which takes 7 ms instead of 1. The next
    sweep reports again what was not synced when the power failed.
    """

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        self._engines: dict[str, Engine] = {}
        self._tables: set[str] = set()
        super().__init__(base_dir, inst_data)

    @contextmanager
    def _connect(self, shard: str) -> Iterator[Connection]:
        with self._db_lock:
            if shard not in self._engines or not os.path.exists(self.path_for_shard(shard)):
                self._open(shard)
            with self._engines[shard].begin() as connection:
                yield connection

    def _open(self, shard: str) -> None:
        for other in self._engines.keys() - {INDEX_SHARD_NAME, RUNLESS}:
            self._engines.pop(other).dispose()
        engine = _open(self.conn_string_for_shard(shard))
        if shard not in self._initialized_dbs or not os.path.exists(self.path_for_shard(shard)):
            self._initdb(engine)
            self._initialized_dbs.add(shard)
        self._engines[shard] = engine

    def has_table(self, table_name: str) -> bool:
        """Whether Dagster's schema has a table; asked for each event."""
        if table_name not in self._tables:
            self._tables |= {table_name} if super().has_table(table_name) else set()
        return table_name in self._tables

    def dispose(self) -> None:
        """Close the databases."""
        while self._engines:
            self._engines.popitem()[1].dispose()
        super().dispose()


class HelixStorage(DagsterSqliteStorage):
    """Runs, events and schedules. A process that uses them makes private files only."""

    def __init__(self, base_dir: str, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__(base_dir, inst_data)
        self._run_storage = RunStorage.from_local(runs_folder(base_dir))
        self._event_log_storage = EventLog(event_logs_folder(base_dir))
        self._schedule_storage = ScheduleStorage.from_local(schedules_folder(base_dir))
        self._run_storage.schedules = self._schedule_storage

    @classmethod
    def config_type(cls) -> Any:
        return _BASE_DIR

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> "HelixStorage":
        # Dagster makes files at any time, also those of logs. Under `dagster dev` nobody else sets it.
        os.umask(0o077)
        return cls.from_local(config_value.get("base_dir") or str(_home() / "storage"), inst_data=inst_data)


class HelixComputeLogs(LocalComputeLogManager):
    """What the steps wrote to stdout and stderr."""

    @classmethod
    def config_type(cls) -> Any:
        return _BASE_DIR

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> "HelixComputeLogs":
        return cls(config_value.get("base_dir") or str(_home() / "logs"), inst_data=inst_data)


class HelixArtifacts(LocalArtifactStorage):
    """Files that Dagster itself stores next to the history."""

    @classmethod
    def config_type(cls) -> Any:
        return _BASE_DIR

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> "HelixArtifacts":
        return cls(config_value.get("base_dir") or str(_home()), inst_data=inst_data)
