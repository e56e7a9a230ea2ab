"""The assets of kaizen follow the digests by themselves, and a separate project can depend on them."""

import importlib.util
import json
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import dagster as dg
import pytest

from helix_assets.definitions import defs
from helix_assets.defs.kaizen import kaizen_schedule
from helix_assets.demo import append
from helix_assets.store.lock import writer_lock
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import sweep
from helix_assets_tests.conftest import CHECKOUT
from helix_assets_tests.defs.runs import run_job

EXAMPLE = CHECKOUT / "examples" / "kaizen_consumer"
KAIZEN = {"project_metrics", "correlated_executions", "agent_scorecard"}


def requested(instance: dg.DagsterInstance, cursor: Any = None) -> Any:
    return dg.evaluate_automation_conditions(defs=defs, instance=instance, cursor=cursor)


def names(result: Any) -> set[str]:
    keys = {key for key in defs.resolve_asset_graph().get_all_asset_keys() if key.path[0] == "kaizen"}
    return {key.path[-1] for key in keys if result.get_num_requested(key)}


def materialized(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetMaterialization]:
    events = [event.step_materialization_data.materialization for event in result.get_asset_materialization_events()]
    return {event.asset_key.path[-1]: event for event in events}


def test_one_run_makes_all_of_them(store: Store, instance: dg.DagsterInstance) -> None:
    sessions = sweep(store).sessions_touched
    result = run_job(instance, "kaizen_job")
    made = materialized(result)
    assert result.success
    assert made.keys() == KAIZEN
    assert made["agent_scorecard"].metadata["sessions"].value == sessions
    (check,) = result.get_asset_check_evaluations()
    assert (check.check_name, check.passed) == ("executions_find_their_sessions", True)
    assert {path.name for path in (store.data_dir / "kaizen").iterdir()} == {
        "correlated_executions.parquet", "unmatched_sessions.parquet", "agent_scorecard.parquet", "agent_scorecard.md",
        "agent_scorecard.png"}  # fmt: skip


def test_an_empty_memory_is_no_failure(store: Store, instance: dg.DagsterInstance) -> None:
    assert materialized(run_job(instance, "kaizen_job")).keys() == KAIZEN


def test_executions_without_sessions_fail_the_check(
    store: Store, instance: dg.DagsterInstance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "code" / ".kaizen" / "metrics" / "coder"
    folder.mkdir(parents=True)
    (folder / "executions.jsonl").write_text(json.dumps({"helix_session_uid": "claude:nobody"}) + "\n")
    monkeypatch.setenv("HELIX_KAIZEN_PROJECTS", str(tmp_path / "code"))
    (check,) = run_job(instance, "kaizen_job").get_asset_check_evaluations()
    assert not check.passed
    assert check.metadata["match_rate"].value == 0


def test_nothing_of_a_transcript_is_in_the_metadata(store: Store, instance: dg.DagsterInstance) -> None:
    sweep(store)
    for made in materialized(run_job(instance, "kaizen_job")).values():
        texts = [str(value.value) for value in made.metadata.values() if isinstance(value.value, str)]
        assert all(text.startswith("![success rate by agent and week](data:image/png;base64,") for text in texts)


def test_a_run_that_meets_another_writer_ends_well(
    store: Store, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient = partial(writer_lock, wait_s=0.1)
    monkeypatch.setattr("helix_assets.keep.writing.writer_lock", lambda folder, what, wait_s: patient(folder, what))
    with writer_lock(store.data_dir, "test"):
        result = run_job(instance, "kaizen_job")
    assert result.success
    assert materialized(result) == {}


# Dagster's own helper uses a parameter that it calls beta.
@pytest.mark.filterwarnings("ignore:Parameter `include_sources`")
def test_new_digests_ask_for_all_of_them_once(store: Store, logs: Path, instance: dg.DagsterInstance) -> None:
    """Most partitions of the digests are missing, and do not hold anything up."""
    before = requested(instance)
    run_job(instance, "sweep")
    first = requested(instance, before.cursor)
    assert names(first) == KAIZEN
    run_job(instance, "kaizen_job")
    second = requested(instance, first.cursor)
    assert names(second) == set()
    append(logs, share=0.3)
    run_job(instance, "sweep")
    assert names(requested(instance, second.cursor)) == KAIZEN


def test_a_schedule_stands_behind_the_automation() -> None:
    assert (kaizen_schedule.cron_schedule, kaizen_schedule.job_name) == ("0 4 * * *", "kaizen_job")


@pytest.fixture
def consumer() -> ModuleType:
    spec = importlib.util.spec_from_file_location("kaizen_consumer", EXAMPLE / "kaizen_consumer.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_reads_digests_and_catches_up_once(
    store: Store, logs: Path, instance: dg.DagsterInstance, consumer: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_STORE_DB", str(store.settings.catalog_path))
    sessions = sweep(store).sessions_touched
    run_job(instance, "kaizen_job")
    job = consumer.defs.resolve_implicit_global_asset_job_def()
    first, second = (materialized(job.execute_in_process(instance=instance)) for _ in range(2))
    assert first["daily_output_tokens"].metadata["output_tokens"].value > 0
    assert [made["caught_up"].metadata["entries"].value for made in (first, second)] == [sessions, 0]
    append(logs, share=0.3)
    touched = sweep(store).sessions_touched
    run_job(instance, "kaizen_job")
    third = materialized(job.execute_in_process(instance=instance))
    assert 0 < third["caught_up"].metadata["entries"].value <= touched


@pytest.mark.slow
def test_the_examples_workspace_loads_both_locations(home: Path) -> None:
    command = [sys.executable, "-m", "dagster", "definitions", "validate", "-w", "workspace.yaml"]
    ended = subprocess.run(command, cwd=EXAMPLE, capture_output=True, text=True, check=False)
    told = ended.stdout + ended.stderr
    assert ended.returncode == 0, told
    assert all(
        f"Validation successful for code location {name}" in told for name in ("helix_assets", "kaizen_consumer")
    )
