"""Evicting Dagster's events that belong to no run, of which there are dozens an hour and no run to evict them with.

The newest of each kind stays: per asset, type and partition, and per check. So partitions, latest values and the states
of checks look the same before and after. Not here: the records of runs (`serve.old_runs`).
"""

import os
from pathlib import Path

from dagster import DagsterInstance
from sqlalchemy import Connection, delete, func, select

from helix_assets.serve.dagster_private import (
    RUNLESS,
    AssetCheckExecutionsTable,
    AssetEventTagsTable,
    SqlEventLogStorageTable,
    SqliteEventLogStorage,
)

_KEPT_OF_SHARD = 200
"""How many of the newest events stay in the file that repeats them all: few readers use it."""


def evict_old_events(instance: DagsterInstance) -> int:
    """Remove what newer events replace. Returns how many events went."""
    log = instance.event_log_storage
    if not isinstance(log, SqliteEventLogStorage):
        return 0
    with log.index_connection() as connection:
        gone = _remove_answers(connection) + _remove_events(connection)
    if os.path.exists(Path(log.path_for_shard(RUNLESS))):
        e = SqlEventLogStorageTable.c
        with log.run_connection(RUNLESS) as connection:
            last = connection.execute(select(func.max(e.id))).scalar() or 0
            connection.execute(delete(SqlEventLogStorageTable).where(e.id <= last - _KEPT_OF_SHARD))
    return gone


def _remove_events(connection: Connection) -> int:
    """Remove replaced events of assets, with their tags. The event of another run may be what replaced one."""
    e, tags = SqlEventLogStorageTable, AssetEventTagsTable
    newest = select(func.max(e.c.id)).where(e.c.asset_key.is_not(None))
    newest = newest.group_by(e.c.asset_key, e.c.dagster_event_type, e.c.partition)
    old = select(e.c.id).where(e.c.run_id == RUNLESS, e.c.asset_key.is_not(None), e.c.id.not_in(newest))
    ids = list(connection.execute(old).scalars())
    for start in range(0, len(ids), _KEPT_OF_SHARD):
        some = ids[start : start + _KEPT_OF_SHARD]
        connection.execute(delete(tags).where(tags.c.event_id.in_(some)))
        connection.execute(delete(e).where(e.c.id.in_(some)))
    return len(ids)


def _remove_answers(connection: Connection) -> int:
    """Remove replaced answers of checks, with their events."""
    e, c = SqlEventLogStorageTable, AssetCheckExecutionsTable
    newest = select(func.max(c.c.id)).group_by(c.c.asset_key, c.c.check_name, c.c.partition)
    old = select(c.c.id, c.c.evaluation_event_storage_id).where(c.c.run_id == RUNLESS, c.c.id.not_in(newest))
    rows = list(connection.execute(old))
    for start in range(0, len(rows), _KEPT_OF_SHARD):
        some = rows[start : start + _KEPT_OF_SHARD]
        connection.execute(delete(c).where(c.c.id.in_([row[0] for row in some])))
        connection.execute(delete(e).where(e.c.id.in_([row[1] for row in some]), e.c.run_id == RUNLESS))
    return len(rows)
