"""The bench of a day: what it counts is what was spent. No figure is compared with a clock."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest

from bench import day, fresh, turns
from bench.day_table import Figures, lines, percentile
from bench.servers import CHECKOUT, DAGSTER, NOW, ours
from bench.trees import Server
from helix_assets.ask.digest_lookup import main as digest_lookup
from helix_assets.demo import make_home
from helix_assets.serve.dagster_home import prepare_dagster_home
from helix_assets.settings import load_settings
from helix_assets.store.store import open_store
from helix_assets.sweep.sweep import sweep

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="figures of a tree are read from Linux's /proc")
BURN = "import time\nwhile time.process_time() < 1: pass\n"
WRITE = "import os\nos.write(os.open(os.devnull, os.O_WRONLY), bytes(5_000_000))\n"
# The middle process ends first, so that the one which works loses its parent.
ORPHAN = f"import os\nif os.fork() == 0:\n    exec({BURN!r})\n"
SERVER = """import subprocess, sys, time
subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
print("done", flush=True)
time.sleep(600)
"""


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def serve(program: str, folder: Path) -> Server:
    return Server([sys.executable, "-c", SERVER, program], os.environ, folder / "log.txt")


@LINUX
@pytest.mark.parametrize("program", [BURN, ORPHAN], ids=["waited for", "without a parent"])
def test_a_child_that_worked_and_ended_is_counted(program: str, tmp_path: Path) -> None:
    with serve(program, tmp_path) as server:
        wait_until(lambda: "done" in server.log.read_text() and server.memory().processes == 1)
        assert server.spent().cpu_s >= 0.97
        assert (server.spent() - server.spent()).cpu_s <= 0


@LINUX
def test_what_an_ended_child_wrote_is_counted(tmp_path: Path) -> None:
    with serve(WRITE, tmp_path) as server:
        wait_until(lambda: "done" in server.log.read_text())
        assert server.spent().written >= 5_000_000


@LINUX
def test_stopping_a_server_leaves_no_process(tmp_path: Path) -> None:
    with serve("pass", tmp_path) as server:
        wait_until(lambda: "done" in server.log.read_text())
        assert server.memory().mib > 1
        assert server.ended() is None
    assert server.memory().processes == 0
    assert server.ended() is not None


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "bench" / "logs"
    make_home(folder, seed=1, sessions=3)
    return folder


def test_a_turn_is_what_the_agent_would_append(logs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, agent in (("CLAUDE_CONFIG_DIR", "claude"), ("CODEX_HOME", "codex"), ("GROK_HOME", "grok")):
        monkeypatch.setenv(variable, str(logs / agent))
    sessions = turns.plant(logs, turns.OPEN, seed=5)
    with closing(open_store(load_settings())) as store:
        assert {session.uid for session in sessions} <= sweep(store).touched
        for session in sessions:
            sizes = {path: path.stat().st_size for path in logs.rglob("*.jsonl")}
            written = turns.Turn(session, seed=7).write()
            gained = sum(path.stat().st_size - sizes.get(path, 0) for path in logs.rglob("*.jsonl"))
            report = sweep(store)
            assert written.bytes == gained == pytest.approx(turns.TURN_BYTES, rel=0.25)
            assert (report.touched, report.records_unparsed) == ({session.uid}, 0)


def test_digest_that_the_bench_sees_is_the_one_of_the_lookup(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (session,) = turns.plant(logs, [("claude", 100_000)], seed=5)
    contender = ours(NOW, tmp_path, logs, CHECKOUT)
    for name, value in contender.environ.items():
        monkeypatch.setenv(name, value)
    with (
        closing(open_store(load_settings())) as store,
        fresh.Lookup(sys.executable, contender.environ, tmp_path) as lookup,
    ):
        sweep(store)
        before = lookup.digest(session.uid)
        digest_lookup([session.uid, "--json"])
        assert before == capsys.readouterr().out.strip()
        assert json.loads(before)["session_uid"] == session.uid
        assert lookup.digest("nobody") == ""
        written = turns.Turn(session, seed=7).write()
        assert fresh.readable_after(lookup, session.uid, before, written.at, patience=0) is None
        sweep(store)
        assert fresh.readable_after(lookup, session.uid, before, written.at, patience=0) is not None


def test_report_of_a_partition_is_found_in_dagsters_own_record(tmp_path: Path) -> None:
    digest, begin = '{"started_at": "2026-01-05T10:00:00Z", "flavor": "claude"}', time.time()
    event = dg.AssetMaterialization("session_digests", partition=fresh.partition_of(digest))
    with dg.DagsterInstance.from_config(str(prepare_dagster_home(tmp_path))) as instance:
        instance.report_runless_asset_event(dg.AssetMaterialization("session_digests", partition="2026-01-06|claude"))
        assert fresh.reported_after(tmp_path, digest, begin, patience=0) is None
        instance.report_runless_asset_event(event)
        assert fresh.reported_after(tmp_path, digest, begin, patience=0) == pytest.approx(time.time() - begin, abs=30)
        assert fresh.reported_after(tmp_path, digest, time.time() + 1, patience=0) is None


def test_partition_is_named_as_dagster_names_it() -> None:
    key = dg.MultiPartitionKey({"flavor": "claude", "day": "2026-01-05"})
    assert fresh.partition_of('{"started_at": "2026-01-05T10:00:00Z", "flavor": "claude"}') == key


def test_percentile_of_few_values_is_the_largest() -> None:
    assert percentile([3, 1, 2], 0.95) == 3
    assert percentile(range(1, 101), 0.95) == 95
    assert percentile([3, 1, 2], 0.5) == 2


def test_row_against_bare_dagster_needs_both() -> None:
    figures = {NOW: Figures(), DAGSTER: Figures()}
    options = day._options(["--preset", day.TINY])
    figures[NOW].add("idle cpu", 3)
    assert [row.what for row in lines(figures, options)] == ["idle, CPU s in 180 s"]
    figures[DAGSTER].add("idle cpu", 6)
    assert lines(figures, options)[1].figures == {NOW: 0.5}
    assert lines(figures, options)[1].is_met


def test_corpora_that_are_not_there_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(day, "_GENERATOR", Path("/nowhere/gen_corpus.py"))
    with pytest.raises(SystemExit):
        day._options([])
    assert "gen_corpus.py is missing" in capsys.readouterr().err


@LINUX
@pytest.mark.slow
@pytest.mark.real
def test_short_day_has_sane_figures(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    short = "--only idle,turns --preset tiny --seconds 3 --settle 1 --turns 1 --every 3 --peers dagster --json"
    day.main([*short.split(), "--work", str(tmp_path)])
    figures = json.loads(capsys.readouterr().out)["figures"]
    mine, bare = figures[NOW], figures[DAGSTER]
    # Each imports Dagster at its start, in one process at least.
    assert min(*mine["start"], *bare["start"]) > 0.5
    assert min(*mine["idle pss"], *bare["idle pss"]) > 50
    assert min(*mine["idle processes"], *bare["idle processes"]) >= 1
    assert 0 <= mine["idle cpu"][0] < 3 * (os.cpu_count() or 1) + 1
    assert mine["turns cpu"][0] >= 0
    assert "turns cpu" not in bare
    assert not [*tmp_path.glob("helix-day-*")]
