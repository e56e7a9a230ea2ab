"""Measures Dagster's own part, apart from the pipeline: `python -m bench.dagster_part [--scale 0.1] [--sweeps 10000]`.

A home of 12,862 small files over three years of days and a real `helix up` on it, on the loopback address alone. Takes
forty minutes, for sensors look every 30 s. Rows are described in docs/PERFORMANCE.md.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from statistics import median
from typing import Any
from uuid import uuid4

from bench import contenders, report
from bench.dagster_fill import Fill, Templates
from bench.dagster_tree import Tree, read, used_bytes, wait_for
from bench.processes import measure
from bench.report import Row

SCATTERED = 300
QUIET_TICKS = 4
ASSETS = ("source_files", "session_events", "session_digests")
TIMES_AS_LONG = "ours / theirs"
_DAY_S = 86_400
_SENSOR, _FOLLOWER = "tier0_sensor", "kaizen_automation"
_STAMP = re.compile(rb'"timestamp": ?"(\d{4}-\d\d-\d\d)')
_TICK = """select id, json_extract(tick_body, '$.end_timestamp') - json_extract(tick_body, '$.timestamp') from job_ticks
    where json_extract(tick_body, '$.job_name') = ? and status = 'SKIPPED' order by id desc limit 1"""
_ASKED = "select json_extract(tick_body, '$.timestamp') from job_ticks where tick_body like ? order by id desc limit 1"
_LAST = """select run_id from runs join run_tags using (run_id) where key = 'dagster/sensor_name' and run_tags.value = ?
    and status = 'SUCCESS' order by runs.id desc limit 1"""


class Part:
    """One run of the measurement: the logs, the state, how often each thing is repeated."""

    def __init__(self, folder: Path, options: argparse.Namespace) -> None:
        self.folder, self.home, self.state = folder, folder / "logs", folder / "state"
        self.rounds, self.sweeps, self.random = options.rounds, options.sweeps, Random(options.seed)
        note("making the logs")
        arguments = ["make", "years", str(self.home), str(options.seed), str(options.scale)]
        subprocess.run([sys.executable, "-m", "bench.corpora", *arguments], check=True)
        contenders.sweep(self.home, self.state)
        self.by_day = _by_day(self.home)

    def rows(self) -> Iterator[Row]:
        """Everything, in the order in which it has to happen."""
        yield from self.start_up()
        shutil.copytree(self.state, self.folder / "alone")
        with Tree(self.home, self.state) as tree:
            note("the first sweep is reported")
            tree.finished(0)
            ticks, bytes_a_day = self.quiet(tree)
            count = sum(map(len, self.by_day.values()))
            yield Row(f"sensor's tick without change, {count:,} files", "s", ticks, bar="<= 0.3")
            yield Row("growth of Dagster's databases without change, a day", "MB", [bytes_a_day / 1e6], bar="<= 0.1")
            yield self.scattered(tree)
            wide = _last(self.state, _SENSOR)
            runs, pages = self.one_file(tree), self.pages(tree)
            yield Row("sensor's tick to end of run, one changed file", "s", runs, bar="<= 6")
            yield Row(f"page of an asset, {len(self.by_day):,} days", "s", pages, bar="<= 0.6")
            tree.settle()
        if self.sweeps:
            templates = Templates(_last(self.state, _SENSOR), wide, _last(self.state, _FOLLOWER))
            yield from self.many_sweeps(templates, (ticks, runs, pages))

    def start_up(self) -> Iterator[Row]:
        """The light commands against an interpreter that does nothing."""
        environ = contenders.our_environ(self.home, self.state)
        bare = [measure([sys.executable, "-c", ""], environ).wall_s for _ in range(9)]
        for arguments in (["--help"], ["status"]):
            ours = [measure([sys.executable, "-m", "helix_assets", *arguments], environ).wall_s for _ in range(9)]
            yield Row(f"`helix {arguments[0]}`", "s", ours, "bare interpreter", bare, TIMES_AS_LONG, "<= 3")

    def quiet(self, tree: Tree) -> tuple[list[float], float]:
        """Seconds of some ticks that find nothing, and how fast the databases grow meanwhile, in bytes a day."""
        while True:
            tree.settle()
            note("quiet ticks")
            work, seen, begin, before = tree.last_work(), 0, time.time(), used_bytes(tree.state)
            seconds = list[float]()
            for _ in range(QUIET_TICKS):
                seen, took = wait_for(lambda seen=seen: _tick_after(tree, seen), 120)
                seconds.append(took)
            if tree.last_work() == work:  # else the reports, which wait longer, have come in between
                return seconds[1:], (used_bytes(tree.state) - before) * _DAY_S / (time.time() - begin)

    def one_file(self, tree: Tree) -> list[float]:
        """Seconds from the tick that sees one grown file to the end of the run that it asks for."""
        return [self._changed(tree, 1)[0] for _ in range(self.rounds)]

    def scattered(self, tree: Tree) -> Row:
        """Files grown on many days: the run that reports each partition, less the pipeline alone."""
        extra = list[float]()
        for _ in range(self.rounds):
            took = self._changed(tree, SCATTERED)[1]
            tree.settle()
            run, _ = contenders.sweep(self.home, self.folder / "alone")
            extra.append(took - run.wall_s)
        return Row(f"run over {SCATTERED} scattered partitions, beyond `helix sweep`", "s", extra, bar="<= 5")

    def _changed(self, tree: Tree, days: int) -> tuple[float, float]:
        """Let sessions of so many days grow. Returns the seconds from the tick that sees it, and of the run alone."""
        note(f"{days} changed")
        tree.settle()
        begin = time.time()
        for day in self.random.sample(sorted(self.by_day), min(days, len(self.by_day))):
            _grow(self.random.choice(self.by_day[day]))
        run_id, began, ended = tree.finished(begin)
        asked = tree.read("schedules/schedules", _ASKED, f'%"run_ids": ["{run_id}"]%')[0][0]
        return ended - float(asked), ended - began

    def pages(self, tree: Tree) -> list[float]:
        """Seconds of the queries of the partitioned assets' pages."""
        tree.settle()
        for asset in ASSETS:
            note(f"page of {asset}: " + ", ".join(f"{name} {s:.2f}" for name, s in tree.page(asset)[1].items()))
        return [tree.page(asset)[0] for asset in ASSETS for _ in range(self.rounds)]

    def many_sweeps(self, templates: Templates, first: Sequence[Sequence[float]]) -> Iterator[Row]:
        """The same with ten thousand more sweeps in Dagster's databases, and after their eviction."""
        note(f"adding {self.sweeps:,} sweeps")
        before = used_bytes(self.state)
        Fill(self.state, templates).run(self.sweeps)
        full = used_bytes(self.state)
        with Tree(self.home, self.state) as tree:
            yield from self._again(tree, f"{self.sweeps:,} sweeps more", first)
            shown, count = self._shown(tree), tree.count_runs()
            note("evicting old runs")
            begin = time.time()
            tree.launch("old_runs_job")
            ended = tree.finished(begin - 1, "old_runs_job")[2]
            left = tree.count_runs()
            missing = sum(shown[asset] != now for asset, now in self._shown(tree).items())
            yield Row(f"their eviction, {count:,} runs to {left:,}", "s", [ended - begin])
            yield Row("assets whose partitions look different for it", "", [missing], bar="<= 0")
            mb = [[size / 1e6] for size in (used_bytes(self.state), full)]
            yield Row(f"Dagster's databases after it ({before / 1e6:.0f} MB at first)", "MB", mb[0], "before it", mb[1])
            yield from self._again(tree, "after their eviction", first, "<= 1.2")

    def _again(self, tree: Tree, when: str, first: Sequence[Sequence[float]], bar: str = "") -> Iterator[Row]:
        again = (self.quiet(tree)[0], self.one_file(tree), self.pages(tree))
        for what, ours, before in zip(("tick", "one changed file", "page"), again, first, strict=True):
            yield Row(f"{what}, {when}", "s", ours, "at first", before, TIMES_AS_LONG, bar)

    def _shown(self, tree: Tree) -> dict[str, Any]:
        """What the UI shows of each asset's partitions."""
        return {asset: tree.page(asset)[2]["partitions"] for asset in ASSETS}


def _tick_after(tree: Tree, seen: int) -> tuple[int, float] | None:
    found = tree.read("schedules/schedules", _TICK, _SENSOR)
    return (found[0][0], float(found[0][1])) if found and found[0][0] > seen else None


def _last(state: Path, sensor: str) -> str:
    return str(read(state, "history/runs", _LAST, sensor)[0][0])


def _by_day(home: Path) -> dict[str, list[Path]]:
    """The logs by the day of their first record."""
    days: dict[str, list[Path]] = {}
    for path in sorted((home / "claude").rglob("*.jsonl")):
        if stamp := _STAMP.search(path.read_bytes()):
            days.setdefault(stamp[1].decode(), []).append(path)
    return days


def _grow(path: Path) -> None:
    """Add a prompt like the last one to a session."""
    records = [json.loads(line) for line in path.read_bytes().splitlines() if line.endswith(b"}")]
    last = next(record for record in reversed(records) if record.get("type") in ("user", "assistant"))
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    with path.open("ab") as file:
        file.write(json.dumps(last | {"uuid": str(uuid4()), "timestamp": now}).encode() + b"\n")


def note(text: str) -> None:
    """Print progress on stderr."""
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.dagster_part", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the files")
    parser.add_argument("--sweeps", type=int, default=10_000, help="how many to simulate")
    parser.add_argument("--out", type=Path, default=Path("bench-results/dagster"))
    parser.add_argument("--work", type=Path, help="where to make the temporary folder; some 3 GB are needed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="helix-bench-", dir=options.work) as folder:
        rows = list[Row]()
        for row in Part(Path(folder), options).rows():
            note(f"{row.what}: {median(row.ours):.3g} {row.unit}")
            rows.append(row)
    about = {"machine": report.machine(), "rounds": options.rounds, "seed": options.seed, "scale": options.scale}
    report.write(options.out, rows, about)
    print(report.as_table(rows))


if __name__ == "__main__":
    main()
