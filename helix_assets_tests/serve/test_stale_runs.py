"""Runs that a dead tree left behind, on a real Dagster instance."""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from dagster import DagsterInstance, DagsterRunStatus
from dagster._core.events import EngineEventData
from dagster._core.storage.tags import GRPC_INFO_TAG
from dagster._core.test_utils import create_run_for_test

from helix_assets.serve.dagster_home import prepare_dagster_home
from helix_assets.serve.stale_runs import PROCESS, close_stale_runs, is_alive

UNFINISHED = [DagsterRunStatus.STARTING, DagsterRunStatus.STARTED]


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[DagsterInstance]:
    with DagsterInstance.from_config(str(prepare_dagster_home(tmp_path / "data"))) as instance:
        yield instance


def launched_by(path: Path) -> dict[str, str]:
    """The tag that Dagster gives a run which the code server on this socket executes."""
    return {GRPC_INFO_TAG: json.dumps({"host": "localhost", "socket": str(path)})}


def status_of(instance: DagsterInstance, run_id: str) -> DagsterRunStatus:
    run = instance.get_run_by_id(run_id)
    assert run is not None
    return run.status


def run_in_process(instance: DagsterInstance, pid: int) -> str:
    """A started run whose log names this process as its own."""
    run = create_run_for_test(instance, status=DagsterRunStatus.STARTED)
    instance.report_engine_event("Started process for run", run, EngineEventData.in_process(pid))
    return str(run.run_id)


@pytest.mark.parametrize("status", UNFINISHED)
def test_a_run_of_a_dead_code_server_is_failed(
    instance: DagsterInstance, tmp_path: Path, status: DagsterRunStatus
) -> None:
    run = create_run_for_test(instance, status=status, tags=launched_by(tmp_path / "gone.sock"))
    assert close_stale_runs(instance) == [run.run_id]
    assert status_of(instance, run.run_id) is DagsterRunStatus.FAILURE


@pytest.mark.parametrize("status", UNFINISHED)
def test_a_run_that_names_no_process_is_failed(instance: DagsterInstance, status: DagsterRunStatus) -> None:
    run = create_run_for_test(instance, status=status)
    close_stale_runs(instance)
    assert status_of(instance, run.run_id) is DagsterRunStatus.FAILURE


def test_a_run_that_was_being_canceled_is_canceled(instance: DagsterInstance) -> None:
    run = create_run_for_test(instance, status=DagsterRunStatus.CANCELING)
    close_stale_runs(instance)
    assert status_of(instance, run.run_id) is DagsterRunStatus.CANCELED


def test_a_run_of_a_living_code_server_goes_on(instance: DagsterInstance) -> None:
    # A socket's path is limited to about 100 bytes, which pytest's own folders may exceed.
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{folder}/code.sock")
        server.listen()
        tags = launched_by(Path(folder) / "code.sock")
        run = create_run_for_test(instance, status=DagsterRunStatus.STARTED, tags=tags)
        assert close_stale_runs(instance) == []
    assert status_of(instance, run.run_id) is DagsterRunStatus.STARTED


def test_a_run_in_a_living_process_goes_on(instance: DagsterInstance) -> None:
    run_id = run_in_process(instance, os.getpid())
    assert close_stale_runs(instance) == []
    assert status_of(instance, run_id) is DagsterRunStatus.STARTED


def test_a_run_in_a_dead_process_is_failed(instance: DagsterInstance) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    run_id = run_in_process(instance, dead.pid)
    assert close_stale_runs(instance) == [run_id]
    assert status_of(instance, run_id) is DagsterRunStatus.FAILURE


@pytest.mark.parametrize("names_the_run", [True, False])
def test_a_run_of_ours_lives_as_long_as_a_process_that_names_it(instance: DagsterInstance, names_the_run: bool) -> None:
    run = create_run_for_test(instance, status=DagsterRunStatus.STARTED)
    words = [sys.executable, "-c", "import time; time.sleep(60)", run.run_id if names_the_run else "another"]
    process = subprocess.Popen(words)
    try:
        instance.report_engine_event("Started", run, EngineEventData({PROCESS: str(process.pid)}))
        instance.report_engine_event("Started process for run", run, EngineEventData.in_process(process.pid))
        assert is_alive(instance, run) == names_the_run
    finally:
        process.kill()
        process.wait()
    assert not is_alive(instance, run)


@pytest.mark.parametrize("status", [DagsterRunStatus.SUCCESS, DagsterRunStatus.FAILURE])
def test_finished_runs_are_left_alone(instance: DagsterInstance, status: DagsterRunStatus) -> None:
    run = create_run_for_test(instance, status=status)
    assert close_stale_runs(instance) == []
    assert status_of(instance, run.run_id) is status
