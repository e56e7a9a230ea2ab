"""A real `helix up` for measuring: started on a data folder, asked as its page asks, its own databases read.

Belongs here: starting, asking, looking. What is measured is `dagster_part`'s.
"""

from __future__ import annotations

import json
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from bench.contenders import our_environ

START_S, RUN_S, FOLLOWS_S = 180, 300, 70
_LAUNCH = """mutation($params: ExecutionParams!) {launchRun(executionParams: $params) {
  __typename ... on LaunchRunSuccess {run {id}} ... on PythonError {message}}}"""
# The queries of an asset's page, as far as they depend on the amount of data.
PAGE = {
    "definition": """query($key: AssetKeyInput!) {assetOrError(assetKey: $key) {... on Asset {
        assetMaterializations(limit: 1) {timestamp runId}
        definition {id groupName description staleStatus partitionDefinition {description}
          partitionKeysByDimension {name} dependencyKeys {path} dependedByKeys {path}}}}}""",
    "partitions": """query($key: AssetKeyInput!) {assetNodeOrError(assetKey: $key) {... on AssetNode {
        partitionKeysByDimension {name type partitionKeys}
        assetPartitionStatuses {... on MultiPartitionStatuses {primaryDimensionName ranges {
          primaryDimStartKey primaryDimEndKey
          secondaryDim {... on DefaultPartitionStatuses {materializedPartitions failedPartitions}}}}}}}}""",
    "events": """query($key: AssetKeyInput!) {assetOrError(assetKey: $key) {... on Asset {
        assetMaterializations(limit: 50) {timestamp runId partition tags {key value} runOrError {... on Run {id status}}
        metadataEntries {label ... on IntMetadataEntry {intValue}}}}}}""",
    "latest": """query($key: AssetKeyInput!) {assetsLatestInfo(assetKeys: [$key]) {
        latestMaterialization {timestamp runId} latestRun {id status} inProgressRunIds}}""",
    "checks": """query($key: AssetKeyInput!) {assetNodeOrError(assetKey: $key) {... on AssetNode {assetChecksOrError {
        ... on AssetChecks {checks {name executionForLatestMaterialization {status runId}}}}}}}""",
}


def wait_for(look: Callable[[], Any], seconds: float) -> Any:
    """The first true result of `look`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := look():
            return found
        time.sleep(0.1)
    raise TimeoutError(f"nothing came of {look} in {seconds} s")


class Tree:
    """`helix up` on a home of logs and a data folder, with its daemon and its webserver; a context manager."""

    def __init__(self, home: Path, state: Path) -> None:
        self._home, self.state = home, state
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._url = f"http://127.0.0.1:{listener.getsockname()[1]}"

    def __enter__(self) -> Tree:
        command = [sys.executable, "-m", "helix_assets", "up", "--port", self._url.rpartition(":")[2]]
        output = self.state.parent / "up.txt"
        with output.open("wb") as file:
            self._process = subprocess.Popen(command, env=our_environ(self._home, self.state), stdout=file, stderr=file)
        wait_for(lambda: "Dagster UI on" in output.read_text(), START_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)

    def ask(self, query: str, variables: Mapping[str, Any]) -> Any:
        """A request as the UI's own page sends it."""
        headers = {"Origin": self._url, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
        body = json.dumps({"query": query, "variables": variables}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{self._url}/graphql", body, headers), timeout=120) as got:
            answer = json.load(got)
        if answer.get("errors"):
            raise RuntimeError(str(answer["errors"])[:2000])
        return answer["data"]

    def page(self, asset: str) -> tuple[float, dict[str, float], dict[str, Any]]:
        """Seconds of an asset's page, of each of its questions, and the answers."""
        seconds, answers = dict[str, float](), dict[str, Any]()
        for name, query in PAGE.items():
            begin = time.perf_counter()
            answers[name] = self.ask(query, {"key": {"path": [asset]}})
            seconds[name] = time.perf_counter() - begin
        return sum(seconds.values()), seconds, answers

    def launch(self, job: str) -> str:
        """Start a job as its page does. Returns the run's id."""
        selector = {"repositoryLocationName": "helix_assets", "repositoryName": "__repository__", "jobName": job}
        params = {"selector": selector, "mode": "default", "runConfigData": {}}
        return str(self.ask(_LAUNCH, {"params": params})["launchRun"]["run"]["id"])

    def read(self, database: str, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Rows of one of Dagster's own databases."""
        return read(self.state, database, query, *values)

    def finished(self, after: float, job: str = "sweep") -> tuple[str, float, float]:
        """The first run of a job requested after a time, once it has ended, with its start and end."""
        query = """select run_id, status, start_time, end_time from runs
            where pipeline_name = ? and create_timestamp > ?
            and end_time is not null order by id limit 1"""
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(after))
        run_id, status, began, ended = wait_for(lambda: self.read("history/runs", query, job, moment), RUN_S)[0]
        if status != "SUCCESS":
            raise RuntimeError(f"{job} {run_id} ended as {status}")
        return run_id, began, ended

    def settle(self) -> None:
        """Wait until nothing has run for longer than what follows a sweep waits."""
        busy = "select 1 from runs where end_time is null or end_time > ? limit 1"
        wait_for(lambda: not self.read("history/runs", busy, time.time() - FOLLOWS_S), RUN_S)

    def count_runs(self) -> int:
        """How many runs Dagster knows."""
        return int(self.read("history/runs", "select count(*) from runs")[0][0])

    def last_work(self) -> tuple[Any, ...]:
        """Stays the same as long as no run exists or is requested."""
        runs = self.read("history/runs", "select max(id) from runs")
        return *runs, *self.read("schedules/schedules", "select max(id) from asset_daemon_asset_evaluations")


def read(state: Path, database: str, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Rows of one of Dagster's own databases."""
    path = state / "dagster" / "storage" / f"{database}.db"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=60)) as connection:
        return connection.execute(query, values).fetchall()


def used_bytes(state: Path) -> int:
    """Bytes in use in Dagster's three databases; free pages are reused before a file grows."""
    total = 0
    for database in ("history/runs", "history/runs/index", "schedules/schedules"):
        (pages,), (free,), (size,) = (
            read(state, database, f"PRAGMA {name}")[0] for name in ("page_count", "freelist_count", "page_size")
        )
        total += (pages - free) * size
    return total
