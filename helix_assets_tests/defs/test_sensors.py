"""The sensors ask for a sweep or an eviction when there is need, again when that failed, and never pile up."""

import time
from pathlib import Path

import dagster as dg
import pytest

from helix_assets.defs.sensors import INTERVAL_S, budget_sensor, tier0_sensor
from helix_assets.demo import append
from helix_assets.store.catalog import live_files
from helix_assets.store.lock import writer_lock
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import sweep
from helix_assets_tests.defs.runs import run_job
from helix_assets_tests.home import ask


def tick(instance: dg.DagsterInstance, cursor: str | None = None) -> tuple[dg.RunRequest | dg.SkipReason, str]:
    """One evaluation; gives the answer and the cursor after it."""
    from helix_assets.defs.resources import StoreResource

    context = dg.build_sensor_context(instance=instance, cursor=cursor, resources={"store": StoreResource()})
    answer = tier0_sensor(context)
    assert isinstance(answer, dg.RunRequest | dg.SkipReason)
    return answer, context.cursor or ""


def answer_with(instance: dg.DagsterInstance, request: dg.RunRequest | dg.SkipReason) -> None:
    """Run the sweep that was asked for, as the daemon would."""
    assert isinstance(request, dg.RunRequest)
    run_job(instance, "sweep", tags={"dagster/run_key": str(request.run_key)}, run_config=request.run_config)


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now = time.time()
    monkeypatch.setattr("helix_assets.defs.sensors.time.time", lambda: now + seconds)


def test_new_logs_ask_for_a_sweep_and_then_for_nothing(logs: Path, instance: dg.DagsterInstance) -> None:
    request, cursor = tick(instance)
    answer_with(instance, request)
    skip, _ = tick(instance, cursor)
    assert skip == dg.SkipReason("no session log changed")


def test_the_cursor_stays_short(logs: Path, instance: dg.DagsterInstance) -> None:
    _, cursor = tick(instance)
    assert len(cursor) < 40


def test_a_grown_log_asks_under_another_key(logs: Path, instance: dg.DagsterInstance) -> None:
    first, cursor = tick(instance)
    answer_with(instance, first)
    append(logs, share=0.3)
    second, _ = tick(instance, cursor)
    assert isinstance(first, dg.RunRequest)
    assert isinstance(second, dg.RunRequest)
    assert first.run_key != second.run_key


def test_a_failed_sweep_is_asked_for_again_after_a_pause(
    logs: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, cursor = tick(instance)
    with monkeypatch.context() as broken:
        broken.setattr("helix_assets.defs.jobs.sweep", lambda *_, **__: 1 / 0)
        answer_with(instance, first)
    soon, cursor = tick(instance, cursor)
    assert isinstance(soon, dg.SkipReason)
    later(monkeypatch, INTERVAL_S + 1)
    again, cursor = tick(instance, cursor)
    assert isinstance(again, dg.RunRequest)
    assert str(again.run_key).endswith(" 2")
    answer_with(instance, again)
    assert isinstance(tick(instance, cursor)[0], dg.SkipReason)


def test_while_the_sweep_waits_to_start_nothing_more_is_asked(logs: Path, instance: dg.DagsterInstance) -> None:
    from helix_assets.definitions import defs

    request, cursor = tick(instance)
    assert isinstance(request, dg.RunRequest)
    instance.create_run_for_job(defs.resolve_job_def("sweep"), tags={"dagster/run_key": str(request.run_key)})
    assert isinstance(tick(instance, cursor)[0], dg.SkipReason)


def test_a_run_whose_tree_was_killed_does_not_hold_up_the_next(
    logs: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    from helix_assets.definitions import defs

    request, cursor = tick(instance)
    assert isinstance(request, dg.RunRequest)
    instance.create_run_for_job(defs.resolve_job_def("sweep"), tags={"dagster/run_key": str(request.run_key)})
    later(monkeypatch, 3600)
    assert isinstance(tick(instance, cursor)[0], dg.RunRequest)


def test_a_store_in_use_is_left_alone(store: Store, instance: dg.DagsterInstance) -> None:
    with writer_lock(store.data_dir, "test"):
        skip, _ = tick(instance)
    assert isinstance(skip, dg.SkipReason)
    assert "in use" in str(skip.skip_message)


def test_a_sweep_that_dagster_knows_nothing_of_is_asked_for(store: Store, instance: dg.DagsterInstance) -> None:
    sweep(store)
    request, cursor = tick(instance)
    answer_with(instance, request)
    assert isinstance(tick(instance, cursor)[0], dg.SkipReason)


def test_deleted_logs_are_noted_once(store: Store, logs: Path, instance: dg.DagsterInstance) -> None:
    run_job(instance, "sweep")
    (logs / "claude" / "projects").rename(logs / "claude" / "elsewhere")
    request, cursor = tick(instance)
    answer_with(instance, request)
    assert isinstance(tick(instance, cursor)[0], dg.SkipReason)


# -- the budget ------------------------------------------------------------------------------------------------------


def budget_tick(cursor: str | None = None) -> tuple[dg.RunRequest | dg.SkipReason, str]:
    """One look at the budget; gives the answer and the cursor after it."""
    from helix_assets.defs.resources import StoreResource

    context = dg.build_sensor_context(cursor=cursor, resources={"store": StoreResource()})
    answer = budget_sensor(context)
    assert isinstance(answer, dg.RunRequest | dg.SkipReason)
    return answer, context.cursor or ""


def evict_as(instance: dg.DagsterInstance, request: dg.RunRequest | dg.SkipReason) -> dg.ExecuteInProcessResult:
    assert isinstance(request, dg.RunRequest)
    return run_job(instance, "eviction_job", partition_key=str(request.partition_key))


def test_a_sweep_that_left_too_much_asks_for_one_eviction(
    store: Store, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "20KiB")
    sweep(store)
    request, cursor = budget_tick()
    assert evict_as(instance, request).success
    assert ask(store, live_files.raw_usage) <= 20 << 10
    assert isinstance(budget_tick(cursor)[0], dg.SkipReason)


def test_an_eviction_that_failed_is_not_repeated_before_the_next_sweep(
    store: Store, logs: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "20KiB")
    sweep(store)
    first, cursor = budget_tick()
    with monkeypatch.context() as broken:
        broken.setattr("helix_assets.defs.report.apply", lambda *_, **__: 1 / 0)
        assert not evict_as(instance, first).success
    assert isinstance(budget_tick(cursor)[0], dg.SkipReason)
    append(logs, share=0.3)
    sweep(store)
    assert isinstance(budget_tick(cursor)[0], dg.RunRequest)


def test_nothing_is_asked_for_within_the_soft_cap(store: Store) -> None:
    sweep(store)
    answer, _ = budget_tick()
    assert answer == dg.SkipReason("the raw cache is within its soft cap")


def test_nothing_is_asked_for_when_nothing_may_go(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "20KiB")
    sweep(store)
    with store.catalog.writing() as connection:
        connection.execute("UPDATE sessions SET is_pinned = 1")
    answer, _ = budget_tick()
    assert answer == dg.SkipReason("the raw cache is above its soft cap, but nothing in it may go")


def test_no_name_of_a_run_passes_for_a_secret(
    store: Store, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster keeps them, and `helix verify --secrets` reads all that is kept."""
    requests = [tick(instance)[0]]
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "20KiB")
    sweep(store)
    requests.append(budget_tick()[0])
    for request in requests:
        assert isinstance(request, dg.RunRequest)
        assert store.redactor.scan(f'{{"dagster/run_key": "{request.run_key}"}}'.encode()) == 0
