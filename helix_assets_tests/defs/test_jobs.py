"""The jobs: a broken promise stops the eviction job, a dry run evicts nothing, stale partitions are derived again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from sqlalchemy import func, select, update

from helix_assets.core.schema import DIGEST_VERSION
from helix_assets.defs.jobs import EVICT
from helix_assets.defs.promises import stale_partitions
from helix_assets.pipeline import sweep, utc_now
from helix_assets.storage.tables import evictions, raw_files, sessions
from helix_assets.store import Store
from helix_assets_tests.defs.runs import Result, latest, logged, partitions, run_job

APPLY = {"ops": {"retention_report": {"config": {"apply": True}}}}


@pytest.fixture
def real_instance(tmp_path: Path) -> Iterator[dg.DagsterInstance]:
    """An instance on the disk, as a person's is."""
    with dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        yield instance


@pytest.fixture(autouse=True)
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget that the sample home passes."""
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "20KiB")


def today() -> str:
    return utc_now().date().isoformat()


def count(store: Store, table: Any) -> int:
    with store.catalog.reading() as connection:
        return int(connection.execute(select(func.count()).select_from(table)).scalar_one())


def steps(result: Result, outcome: str) -> list[str]:
    return [event.step_key for event in result.all_events if event.event_type_value == outcome and event.step_key]


def test_a_broken_promise_stops_the_eviction(store: Store, real_instance: dg.DagsterInstance) -> None:
    sweep(store)
    with store.catalog.writing() as connection:
        one = select(func.min(sessions.c.id)).scalar_subquery()
        broken = {"evicted_at": "2026-02-01T00:00:00.000Z", "derived_generation": None}
        connection.execute(update(sessions).where(sessions.c.id == one).values(broken))
    files = count(store, raw_files)
    result = run_job(real_instance, "eviction_job", partition_key=today(), run_config=APPLY)
    assert not result.success
    assert "retention_report" not in steps(result, "STEP_START")
    assert (count(store, raw_files), count(store, evictions)) == (files, 0)


def test_the_job_evicts_only_when_told_to(store: Store, real_instance: dg.DagsterInstance) -> None:
    sweep(store)
    files = count(store, raw_files)
    assert not EVICT
    assert run_job(real_instance, "eviction_job", partition_key=today()).success
    assert count(store, raw_files) == files
    planned = latest(real_instance, "retention_report", today()).metadata["plan/sessions_to_go"].value
    assert run_job(real_instance, "eviction_job", partition_key=today(), run_config=APPLY).success
    assert count(store, evictions) == files - count(store, raw_files) == planned != 0


def test_an_eviction_is_asked_for_before_and_checked_after(store: Store, real_instance: dg.DagsterInstance) -> None:
    sweep(store)
    result = run_job(real_instance, "eviction_job", partition_key=today(), run_config=APPLY)
    order = steps(result, "STEP_SUCCESS")
    assert set(order[:2]) == {
        "session_digests_every_evicted_session_has_a_covering_digest_or_a_loss_record",
        "session_events_raw_cache_within_budget",
    }
    assert order[2:] == ["retention_report", "retention_report_no_evicted_session_has_a_file_left"]


def test_each_partition_says_what_went_and_why(store: Store, real_instance: dg.DagsterInstance) -> None:
    sweep(store)
    run_job(real_instance, "eviction_job", partition_key=today(), run_config=APPLY)
    observed = real_instance.fetch_observations(dg.AssetKey("session_events"), limit=100).records
    told = [record.asset_observation.metadata for record in observed if record.asset_observation]
    assert sum(int(str(m["sessions_evicted"].value)) for m in told) == count(store, evictions)
    assert all("because_over_soft_cap" in metadata for metadata in told)
    report = latest(real_instance, "retention_report", today()).metadata
    assert report["dagster/partition_row_count"].value == count(store, evictions)


def test_another_day_than_today_never_evicts(store: Store, instance: dg.DagsterInstance) -> None:
    sweep(store)
    files = count(store, raw_files)
    result = run_job(instance, "eviction_job", partition_key="2026-01-05", run_config=APPLY)
    assert not result.success
    assert count(store, raw_files) == files


def test_a_report_of_an_old_day_renders_the_log_alone(store: Store, instance: dg.DagsterInstance) -> None:
    sweep(store)
    run_job(instance, "eviction_job", partition_key="2026-01-05")
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


def test_rederiving_refreshes_the_stale_partitions_alone(store: Store, instance: dg.DagsterInstance) -> None:
    run_job(instance, "sweep")
    first, *_ = partitions(store)
    with store.catalog.writing() as connection:
        older = update(sessions).where(sessions.c.day == first[1]).values(derivation_version=DIGEST_VERSION - 1)
        connection.execute(older)
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
