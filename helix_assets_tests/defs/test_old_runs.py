"""Dagster's own records of old runs go; what the UI shows of the assets stays as it was. On a real instance."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.test_utils import create_run_for_test

from helix_assets.ask.partitions import TIERS
from helix_assets.defs import schedules
from helix_assets.defs.schedules import old_runs_schedule
from helix_assets.demo import append
from helix_assets.serve import old_runs
from helix_assets.serve.dagster_home import prepare_dagster_home
from helix_assets.serve.dagster_private import SqliteEventLogStorage
from helix_assets.serve.old_runs import evict_old_runs
from helix_assets.store.store import Store
from helix_assets_tests.conftest import live_in
from helix_assets_tests.defs.runs import make_logs, partitions, run_job, staleness
from helix_assets_tests.defs.test_sensors import tick

STATE = ("data", "history")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, tool_cache: Path) -> Path:
    """A home after a first sweep, five that changed all sessions, and one that changed some; `kept` is a copy of it."""
    home = tmp_path_factory.mktemp("made")
    with pytest.MonkeyPatch.context() as patch:
        live_in(home, tool_cache, patch)
        logs = make_logs(home, patch)
        with real_instance(home) as instance:
            run_job(instance, "sweep")
            for number, share in enumerate((1.0, 1.0, 1.0, 1.0, 1.0, 0.3)):
                append(logs, seed=number, share=share)
                run_job(instance, "sweep")
    for name in STATE:
        shutil.copytree(home / name, home / "kept" / name)
    return home


def real_instance(home: Path) -> dg.DagsterInstance:
    """An instance on the disk, set up as a person's is."""
    return dg.DagsterInstance.from_config(str(prepare_dagster_home(home / "history")))


@pytest.fixture
def logs(made: Path, tool_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The logs of that home; its state is as it was made, whatever tests before did to it."""
    for name in STATE:
        shutil.rmtree(made / name)
        shutil.copytree(made / "kept" / name, made / name)
    live_in(made, tool_cache, monkeypatch)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(made / "sample" / "claude"))
    monkeypatch.setenv("HELIX_SWEEP_WORKERS", "1")
    return made / "sample"


@pytest.fixture
def swept(made: Path, logs: Path) -> Iterator[dg.DagsterInstance]:
    """The instance that knows of those sweeps."""
    with real_instance(made) as instance:
        yield instance


def materialized(instance: dg.DagsterInstance) -> dict[str, set[str]]:
    return {tier: instance.get_materialized_partitions(dg.AssetKey(tier)) for tier in TIERS}


def index_rows(instance: dg.DagsterInstance, table: str) -> set[str]:
    """The runs that a table of the common database speaks of."""
    log = instance.event_log_storage
    assert isinstance(log, SqliteEventLogStorage)
    with closing(sqlite3.connect(log.path_for_shard("index"))) as connection:
        return {run_id for (run_id,) in connection.execute(f"select run_id from {table}") if run_id}


def test_every_partition_stays_materialized_and_fresh(swept: dg.DagsterInstance, store: Store) -> None:
    before = materialized(swept), [staleness(swept, partition) for partition in partitions(store)]
    assert evict_old_runs(swept, keep=1).runs >= 4
    assert (materialized(swept), [staleness(swept, partition) for partition in partitions(store)]) == before
    assert set().union(*map(set, before[1])) == {"FRESH"}


def test_every_check_keeps_its_last_answer(swept: dg.DagsterInstance) -> None:
    keys = [dg.AssetCheckKey(dg.AssetKey("session_digests"), name) for name in ("token_totals_add_up", "prices_known")]
    evict_old_runs(swept, keep=1)
    last = swept.event_log_storage.get_latest_asset_check_execution_by_key(keys)
    assert [record.status.value for record in last.values()] == ["SUCCEEDED", "SUCCEEDED"]


def test_nothing_is_left_of_a_run_that_went(swept: dg.DagsterInstance) -> None:
    before = set(swept.get_run_ids())
    evict_old_runs(swept, keep=1)
    gone = before - set(swept.get_run_ids())
    names = {path.name for path in Path(swept.storage_directory()).parent.rglob("*")}
    assert gone
    assert not gone & (index_rows(swept, "event_logs") | index_rows(swept, "asset_check_executions"))
    assert not [name for name in names if name.split(".")[0] in gone]


def test_the_newest_runs_and_those_that_go_on_stay(swept: dg.DagsterInstance) -> None:
    going_on = create_run_for_test(swept, status=dg.DagsterRunStatus.STARTED)
    for _ in range(3):
        create_run_for_test(swept, status=dg.DagsterRunStatus.SUCCESS)
    newest = swept.get_run_ids(limit=2)
    evict_old_runs(swept, keep=2)
    assert {*newest, going_on.run_id} <= set(swept.get_run_ids())


def test_a_second_eviction_finds_nothing(swept: dg.DagsterInstance) -> None:
    evict_old_runs(swept, keep=1)
    assert evict_old_runs(swept, keep=1).runs == 0


def test_the_sensor_asks_for_nothing_afterwards(swept: dg.DagsterInstance) -> None:
    evict_old_runs(swept, keep=1)
    assert isinstance(tick(swept), dg.SkipReason)


def test_the_databases_fall_with_what_is_in_them(swept: dg.DagsterInstance) -> None:
    for _ in range(300):
        create_run_for_test(swept, status=dg.DagsterRunStatus.SUCCESS)
    file = Path(swept.storage_directory()).parent / "storage" / "history" / "runs.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
    before = file.stat().st_size
    assert evict_old_runs(swept, keep=1).runs >= 300
    assert file.stat().st_size < before / 2


def test_only_the_newest_evaluations_of_conditions_stay(
    swept: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(old_runs, "KEEP_EVALUATIONS", 3)
    file = Path(swept.storage_directory()).parent / "storage" / "schedules" / "schedules.db"
    rows = [(number, '["a"]', "{}") for number in range(10)]
    into = (
        "insert into asset_daemon_asset_evaluations (evaluation_id, asset_key, asset_evaluation_body) values (?, ?, ?)"
    )
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.executemany(into, rows)
    assert evict_old_runs(swept).evaluations == 7


def test_another_persons_storage_is_left_alone(logs: Path, instance: dg.DagsterInstance) -> None:
    run_job(instance, "sweep")
    run_job(instance, "sweep")
    assert evict_old_runs(instance, keep=1).runs == 0
    assert len(instance.get_run_ids()) == 2


def test_the_schedule_asks_once_it_is_worth_a_run(swept: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch) -> None:
    context = dg.build_schedule_context(instance=swept)
    assert isinstance(old_runs_schedule(context), dg.SkipReason)
    monkeypatch.setattr(schedules, "old_runs", lambda _: ["run"] * schedules.WORTH_A_RUN)
    assert isinstance(old_runs_schedule(context), dg.RunRequest)


def test_the_job_shows_what_went(swept: dg.DagsterInstance) -> None:
    result = run_job(swept, "old_runs_job")
    output = next(event for event in result.all_events if event.event_type_value == "STEP_OUTPUT")
    assert result.success
    assert {"runs", "evaluations", "bytes_freed"} <= output.step_output_data.metadata.keys()
