"""The sensors: news is taken in or asked for when there is any, and an eviction is asked for when there is need."""

from pathlib import Path

import dagster as dg
import pytest

from helix_assets.ask.reading import proven_digest
from helix_assets.defs import follow, sensors
from helix_assets.defs.follow import Follower
from helix_assets.defs.resources import StoreResource
from helix_assets.defs.sensors import budget_sensor, tier0_sensor
from helix_assets.demo import append
from helix_assets.store.catalog import live_files
from helix_assets.store.lock import writer_lock
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import sweep
from helix_assets_tests.defs.runs import partitions, run_job, staleness
from helix_assets_tests.home import ask, conversation

NEW = "4b1f7a52-5f0e-4a57-9a3c-0d6c6f0a9b11"


def tick(instance: dg.DagsterInstance) -> dg.RunRequest | dg.SkipReason:
    context = dg.build_sensor_context(instance=instance, resources={"store": StoreResource()})
    answer = tier0_sensor(context)
    assert isinstance(answer, dg.RunRequest | dg.SkipReason)
    return answer


def words(answer: dg.RunRequest | dg.SkipReason) -> str:
    assert isinstance(answer, dg.SkipReason)
    return str(answer.skip_message)


def answer_with(instance: dg.DagsterInstance, request: dg.RunRequest | dg.SkipReason) -> None:
    """Run the sweep that was asked for, as the daemon would."""
    assert isinstance(request, dg.RunRequest)
    run_job(instance, "sweep", tags={"dagster/run_key": str(request.run_key), **request.tags})


def write_new(logs: Path) -> None:
    new = logs / "claude" / "projects" / "-home-u-shop" / f"{NEW}.jsonl"
    new.parent.mkdir(exist_ok=True)
    new.write_bytes(b"".join(conversation(1)))


# -- the logs --------------------------------------------------------------------------------------------------------


def test_the_first_logs_ask_for_a_sweep_and_then_for_nothing(logs: Path, instance: dg.DagsterInstance) -> None:
    answer_with(instance, tick(instance))
    assert words(tick(instance)) == "no session log changed"


def test_small_news_is_taken_in_by_the_tick_and_reported(
    store: Store, logs: Path, instance: dg.DagsterInstance
) -> None:
    answer_with(instance, tick(instance))
    append(logs, share=0.5)
    write_new(logs)
    runs = instance.get_runs_count()
    assert words(tick(instance)).startswith("took in news of ")
    assert proven_digest(store, f"claude:{NEW}") is not None
    assert all(staleness(instance, partition) == ["FRESH"] * 3 for partition in partitions(store))
    assert words(tick(instance)) == "no session log changed"
    assert instance.get_runs_count() == runs


def test_a_tick_without_news_opens_no_instance(logs: Path, instance: dg.DagsterInstance) -> None:
    answer_with(instance, tick(instance))
    tick(instance)
    context = dg.build_sensor_context(resources={"store": StoreResource()})
    assert words(tier0_sensor(context)) == "no session log changed"  # type: ignore[arg-type]  # one of two answers
    assert context._instance is None


def test_large_news_asks_for_a_sweep(logs: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    answer_with(instance, tick(instance))
    (logs / "claude" / "projects").rename(logs / "claude" / "elsewhere")
    later(monkeypatch, follow.RUNS_S)
    request = tick(instance)
    assert isinstance(request, dg.RunRequest)
    assert "files are gone" in request.tags["helix/reason"]
    answer_with(instance, request)
    assert words(tick(instance)) == "no session log changed"


def test_without_in_process_all_news_asks_for_a_sweep(
    logs: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_UP_IN_PROCESS", "false")
    first = tick(instance)
    answer_with(instance, first)
    assert words(tick(instance)) == "no session log changed"
    write_new(logs)
    later(monkeypatch, 100)
    second = tick(instance)
    answer_with(instance, second)
    assert isinstance(first, dg.RunRequest)
    assert isinstance(second, dg.RunRequest)
    assert first.run_key != second.run_key


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    assert sensors._own is not None
    now = sensors._own._clock()
    monkeypatch.setattr(sensors._own, "_clock", lambda: now + seconds)


def test_a_failed_sweep_is_asked_for_again_after_a_pause(
    logs: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = tick(instance)
    with monkeypatch.context() as broken:
        broken.setattr("helix_assets.defs.jobs.sweep", lambda *_, **__: 1 / 0)
        answer_with(instance, first)
    assert "another may be in" in words(tick(instance))
    later(monkeypatch, follow.RUNS_S)
    answer_with(instance, tick(instance))
    assert isinstance(tick(instance), dg.SkipReason)


def test_while_the_sweep_waits_to_start_nothing_more_is_asked(
    logs: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    from helix_assets.definitions import defs

    request = tick(instance)
    assert isinstance(request, dg.RunRequest)
    instance.create_run_for_job(defs.resolve_job_def("sweep"), tags={"dagster/run_key": str(request.run_key)})
    later(monkeypatch, follow.RUNS_S)
    assert words(tick(instance)).endswith("a run is under way")
    # One of a tree that was killed never ends, and does not hold up the next for ever.
    monkeypatch.setattr(follow, "_LOST_RUN", -follow._LOST_RUN)
    assert isinstance(tick(instance), dg.RunRequest)


def test_a_store_in_use_is_left_alone(store: Store, instance: dg.DagsterInstance) -> None:
    with writer_lock(store.data_dir, "test"):
        assert "in use" in words(tick(instance))


def test_a_sweep_that_dagster_knows_nothing_of_is_asked_for(store: Store, instance: dg.DagsterInstance) -> None:
    sweep(store)
    answer_with(instance, tick(instance))
    assert words(tick(instance)) == "no session log changed"


def test_a_sweep_from_the_command_line_is_reported_by_the_tick(
    store: Store, logs: Path, instance: dg.DagsterInstance
) -> None:
    answer_with(instance, tick(instance))
    append(logs, share=0.5)
    sweep(store)
    assert ["STALE" in staleness(instance, partition) for partition in partitions(store)].count(True) == 0
    assert words(tick(instance)) == "no session log changed"
    assert all(staleness(instance, partition) == ["FRESH"] * 3 for partition in partitions(store))


def test_where_a_thread_follows_the_tick_only_asks_for_what_it_wants(
    store: Store, logs: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    follower = Follower(lambda: instance)
    monkeypatch.setattr(follow, "_current", follower)
    assert words(tick(instance)) == "the server's own thread follows the logs"
    for _ in range(2):
        follower.work()
    request = tick(instance)
    assert isinstance(request, dg.RunRequest)
    # One that hangs is passed over.
    beat = follower._clock()
    with monkeypatch.context() as hung:
        hung.setattr(follower, "_clock", lambda: beat + 1000)
        other = tick(instance)
    assert isinstance(other, dg.RunRequest)
    assert other.run_key != request.run_key
    answer_with(instance, request)
    assert isinstance(tick(instance), dg.SkipReason)
    follower.close()


@pytest.mark.parametrize("has_thread", [True, False])
def test_a_preview_does_not_lose_the_run_that_is_wanted(
    logs: Path, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch, has_thread: bool
) -> None:
    follower = Follower(lambda: instance)
    if has_thread:
        monkeypatch.setattr(follow, "_current", follower)
        for _ in range(2):
            follower.work()
    preview, real = tick(instance), tick(instance)
    assert isinstance(preview, dg.RunRequest)
    assert isinstance(real, dg.RunRequest)
    assert preview.run_key == real.run_key
    answer_with(instance, real)
    assert isinstance(tick(instance), dg.SkipReason)
    follower.close()


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
    requests = [tick(instance)]
    monkeypatch.setenv("HELIX_RAW_SOFT_CAP_BYTES", "20KiB")
    sweep(store)
    requests.append(budget_tick()[0])
    for request in requests:
        assert isinstance(request, dg.RunRequest)
        assert store.redactor.scan(f'{{"dagster/run_key": "{request.run_key}"}}'.encode()) == 0
