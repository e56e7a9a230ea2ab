"""Ten thousand sweeps in Dagster's own databases, as runs of the product would have left them.

Rows are copied from runs that took place: a sweep of one changed file, the run of the assets that follow it, and, so
that the copies speak of many days, the materializations of a wide sweep. Ids, keys and times are new.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

_RUN = ("snapshot_id", "pipeline_name", "mode", "status", "partition", "partition_set", "backfill_id")
_EVENT = ("dagster_event_type", "step_key", "asset_key", "partition")
_CHECK = ("asset_key", "check_name", "partition", "execution_status", "evaluation_event_timestamp",
          "evaluation_event_storage_id", "materialization_event_storage_id")  # fmt: skip
_UNIQUE_TAGS = ("helix/recorded", "dagster/run_key")
_DAY_S = 86_400
BETWEEN_S = 600.0


@dataclass(frozen=True)
class Templates:
    """The runs that are copied: of one file, of many partitions, of what follows a sweep."""

    sweep: str
    wide_sweep: str
    following: str


class Fill:
    """Writes to the databases of a tree that is not up."""

    def __init__(self, state: Path, templates: Templates) -> None:
        self._folder = state / "dagster" / "storage"
        self._templates = templates

    def run(self, sweeps: int) -> None:
        """Add so many sweeps, every second of them followed by a run of the assets that depend on it."""
        folder, of = self._folder, self._templates
        with (
            closing(sqlite3.connect(folder / "history/runs.db")) as self._runs,
            closing(sqlite3.connect(folder / "history/runs/index.db")) as self._index,
            closing(sqlite3.connect(folder / "schedules/schedules.db")) as self._ticks,
        ):
            for database in (self._runs, self._index, self._ticks):
                database.execute("pragma synchronous=off")
            self._of_day = dict[str, list[int]]()
            query = "select partition, id from event_logs where run_id = ? and partition is not null order by id"
            for day, event in self._index.execute(query, (of.wide_sweep,)):
                self._of_day.setdefault(day, []).append(event)
            days = list(self._of_day)
            self._asked = {run_id: self._who_asked(run_id) for run_id in (of.sweep, of.following)}
            begin = time.time() - sweeps * BETWEEN_S
            for number in range(sweeps):
                at = begin + number * BETWEEN_S
                self._copy(of.sweep, at, number, days[number * len(days) // sweeps])
                if number % 2:
                    self._copy(of.following, at + 60, number, None)
                for database in (self._runs, self._index, self._ticks):
                    database.commit()

    def _copy(self, run_id: str, at: float, number: int, day: str | None) -> None:
        """A copy of a run: its rows, events, answers of checks, log file, tick and evaluations."""
        new = str(uuid4())
        moment = time.strftime("%Y-%m-%d %H:%M:%S.000000", time.gmtime(at))
        names = ", ".join(_RUN)
        self._runs.execute(
            f"""insert into runs (run_id, run_body, create_timestamp, update_timestamp, start_time, end_time, {names})
            select ?, replace(run_body, ?, ?), ?, ?, ?, ?, {names} from runs where run_id = ?""",
            (new, run_id, new, moment, moment, at + 2, at + 5, run_id),
        )
        self._runs.execute(
            f"""insert into run_tags (run_id, key, value)
            select ?, key, case when key in {_UNIQUE_TAGS} then value || ? else value end from run_tags
            where run_id = ?""",
            (new, f" {number}", run_id),
        )
        for event, template in self._events_of(run_id, day):
            self._copy_event(event, template, new, moment)
        names = ", ".join(_CHECK)
        self._index.execute(
            f"""insert into asset_check_executions (run_id, evaluation_event, create_timestamp, {names})
            select ?, replace(evaluation_event, ?, ?), ?, {names} from asset_check_executions where run_id = ?""",
            (new, run_id, new, moment, run_id),
        )
        os.link(self._folder / f"history/runs/{run_id}.db", self._folder / f"history/runs/{new}.db")
        self._copy_tick(run_id, new, moment)

    def _events_of(self, run_id: str, day: str | None) -> Iterator[tuple[int, str]]:
        """The events to copy; of a sweep those that materialize `day` instead of its own."""
        query = "select id from event_logs where run_id = ? and (? is null or partition is null) order by id"
        for (event,) in self._index.execute(query, (run_id, day)).fetchall():
            yield event, run_id
        for event in self._of_day[day] if day else ():
            yield event, self._templates.wide_sweep

    def _copy_event(self, event: int, template: str, new: str, moment: str) -> None:
        names = ", ".join(_EVENT)
        added = self._index.execute(
            f"""insert into event_logs (run_id, event, timestamp, {names})
            select ?, replace(event, ?, ?), ?, {names} from event_logs where id = ?""",
            (new, template, new, moment, event),
        ).lastrowid
        self._index.execute(
            """insert into asset_event_tags (event_id, asset_key, key, value, event_timestamp)
            select ?, asset_key, key, value, ? from asset_event_tags where event_id = ?""",
            (added, moment, event),
        )

    def _copy_tick(self, run_id: str, new: str, moment: str) -> None:
        """The tick that asked for the run, and the evaluations behind it.

        Left out is what Dagster itself purges after some days, and the evaluations that asked for nothing.
        """
        if moment < time.strftime("%Y-%m-%d", time.gmtime(time.time() - 7 * _DAY_S)):
            return
        tick, evaluations = self._asked[run_id]
        self._ticks.execute(
            """insert into job_ticks (job_origin_id, selector_id, status, type, timestamp, tick_body)
            select job_origin_id, selector_id, status, type, ?, replace(tick_body, ?, ?) from job_ticks where id = ?""",
            (moment, run_id, new, tick),
        )
        (last,) = self._ticks.execute("select max(evaluation_id) from asset_daemon_asset_evaluations").fetchone()
        for evaluation in evaluations:
            self._ticks.execute(
                """insert into asset_daemon_asset_evaluations
                (evaluation_id, asset_key, asset_evaluation_body, num_requested, num_skipped, num_discarded)
                select ?, asset_key, asset_evaluation_body, num_requested, num_skipped, num_discarded
                from asset_daemon_asset_evaluations where id = ?""",
                (last + 1, evaluation),
            )

    def _who_asked(self, run_id: str) -> tuple[int, list[int]]:
        """The tick that asked for a run, and the evaluations that say why."""
        tick = "select id from job_ticks where tick_body like ? order by id limit 1"
        (found,) = self._ticks.execute(tick, (f'%"run_ids": ["{run_id}"]%',)).fetchone()
        of_run = "select id from asset_daemon_asset_evaluations where asset_evaluation_body like ?"
        return found, [evaluation for (evaluation,) in self._ticks.execute(of_run, (f"%{run_id}%",))]
