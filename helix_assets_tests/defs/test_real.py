"""The real thing as a person has it: `helix up` on a home of logs, swept from the UI and by itself."""

import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from helix_assets.hooks.install import command_of
from helix_assets_tests.home import conversation
from helix_assets_tests.serve.tree import LAUNCH, Tree, wait_until

pytestmark = pytest.mark.real

_MATERIALIZED = """{assetNodes{assetKey{path} assetPartitionStatuses{... on MultiPartitionStatuses{ranges{
    primaryDimStartKey primaryDimEndKey secondaryDim{... on DefaultPartitionStatuses{materializedPartitions}}}}}}}"""
_AT_WORK = "{runsOrError(filter:{statuses:[QUEUED,STARTING,STARTED]}){... on Runs{count}}}"
_WITHIN_S = 10
TIERS = {"source_files", "session_events", "session_digests"}


class HelixTree(Tree):
    """`helix up` with the first sweep, on the product's own definitions and a home with logs of Claude."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.projects = folder / "home" / ".claude" / "projects" / "-home-u-shop"
        self.projects.mkdir(parents=True)
        self.environment |= {"HELIX_DATA_DIR": str(self.data_dir), "HELIX_CONFIG": str(folder / "helix.toml")}
        (folder / "helix.toml").touch()

    def start(self) -> None:
        command = [sys.executable, "-m", "helix_assets", "up", "--port", str(self.port)]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(command, env=self.environment, stdout=output, stderr=output)
        assert wait_until(lambda: b"Dagster UI on" in self.output.read_bytes()), self.output.read_text()

    def holding(self, day: str) -> set[str]:
        """The tiers that Dagster shows as materialized for Claude on this day."""
        return {
            node["assetKey"]["path"][0]
            for node in self.ask(_MATERIALIZED)["assetNodes"]
            for part in node["assetPartitionStatuses"].get("ranges", ())
            if part["primaryDimStartKey"] <= day <= part["primaryDimEndKey"]
            and "claude" in part["secondaryDim"]["materializedPartitions"]
        }

    def sweep(self) -> str:
        """Launch the sweep job as the UI does; gives the run id."""
        selector = {"repositoryLocationName": "helix_assets", "repositoryName": "__repository__", "jobName": "sweep"}
        params: dict[str, Any] = {"selector": selector, "mode": "default", "runConfigData": {}}
        answer = self.ask(LAUNCH, {"params": params})["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        return str(answer["run"]["id"])


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HelixTree]:
    tree = HelixTree(tmp_path_factory.mktemp("helix"))
    (tree.projects / "11111111-1111-4111-8111-111111111111.jsonl").write_bytes(b"".join(conversation(2)))
    tree.start()
    yield tree
    assert tree.process is not None
    tree.process.terminate()
    tree.process.wait(30)


def test_a_sweep_launched_from_the_page_materializes_the_partitions(tree: HelixTree) -> None:
    run_id = tree.sweep()
    assert wait_until(lambda: tree.status(run_id) == "SUCCESS"), tree.output.read_text()
    assert tree.holding("2026-06-05") == TIERS


def test_a_new_log_is_taken_in_without_any_command(tree: HelixTree) -> None:
    lines = b"".join(conversation(1, session="b")).replace(b"2026-06-05", b"2026-06-07")
    (tree.projects / "22222222-2222-4222-8222-222222222222.jsonl").write_bytes(lines)
    assert wait_until(lambda: tree.holding("2026-06-07") == TIERS, 75), tree.output.read_text()
    assert not tree.holding("2026-06-06")


def _seconds_to_digest(tree: HelixTree, number: int) -> float:
    session = f"2222222{number}-2222-4222-8222-222222222222"
    (tree.projects / f"{session}.jsonl").write_bytes(b"".join(conversation(2, session=str(number))))
    event = json.dumps({"hook_event_name": "SessionEnd", "session_id": session}).encode()
    begin = time.monotonic()
    subprocess.run(command_of("claude", tree.data_dir), input=event, check=True)
    with closing(sqlite3.connect(f"file:{tree.data_dir / 'helix.db'}?mode=ro", uri=True)) as reader:
        ask = "select count(*) from digests where session_uid = ?"
        assert wait_until(lambda: reader.execute(ask, (f"claude:{session}",)).fetchone() == (1,)), (
            tree.output.read_text()
        )
    return time.monotonic() - begin


def test_from_hook_to_digest_in_under_ten_seconds(tree: HelixTree) -> None:
    """Or four times what it takes to load the definitions, where so much else goes on that this alone needs 2.5."""
    assert wait_until(lambda: tree.ask(_AT_WORK)["runsOrError"]["count"] == 0), "the sweeps before come to an end"
    begin = time.monotonic()
    subprocess.run([sys.executable, "-c", "import helix_assets.definitions"], check=True, env=tree.environment)
    allowed = max(_WITHIN_S, 4 * (time.monotonic() - begin))
    assert any(_seconds_to_digest(tree, number) < allowed for number in range(3))
