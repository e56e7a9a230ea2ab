"""What people do with Dagster, done with the server process of `helix up`: runs, schedules, sensors, backfills."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from helix_assets.serve import process
from helix_assets_tests.serve.test_lifeline import is_gone
from helix_assets_tests.serve.tree import LAUNCH, Tree, launch_params, wait_until

real = pytest.mark.real
_CODE = """
import os, signal, sys, time
import dagster as dg

days = dg.StaticPartitionsDefinition(["a", "b", "c"])

@dg.asset(partitions_def=days)
def parted(): ...

@dg.asset
def talking():
    print("said to stdout")
    print("said to stderr", file=sys.stderr)

@dg.asset
def stubborn():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    time.sleep(300)

@dg.asset
def dying():
    os.kill(os.getpid(), signal.SIGKILL)

@dg.job
def empty(): ...

@dg.schedule(job=empty, cron_schedule="* * * * *", default_status=dg.DefaultScheduleStatus.RUNNING)
def minutely():
    return dg.RunRequest(tags={"by": "the schedule"})

@dg.sensor(job=empty, minimum_interval_seconds=1)
def eager(context):
    context.update_cursor(str(int(context.cursor or 0) + 1))
    return dg.SkipReason("nothing to do")

from toy_definitions import slow, toy

defs = dg.Definitions(
    assets=[parted, talking, stubborn, dying, toy, slow], schedules=[minutely], sensors=[eager],
    executor=dg.in_process_executor,
)
"""
_SELECTOR = {"repositoryLocationName": "helix_assets", "repositoryName": "__repository__"}
_ENDED = ("SUCCESS", "FAILURE", "CANCELED")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tree]:
    """A running tree with more definitions; each test leaves it running."""
    tree = Tree(tmp_path_factory.mktemp("process"), definitions={"more_definitions": _CODE})
    tree.start()
    yield tree
    assert tree.end(signal.SIGTERM) == 0, tree.output.read_text()


def children_of(pid: int) -> list[int]:
    """All that descend from a process."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    parents = {int(child): int(parent) for child, parent in (line.split() for line in listing.splitlines())}
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def server_of(tree: Tree) -> int:
    assert tree.process is not None
    return children_of(tree.process.pid)[0]


def ended(tree: Tree, run_id: str) -> str:
    assert wait_until(lambda: tree.status(run_id) in _ENDED), tree.output.read_text()
    return tree.status(run_id)


def terminate(tree: Tree, run_id: str) -> str:
    answer = tree.ask("mutation($id: String!){terminateRun(runId:$id){__typename}}", {"id": run_id})
    return str(answer["terminateRun"]["__typename"])


@real
def test_one_process_serves_and_its_parent_only_waits(tree: Tree) -> None:
    assert tree.process is not None
    assert len(children_of(tree.process.pid)) == 1


def test_the_parent_loads_none_of_what_the_server_needs() -> None:
    words = "import sys, helix_assets.cli.main, helix_assets.cli.up; print(*{m.split('.')[0] for m in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True).stdout.split()
    assert "click" in loaded
    heavy = {"dagster", "duckdb", "grpc", "numpy", "pyarrow", "pydantic", "sqlalchemy", "starlette", "uvicorn"}
    assert heavy & set(loaded) == set()


@real
def test_a_run_that_is_terminated_is_canceled_and_its_process_gone(tree: Tree) -> None:
    run_id = tree.launch("slow", max_retries="0")
    assert wait_until(lambda: tree.status(run_id) == "STARTED")
    family = children_of(server_of(tree))
    assert terminate(tree, run_id) == "TerminateRunSuccess"
    assert ended(tree, run_id) == "CANCELED"
    assert wait_until(lambda: all(map(is_gone, family)))


@real
def test_a_run_that_does_not_listen_is_canceled_all_the_same(tree: Tree) -> None:
    run_id = tree.launch("stubborn", max_retries="0")
    assert wait_until(lambda: tree.status(run_id) == "STARTED")
    time.sleep(1)  # until it ignores the signal
    assert terminate(tree, run_id) == "TerminateRunSuccess"
    assert ended(tree, run_id) == "CANCELED"


@real
def test_a_run_whose_process_dies_fails_at_once(tree: Tree) -> None:
    run_id = tree.launch("dying", max_retries="0")
    assert ended(tree, run_id) == "FAILURE"
    ask = "query($id: ID!){logsForRun(runId:$id){... on EventConnection{events{... on MessageEvent{message}}}}}"
    messages = [event["message"] for event in tree.ask(ask, {"id": run_id})["logsForRun"]["events"]]
    assert "The process of this run ended unexpectedly (code -9)." in messages


@real
def test_what_a_run_prints_is_kept(tree: Tree) -> None:
    run_id = tree.launch("talking")
    assert ended(tree, run_id) == "SUCCESS"
    ask = "query($id: ID!){logsForRun(runId:$id){... on EventConnection{events{... on LogsCapturedEvent{fileKey}}}}}"
    events = tree.ask(ask, {"id": run_id})["logsForRun"]["events"]
    key = next(event["fileKey"] for event in events if event)
    ask = "query($key: [String!]!){capturedLogs(logKey:$key){stdout stderr}}"
    logs = tree.ask(ask, {"key": [run_id, "compute_logs", key]})["capturedLogs"]
    assert "said to stdout" in logs["stdout"]
    assert "said to stderr" in logs["stderr"]


@real
def test_a_backfill_makes_every_partition(tree: Tree) -> None:
    ask = """mutation($p: LaunchBackfillParams!){launchPartitionBackfill(backfillParams:$p){
      ... on LaunchBackfillSuccess{backfillId} ... on PythonError{message}}}"""
    params = {"assetSelection": [{"path": ["parted"]}], "partitionNames": ["a", "b", "c"]}
    answer = tree.ask(ask, {"p": params})["launchPartitionBackfill"]
    made = """{assetNodeOrError(assetKey:{path:["parted"]}){... on AssetNode{
      partitionStats{numMaterialized}}}}"""
    assert wait_until(lambda: tree.ask(made)["assetNodeOrError"]["partitionStats"]["numMaterialized"] == 3, 90), answer


def _ticks(tree: Tree) -> int:
    ask = """query($s: SensorSelector!){sensorOrError(sensorSelector:$s){... on Sensor{
      sensorState{typeSpecificData{... on SensorData{lastCursor}}}}}}"""
    data = tree.ask(ask, {"s": {**_SELECTOR, "sensorName": "eager"}})["sensorOrError"]["sensorState"]
    return int((data["typeSpecificData"] or {}).get("lastCursor") or 0)


@real
def test_a_sensor_is_switched_on_and_off(tree: Tree) -> None:
    on = """mutation($s: SensorSelector!){startSensor(sensorSelector:$s){
      ... on Sensor{sensorState{id}} ... on PythonError{message}}}"""
    answer = tree.ask(on, {"s": {**_SELECTOR, "sensorName": "eager"}})
    assert wait_until(lambda: _ticks(tree) >= 2), answer
    off = "mutation($id: String!){stopSensor(id:$id){... on StopSensorMutationResult{instigationState{status}}}}"
    answer = tree.ask(off, {"id": answer["startSensor"]["sensorState"]["id"]})
    assert answer["stopSensor"]["instigationState"]["status"] == "STOPPED"


@real
def test_a_reload_says_that_it_is_not_possible(tree: Tree) -> None:
    ask = """mutation($n: String!){reloadRepositoryLocation(repositoryLocationName:$n){__typename
      ... on ReloadNotSupported{message}}}"""
    assert tree.ask(ask, {"n": "helix_assets"})["reloadRepositoryLocation"]["__typename"] == "ReloadNotSupported"


@real
def test_a_schedule_starts_its_run_at_its_time(tree: Tree) -> None:
    ask = """{runsOrError(filter:{tags:[{key:"by",value:"the schedule"}], statuses:[SUCCESS]}){... on Runs{count}}}"""
    assert wait_until(lambda: tree.ask(ask)["runsOrError"]["count"] > 0, 80), tree.output.read_text()


@real
def test_a_killed_server_comes_back_on_the_same_port_and_its_runs_have_failed(tree: Tree) -> None:
    run_id = tree.launch("slow", max_retries="0")
    assert wait_until(lambda: tree.status(run_id) == "STARTED")
    server = server_of(tree)
    family = [server, *children_of(server)]
    os.kill(server, signal.SIGKILL)
    assert wait_until(lambda: b"The server ended unexpectedly" in tree.output.read_bytes())
    assert httpx.get(f"{tree.url}/server_info", timeout=60).status_code == 200
    assert wait_until(lambda: tree.status(run_id) == "FAILURE")
    assert wait_until(lambda: all(map(is_gone, family)))


@real
def test_a_killed_parent_takes_server_and_runs_with_it(tree: Tree) -> None:
    assert tree.process is not None
    run_id = tree.launch("stubborn", max_retries="0")
    assert wait_until(lambda: tree.status(run_id) == "STARTED")
    family = children_of(tree.process.pid)
    tree.end(signal.SIGKILL)
    assert wait_until(lambda: all(map(is_gone, family)), 15)
    tree.start()
    assert tree.status(run_id) == "FAILURE"


@real
def test_from_ctrl_c_to_the_prompt_in_three_seconds_whatever_runs(tree: Tree) -> None:
    assert tree.process is not None
    run_ids = [tree.launch("stubborn", max_retries="0"), tree.launch("slow", max_retries="0")]
    assert wait_until(lambda: all(tree.status(run_id) == "STARTED" for run_id in run_ids)), tree.output.read_text()
    family = children_of(tree.process.pid)
    begin = time.monotonic()
    assert tree.end(signal.SIGINT) == 0
    took = time.monotonic() - begin
    assert all(map(is_gone, family))
    assert took < 4, "3 s, and some for a busy machine"
    tree.start()
    assert [tree.status(run_id) for run_id in run_ids] == ["FAILURE", "FAILURE"]


@real
def test_an_open_and_read_only_server_wants_its_token_and_changes_nothing(tmp_path: Path) -> None:
    own = Tree(tmp_path, options={"host": "0.0.0.0", "allow_remote": True, "read_only": True})
    own.start()
    try:
        token = (own.data_dir / "ui.token").read_text().strip()
        headers = {"Authorization": f"Bearer {token}", "Origin": own.url}
        assert httpx.get(f"{own.url}/server_info").status_code == 401
        assert httpx.get(f"{own.url}/server_info", headers=headers).status_code == 200
        body = {"query": LAUNCH, "variables": {"params": launch_params("toy")}}
        refused = httpx.post(f"{own.url}/graphql", json=body, headers=headers)
        assert (refused.status_code, "read-only" in refused.text) == (400, True)
    finally:
        assert own.end(signal.SIGTERM) == 0


def test_a_task_that_fails_starts_again_and_its_words_are_not_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(process, "_PAUSE_S", 0.01)
    stop, tries = threading.Event(), []

    def task(instance: Any, event: threading.Event) -> None:
        tries.append(instance)
        if len(tries) == 3:
            event.set()
        raise ValueError("a private text")

    process._keep_up("follower", task, None, stop)  # type: ignore[arg-type]
    assert len(tries) == 3
    assert "follower failed (ValueError)" in caplog.text
    assert "private" not in caplog.text


def test_the_process_ends_when_a_daemon_has_died(monkeypatch: pytest.MonkeyPatch) -> None:
    stop, codes = threading.Event(), []

    def check() -> None:
        raise Exception("threads no longer running")

    def end(code: int) -> None:
        codes.append(code)
        stop.set()

    monkeypatch.setattr(process, "_LOOK_S", 0.01)
    monkeypatch.setattr(process.os, "_exit", end)
    process._watch_over(check, stop)
    assert codes == [70]
