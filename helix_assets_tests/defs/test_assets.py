"""The partitioned assets: both ways in leave the same store, and each run does its work once."""

from functools import partial
from pathlib import Path

import dagster as dg
import pytest

from helix_assets.demo import append
from helix_assets.settings import load_settings
from helix_assets.store.lock import writer_lock
from helix_assets.store.store import Store, open_store
from helix_assets.sweep.sweep import sweep
from helix_assets_tests.defs.runs import content, latest, logged, materialize, partitions, run_job

EMPTY_DAY = ("claude", "2024-03-01")


def test_partition_runs_and_the_sweep_job_leave_the_same_store(
    store: Store, logs: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_DATA_DIR", str(logs / "other"))
    other = open_store(load_settings())
    for grown in (False, True):
        if grown:
            append(logs, share=0.5)
        monkeypatch.setenv("HELIX_DATA_DIR", str(store.data_dir))
        assert run_job(instance, "sweep").success
        monkeypatch.setenv("HELIX_DATA_DIR", str(other.data_dir))
        for partition in partitions(store):
            assert materialize(instance, [partition]).success
        assert content(store) == content(other)
    other.close()


def test_a_run_over_all_three_sweeps_once(store: Store, instance: dg.DagsterInstance) -> None:
    materialize(instance, [EMPTY_DAY])
    with store.catalog.reading() as connection:
        assert connection.value("SELECT count(*) FROM sweeps") == 1


def test_a_partition_run_reports_every_partition_it_touched(store: Store, instance: dg.DagsterInstance) -> None:
    told = logged(materialize(instance, [EMPTY_DAY], ["session_events"]))
    touched = {f"{day}|{flavor}" for flavor, day in partitions(store)}
    assert {key for tier, key in told if tier == "session_digests"} == touched
    assert {key for tier, key in told if tier == "session_events"} == touched | {"2024-03-01|claude"}
    assert len(told) == len(set(told))


def test_materializing_the_sources_takes_nothing_in(store: Store, instance: dg.DagsterInstance) -> None:
    materialize(instance, [EMPTY_DAY], ["source_files"])
    assert partitions(store) == []


def test_sources_are_reported_as_they_are_on_disk(store: Store, logs: Path, instance: dg.DagsterInstance) -> None:
    sweep(store)
    partition = partitions(store)[0]
    key = f"{partition[1]}|{partition[0]}"
    materialize(instance, [partition], ["source_files"])
    before = latest(instance, "source_files", key).metadata["bytes"].value
    append(logs, share=1.0)
    materialize(instance, [partition], ["source_files"])
    assert latest(instance, "source_files", key).metadata["bytes"].value > before  # type: ignore[operator]


def test_each_partition_of_a_range_has_its_own_version(store: Store, instance: dg.DagsterInstance) -> None:
    sweep(store)
    first, last = partitions(store)[0], partitions(store)[-1]
    told = logged(materialize(instance, [first, last], ["session_digests"]))
    days = sorted({key for tier, key in told if tier == "session_digests"})
    tags = [latest(instance, "session_digests", key).tags or {} for key in days]
    filled = {f"{day}|{flavor}" for flavor, day in partitions(store)}
    versions = [tag["dagster/data_version"] for key, tag in zip(days, tags, strict=True) if key in filled]
    assert len(versions) == len(filled) == len(set(versions)) > 1


def test_the_figures_are_the_catalogs(store: Store, instance: dg.DagsterInstance) -> None:
    run_job(instance, "sweep")
    flavor, day = partitions(store)[0]
    with store.catalog.reading() as connection:
        counted = "SELECT count(*), sum(row_count), sum(raw_bytes) FROM sessions WHERE day = ?"
        ((count, rows, size),) = connection.tuples(counted, (day,))
        total = connection.value("SELECT count(*) FROM sessions")
    events = latest(instance, "session_events", f"{day}|{flavor}").metadata
    assert [events[k].value for k in ("sessions", "dagster/partition_row_count", "bytes")] == [count, rows, size]
    assert latest(instance, "session_digests", f"{day}|{flavor}").metadata["dagster/row_count"].value == total


def test_no_text_of_a_transcript_is_logged(store: Store, instance: dg.DagsterInstance) -> None:
    run_job(instance, "sweep")
    for flavor, day in partitions(store):
        for tier in ("source_files", "session_events", "session_digests"):
            metadata = latest(instance, tier, f"{day}|{flavor}").metadata
            assert all(isinstance(value.value, int) for value in metadata.values())


def test_a_run_that_finds_the_store_in_use_ends_well_and_says_busy(
    store: Store, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = partial(writer_lock, wait_s=0.1)
    monkeypatch.setattr("helix_assets.keep.writing.writer_lock", lambda folder, what, wait_s: patient(folder, what))
    with writer_lock(store.data_dir, "test"):
        result = materialize(instance, [EMPTY_DAY])
    run = instance.get_run_by_id(result.run_id)
    assert result.success
    assert run is not None
    assert run.tags["helix/outcome"] == "busy"
    assert logged(result) == []
