"""Dagster's events that belong to no run go when newer ones replace them; what the UI shows stays as it was."""

import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster_graphql.test.utils import execute_dagster_graphql

from helix_assets.ask.partitions import TIERS
from helix_assets.defs import kaizen
from helix_assets.defs.news import take_in_small_news
from helix_assets.demo import append
from helix_assets.serve.dagster_private import SqliteEventLogStorage
from helix_assets.serve.old_events import evict_old_events
from helix_assets.store.store import Store
from helix_assets_tests.defs.runs import partitions, run_job, staleness
from helix_assets_tests.defs.test_old_runs import real_instance

_SHOWN = """{assetNodes{
    assetKey{path}
    staleStatus
    assetMaterializations(limit: 1){timestamp runId metadataEntries{label}}
    latestMaterializationByPartition{partition timestamp stepKey tags{key value}}
    assetPartitionStatuses{... on MultiPartitionStatuses{ranges{primaryDimStartKey primaryDimEndKey
        secondaryDim{... on DefaultPartitionStatuses{materializedPartitions}}}}}
    assetChecksOrError{... on AssetChecks{checks{name executionForLatestMaterialization{
        status runId timestamp evaluation{success timestamp metadataEntries{label}}}}}}
}}"""


@pytest.fixture
def kept(home: Path, logs: Path, store: Store) -> Iterator[dg.DagsterInstance]:
    """An instance on the disk after a run and news that was reported without one, again and again."""
    with real_instance(home) as instance:
        assert run_job(instance, "sweep").success
        for number in range(5):
            append(logs, seed=number, share=0.7)
            assert take_in_small_news(instance, store).left is None
            for event in kaizen.updated(instance, store):
                instance.report_runless_asset_event(event)
        yield instance


def shown(instance: dg.DagsterInstance) -> Any:
    """What the UI shows of the assets, over GraphQL."""
    here = InProcessCodeLocationOrigin(
        LoadableTargetOrigin(executable_path=sys.executable, module_name="helix_assets.definitions"), location_name="l"
    )
    with WorkspaceProcessContext(instance, InProcessWorkspaceLoadTarget([here])) as process:
        return execute_dagster_graphql(process.create_request_context(), _SHOWN).data


def rows(instance: dg.DagsterInstance, shard: str, table: str = "event_logs") -> int:
    log = instance.event_log_storage
    assert isinstance(log, SqliteEventLogStorage)
    with closing(sqlite3.connect(log.path_for_shard(shard))) as connection:
        return int(connection.execute(f"select count(*) from {table} where run_id = ''").fetchone()[0])


# Dagster reads its own deprecated property when it lists schedules.
@pytest.mark.filterwarnings("ignore:Property `ScheduleDefinition.environment_vars`:DeprecationWarning")
def test_what_the_ui_shows_stays_as_it_was(kept: dg.DagsterInstance, store: Store) -> None:
    before = shown(kept), [staleness(kept, partition) for partition in partitions(store)]
    assert evict_old_events(kept) > 0
    assert (shown(kept), [staleness(kept, partition) for partition in partitions(store)]) == before
    assert set().union(*map(set, before[1])) == {"FRESH"}
    checks = [check for node in before[0]["assetNodes"] for check in node["assetChecksOrError"].get("checks", ())
              if node["assetKey"]["path"][0] in TIERS]  # fmt: skip
    assert len(checks) == 10
    assert all(check["executionForLatestMaterialization"]["status"] == "SUCCEEDED" for check in checks)


def test_only_the_newest_of_each_kind_is_left(kept: dg.DagsterInstance, store: Store) -> None:
    evict_old_events(kept)
    most = 3 * len(partitions(store)) + 3 + 11
    assert rows(kept, "index") <= most
    assert rows(kept, "index", "asset_check_executions") == 11
    assert evict_old_events(kept) == 0


def test_the_file_that_repeats_them_stays_small(kept: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("helix_assets.serve.old_events._KEPT_OF_SHARD", 20)
    assert rows(kept, "") > 20
    evict_old_events(kept)
    assert rows(kept, "") == 20


def test_the_next_news_is_reported_as_before(kept: dg.DagsterInstance, store: Store, logs: Path) -> None:
    evict_old_events(kept)
    append(logs, seed=9, share=1)
    assert take_in_small_news(kept, store).left is None
    assert all(staleness(kept, partition) == ["FRESH"] * 3 for partition in partitions(store))


def test_events_of_runs_are_left_to_their_runs(kept: dg.DagsterInstance) -> None:
    def of_runs() -> int:
        log = kept.event_log_storage
        assert isinstance(log, SqliteEventLogStorage)
        with closing(sqlite3.connect(log.path_for_shard("index"))) as connection:
            return int(connection.execute("select count(*) from event_logs where run_id != ''").fetchone()[0])

    before = of_runs()
    evict_old_events(kept)
    assert of_runs() == before > 0


def test_the_job_removes_them_too(kept: dg.DagsterInstance) -> None:
    before = rows(kept, "index")
    assert run_job(kept, "old_runs_job").success
    assert rows(kept, "index") < before


def test_another_persons_storage_is_left_alone(logs: Path, instance: dg.DagsterInstance) -> None:
    for _ in range(2):
        instance.report_runless_asset_event(dg.AssetMaterialization("source_files", partition="a|b"))
    assert evict_old_events(instance) == 0


def test_it_is_fast_with_a_day_of_events(kept: dg.DagsterInstance) -> None:
    for _ in range(500):
        kept.report_runless_asset_event(dg.AssetMaterialization("session_digests", partition="2026-01-31|claude"))
    begin = time.process_time()
    assert evict_old_events(kept) >= 499
    assert time.process_time() - begin < 1
