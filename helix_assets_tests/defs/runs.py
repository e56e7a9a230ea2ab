"""Running the definitions in process, the way runs from the UI would."""

import io
from collections.abc import Collection, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.data_version import CachingStaleStatusResolver
from dagster._core.loader import LoadingContextForTest

from helix_assets.ask.export import export
from helix_assets.ask.partitions import TIERS, Partition
from helix_assets.definitions import defs
from helix_assets.defs.partitions import key_of
from helix_assets.demo import make_home
from helix_assets.store.store import Store

Result = dg.ExecuteInProcessResult


def make_logs(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A sample home of Claude sessions over a few days, which the agents' variables point to."""
    folder = home / "sample"
    make_home(folder, sessions=6, seed=3, days=4, today=date(2026, 1, 31), agents=("claude",), dirty=False)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(folder / "claude"))
    monkeypatch.setenv("HELIX_SWEEP_WORKERS", "1")
    return folder


def run_job(instance: dg.DagsterInstance, name: str, **options: Any) -> Result:
    """Run a job by its name."""
    return defs.resolve_job_def(name).execute_in_process(instance=instance, raise_on_error=False, **options)


def materialize(
    instance: dg.DagsterInstance, partitions: Sequence[Partition], tiers: Collection[str] = TIERS
) -> Result:
    """Materialize a partition, or the rectangle between two of them, in one run."""
    keys = {dg.AssetKey(tier) for tier in tiers}
    job = defs.resolve_implicit_global_asset_job_def().get_subset(asset_selection=keys, asset_check_selection=set())
    if len(partitions) == 1:
        return job.execute_in_process(instance=instance, partition_key=key_of(partitions[0]))
    first, last = (str(key_of(partition)) for partition in partitions)
    tags = {"dagster/asset_partition_range_start": first, "dagster/asset_partition_range_end": last}
    return job.execute_in_process(instance=instance, tags=tags)


def logged(result: Result) -> list[tuple[str, str]]:
    """Tier and partition of each materialization that a run logged."""
    events = (event for event in result.all_events if event.is_step_materialization)
    return [(event.asset_key.to_user_string(), str(event.partition)) for event in events if event.asset_key]


def latest(instance: dg.DagsterInstance, asset: str, partition: str) -> dg.AssetMaterialization:
    """The last materialization of a partition."""
    wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[partition])
    found = instance.fetch_materializations(wanted, limit=1).records[0].asset_materialization
    assert found is not None
    return found


def staleness(instance: dg.DagsterInstance, partition: Partition) -> list[str]:
    """What the UI says of a partition of each tier: MISSING, STALE or FRESH."""
    resolver = CachingStaleStatusResolver(instance, defs.resolve_asset_graph(), LoadingContextForTest(instance))
    return [resolver.get_status(dg.AssetKey(tier), key_of(partition)).value for tier in TIERS]


def partitions(store: Store) -> list[Partition]:
    """Partitions that hold sessions, in order of days."""
    with store.catalog.reading() as connection:
        return connection.tuples("SELECT DISTINCT flavor, day FROM sessions ORDER BY day")


def content(store: Store) -> str:
    """The hash of all that the store holds, whatever the order of its sweeps."""
    return export(store, io.BytesIO()).sha256
