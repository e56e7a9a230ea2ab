"""The jobs: eviction is live, a broken promise stops it, a dry run evicts nothing, stale partitions are refreshed."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.launcher.sync_in_memory_run_launcher import SyncInMemoryRunLauncher
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster_graphql.test.utils import execute_dagster_graphql

from helix_assets.derive.digest_builder import DigestBuilder
from helix_assets.model.event import DIGEST_VERSION
from helix_assets.prove.promises import stale_partitions
from helix_assets.store.catalog import live_files, losses, meta
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import sweep, utc_now
from helix_assets_tests.defs.runs import Result, latest, logged, partitions, run_job
from helix_assets_tests.home import ask, rows_of
from helix_assets_tests.serve.tree import LAUNCH


@pytest.fixture
def real_instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance on the disk, as a person's is."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


@pytest.fixture(autouse=True)
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget that the sample home passes; without an index, what of it stays is as many bytes as ever."""
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "20KiB")
    monkeypatch.setenv("HELIX_SEARCH_INDEX", "off")


def config(**options: Any) -> dict[str, Any]:
    """What a person types in the launchpad."""
    return {"ops": {"retention_report": {"config": options}}}


def today() -> str:
    return utc_now().date().isoformat()


def count(store: Store, table: str) -> int:
    return len(rows_of(store, table))


def steps(result: Result, outcome: str) -> list[str]:
    return [event.step_key for event in result.all_events if event.event_type_value == outcome and event.step_key]


def test_a_broken_promise_stops_the_eviction(store: Store, real_instance: dg.DagsterInstance) -> None:
    sweep(store)
    with store.catalog.writing() as connection:
        connection.execute("""UPDATE sessions SET evicted_at = '2026-02-01T00:00:00.000Z', derived_generation = NULL
            WHERE id = (SELECT min(id) FROM sessions)""")
    files = count(store, "raw_files")
    result = run_job(real_instance, "eviction_job", partition_key=today())
    assert not result.success
    assert "retention_report" not in steps(result, "STEP_START")
    assert (count(store, "raw_files"), count(store, "evictions")) == (files, 0)


def test_a_dry_run_shows_what_the_job_then_evicts(store: Store, real_instance: dg.DagsterInstance) -> None:
    sweep(store)
    files, usage = count(store, "raw_files"), ask(store, live_files.raw_usage)
    assert run_job(real_instance, "eviction_job", partition_key=today(), run_config=config(apply=False)).success
    assert (count(store, "raw_files"), ask(store, live_files.raw_usage)) == (files, usage)
    planned = latest(real_instance, "retention_report", today()).metadata["plan/sessions_to_go"].value
    assert run_job(real_instance, "eviction_job", partition_key=today()).success
    assert count(store, "evictions") == planned != 0
    assert ask(store, live_files.raw_usage) < usage


def test_other_caps_hold_for_one_run(store: Store, instance: dg.DagsterInstance) -> None:
    sweep(store)
    higher = config(apply=True, raw_soft_cap_bytes="1GiB", raw_max_age_days=36500)
    assert run_job(instance, "eviction_job", partition_key=today(), run_config=higher).success
    assert count(store, "evictions") == 0
    assert latest(instance, "retention_report", today()).metadata["plan/soft_cap"].value == 1 << 30


@pytest.mark.parametrize("cap", [{"raw_soft_cap_bytes": "0"}, {"raw_hard_cap_bytes": "1KiB"}, {"raw_max_age_days": -1}])
def test_caps_that_make_no_sense_evict_nothing(cap: dict[str, Any], store: Store, instance: dg.DagsterInstance) -> None:
    sweep(store)
    assert not run_job(instance, "eviction_job", partition_key=today(), run_config=config(apply=True, **cap)).success
    assert count(store, "evictions") == 0


def data_losses(instance: dg.DagsterInstance) -> list[dg.AssetObservation]:
    records = instance.fetch_observations(dg.AssetKey("retention_report"), limit=100).records
    return [record.asset_observation for record in records if record.asset_observation]


def test_each_loss_is_reported_once(
    store: Store, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError

    monkeypatch.setattr(DigestBuilder, "finish", fail)
    sweep(store)
    overflowing = config(apply=True, raw_soft_cap_bytes="1KiB", raw_hard_cap_bytes="10KiB")
    for _ in range(2):
        assert run_job(instance, "eviction_job", partition_key=today(), run_config=overflowing).success
    told = [observation.metadata["loss"].value for observation in data_losses(instance)]
    assert sorted(told) == list(range(1, count(store, "losses") + 1)) != []
    assert {observation.description for observation in data_losses(instance)} == {"session_memory.data_loss"}


def test_a_loss_outside_dagster_is_reported_by_the_next_job(store: Store, instance: dg.DagsterInstance) -> None:
    sweep(store)
    loss = {"at": f"{today()}T00:00:00.000Z", "session_uid": "claude:x", "flavor": "claude", "day": "2026-01-05",
            "bytes": 7, "records": 1, "generation": 1, "reason": "overflow"}  # fmt: skip
    with store.catalog.writing() as connection:
        losses.put_loss(connection, **loss)
    run_job(instance, "eviction_job", partition_key=today())
    assert [observation.metadata["bytes"].value for observation in data_losses(instance)] == [7]


def test_an_eviction_is_asked_for_before_and_checked_after(store: Store, real_instance: dg.DagsterInstance) -> None:
    sweep(store)
    result = run_job(real_instance, "eviction_job", partition_key=today())
    order = steps(result, "STEP_SUCCESS")
    assert set(order[:2]) == {
        "session_digests_every_evicted_session_has_a_covering_digest_or_a_loss_record",
        "session_events_raw_cache_within_budget",
    }
    assert order[2:] == ["retention_report", "retention_report_no_evicted_session_has_a_file_left"]


def test_each_partition_says_what_went_and_why(store: Store, real_instance: dg.DagsterInstance) -> None:
    sweep(store)
    run_job(real_instance, "eviction_job", partition_key=today())
    observed = real_instance.fetch_observations(dg.AssetKey("session_events"), limit=100).records
    told = [record.asset_observation.metadata for record in observed if record.asset_observation]
    assert sum(int(str(m["sessions_evicted"].value)) for m in told) == count(store, "evictions")
    assert all({"because_over_soft_cap", "oldest_age_days", "bytes_evicted"} <= metadata.keys() for metadata in told)
    report = latest(real_instance, "retention_report", today()).metadata
    assert report["dagster/partition_row_count"].value == count(store, "evictions")


def test_another_day_than_today_never_evicts(store: Store, instance: dg.DagsterInstance) -> None:
    sweep(store)
    files = count(store, "raw_files")
    result = run_job(instance, "eviction_job", partition_key="2026-01-05")
    assert not result.success
    assert count(store, "raw_files") == files


def test_an_eviction_without_a_partition_means_today(store: Store, real_instance: dg.DagsterInstance) -> None:
    sweep(store)
    result = run_job(real_instance, "eviction_job")
    assert result.success
    assert logged(result) == [("retention_report", today())]
    report = latest(real_instance, "retention_report", today()).metadata
    assert report["dagster/partition_row_count"].value == count(store, "evictions") != 0


def test_an_eviction_without_a_partition_means_today_once_dagster_knows_of_sweeps(
    store: Store, real_instance: dg.DagsterInstance
) -> None:
    assert run_job(real_instance, "sweep").success
    assert run_job(real_instance, "eviction_job").success
    assert count(store, "evictions") != 0
    (run,) = real_instance.get_runs(dg.RunsFilter(job_name="eviction_job"))
    assert run.tags["dagster/partition"] == today()


# Dagster reads its own deprecated property when it lists schedules.
@pytest.mark.filterwarnings("ignore:Property `ScheduleDefinition.environment_vars`:DeprecationWarning")
def test_an_eviction_launched_over_graphql_without_a_partition_means_today(store: Store, tmp_path: Path) -> None:
    sweep(store)
    launcher = {"module": SyncInMemoryRunLauncher.__module__, "class": SyncInMemoryRunLauncher.__name__}
    here = InProcessCodeLocationOrigin(
        LoadableTargetOrigin(executable_path=sys.executable, module_name="helix_assets.definitions"), location_name="l"
    )
    selector = {"repositoryLocationName": "l", "repositoryName": "__repository__", "jobName": "eviction_job"}
    with (
        dg.DagsterInstance.local_temp(str(tmp_path), overrides={"run_launcher": launcher}) as instance,
        WorkspaceProcessContext(instance, InProcessWorkspaceLoadTarget([here])) as process,
    ):
        context = process.create_request_context()
        params = {"selector": selector, "mode": "default"}
        launched = execute_dagster_graphql(context, LAUNCH, {"params": params}).data["launchRun"]
        run = instance.launch_run(launched["run"]["id"], context)  # the daemon's part
        assert instance.get_run_by_id(run.run_id).status is dg.DagsterRunStatus.SUCCESS
        latest(instance, "retention_report", today())
    assert count(store, "evictions") > 0


def test_a_report_of_an_old_day_renders_the_log_alone(store: Store, instance: dg.DagsterInstance) -> None:
    sweep(store)
    run_job(instance, "eviction_job", partition_key="2026-01-05", run_config=config(apply=False))
    metadata = latest(instance, "retention_report", "2026-01-05").metadata
    assert metadata["dagster/partition_row_count"].value == 0
    assert not [name for name in metadata if name.startswith("plan/")]


def test_todays_report_has_its_pictures_inside_the_text(store: Store, instance: dg.DagsterInstance) -> None:
    sweep(store)
    run_job(instance, "eviction_job", partition_key=today())
    metadata = latest(instance, "retention_report", today()).metadata
    pictures = [str(metadata[name].value) for name in ("raw_cache_over_time", "sessions_by_day")]
    assert all(picture.partition("](")[2].startswith("data:image/png;base64,") for picture in pictures)
    assert max(map(len, pictures)) < 40_000


def test_todays_report_says_what_went_what_is_next_and_what_was_lost(
    store: Store, instance: dg.DagsterInstance
) -> None:
    sweep(store)
    loss = {"at": "2026-01-05T00:00:00.000Z", "session_uid": "claude:x", "flavor": "claude", "day": "2026-01-05",
            "bytes": 7, "records": 1, "generation": 1, "reason": "overflow"}  # fmt: skip
    with store.catalog.writing() as connection:
        losses.put_loss(connection, **loss)
    run_job(instance, "eviction_job", partition_key=today())
    metadata = latest(instance, "retention_report", today()).metadata
    told = {name: metadata[name].value for name in ("sessions_lost", "sessions_lost_ever", "bytes_lost_ever")}
    assert told == {"sessions_lost": 0, "sessions_lost_ever": 1, "bytes_lost_ever": 7}
    tables = {name: metadata[name].value.records for name in ("evicted", "next_to_go", "losses")}  # type: ignore[union-attr]
    assert sum(record.data["sessions"] for record in tables["evicted"]) == count(store, "evictions")
    assert len(tables["next_to_go"]) == count(store, "raw_files")
    assert "claude:" not in str(tables)


def test_the_first_run_shows_how_full_the_cache_is_before_any_eviction(
    store: Store, instance: dg.DagsterInstance
) -> None:
    told = logged(run_job(instance, "sweep"))
    assert told.count(("retention_report", today())) == 1
    metadata = latest(instance, "retention_report", today()).metadata
    assert metadata["plan/usage_before"].value == ask(store, live_files.raw_usage)
    assert {"plan/soft_cap", "plan/hard_cap", "next_to_go", "raw_cache_over_time"} <= metadata.keys()


def test_later_sweeps_leave_the_retention_report_to_the_eviction_job(instance: dg.DagsterInstance) -> None:
    run_job(instance, "sweep")
    assert "retention_report" not in dict(logged(run_job(instance, "sweep")))


def test_rederiving_refreshes_the_stale_partitions_alone(store: Store, instance: dg.DagsterInstance) -> None:
    run_job(instance, "sweep")
    first, *_ = partitions(store)
    with store.catalog.writing() as connection:
        connection.update("sessions", {"derivation_version": DIGEST_VERSION - 1}, "day = ?", first[1])
        meta.put(connection, "settled", "by older rules")
    told = logged(run_job(instance, "rederive_job"))
    assert {partition for _, partition in told} == {f"{first[1]}|{first[0]}"}
    assert stale_partitions(store) == set()


def test_a_sweep_that_cannot_run_fails_with_its_reason(
    instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "lots")
    result = run_job(instance, "sweep")
    assert not result.success
    assert "HELIX_RAW_SOFT_CAP_BYTES" in str(result.failure_data_for_node("take_in_changes"))


def test_dagsters_records_name_no_session_so_that_one_can_be_forgotten(
    store: Store, real_instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_RAW_HARD_CAP_BYTES", "30KiB")
    run_job(real_instance, "sweep")
    with store.catalog.reading() as connection:
        told = connection.tuples("SELECT native_session_id, title, cwd FROM sessions")
        first = connection.value("SELECT name FROM raw_files")
    store.raw.path(first).write_bytes(b"damaged")
    monkeypatch.setattr(DigestBuilder, "finish", lambda *_: 1 / 0)
    for job in ("rederive_job", "sweep", "eviction_job"):
        run_job(real_instance, job, **({"partition_key": today()} if job == "eviction_job" else {}))
    of_dagster = [path for folder in ("history", "schedules", "storage") for path in (tmp_path / folder).rglob("*")]
    records = [path.read_bytes() for path in of_dagster if path.is_file()]
    names = {str(name).encode() for row in told for name in row if name}
    assert records
    assert [name for name in names if any(name in record for record in records)] == []
