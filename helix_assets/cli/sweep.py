"""`helix sweep`: takes in what is new and says what changed. `sweep.sweep` does the work."""

import ctypes
import json
import os
import signal
import sys
from contextlib import closing
from typing import Any

import click

from helix_assets.cli.output import Advance, Column, Table, emit, human_count, human_size, print_tables, progress, say
from helix_assets.model.errors import BusyError
from helix_assets.settings import Settings, load_settings
from helix_assets.store.store import Store, open_store
from helix_assets.sweep.sweep import sweep as run_sweep
from helix_assets.sweep.sweep_report import Progress, SweepReport

LISTED_PROBLEMS = 20
_NO_LOGS = "No session logs were found; `helix config` shows where they are looked for, `helix up --demo` a sample."


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--for-up", "answer_to", type=int, hidden=True, help="Where `helix up` wants the answer.")
def sweep(as_json: bool, answer_to: int | None) -> None:
    """Take in what is new in the agents' logs and digest it."""
    if answer_to is not None:
        _end_with_parent()
        os.write(answer_to, json.dumps(_before_serving(as_json=as_json)).encode())
        return
    with closing(open_store(load_settings())) as store:
        report = _with_progress(store)
    if as_json:
        emit(_as_data(report), as_json=True)
    else:
        _print_report(report)


def _end_with_parent() -> None:
    """Let this process be killed when its parent dies; a thread that waits for that would keep workers from forking."""
    if sys.platform == "linux":
        parent, set_signal_at_death_of_parent = os.getppid(), 1
        ctypes.CDLL(None).prctl(set_signal_at_death_of_parent, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)


def _before_serving(*, as_json: bool) -> dict[str, float] | None:
    """What the first sweep counted, None if another process was writing."""
    try:
        return first_sweep(load_settings(), as_json=as_json)
    except BusyError as exc:
        say(f"{exc}. Serving the memory as it is; the sensor sweeps later.", err=as_json)
        return None


def first_sweep(settings: Settings, *, as_json: bool) -> dict[str, float]:
    """Sweep, as `helix up` does before it serves. For a person, show what changed and what the memory contains."""
    with closing(open_store(settings)) as store:
        report = _with_progress(store)
        if as_json:
            return report.counters()
        from helix_assets.cli.status import tables_by_agent  # a sweep without news does not need it

        agents = tables_by_agent(store)
    _print_report(report, *agents)
    return report.counters()


class _Bar(Progress):
    """A sweep's progress in KiB of changed logs."""

    def __init__(self, move: Advance) -> None:
        self._move = move
        self._done = 0

    def start(self, total_bytes: int) -> None:
        self._move(0, total_bytes >> 10)

    def advance(self, done_bytes: int, session_uid: str) -> None:
        self._done += done_bytes
        self._move(self._done >> 10)


def _with_progress(store: Store) -> SweepReport:
    with progress("Reading logs (KiB)") as move:
        report = run_sweep(store, progress=_Bar(move))
    # A session with a damaged file keeps the name that older rules gave it.
    report.touched = set(store.shown(report.touched))
    report.problems = [(store.shown(place), store.shown(what)) for place, what in report.problems]
    return report


def _as_data(report: SweepReport) -> dict[str, Any]:
    return {
        **report.counters(),
        "sessions": sorted(report.touched),
        "partitions": sorted(report.partitions),
        "problems": [{"path": path, "reason": reason} for path, reason in report.problems],
    }


def _print_report(report: SweepReport, *more: Table) -> None:
    tables = [_problems(report)] if report.problems else []
    if _found_nothing(report):
        nothing = f"Nothing new in {human_count(report.files_seen)} files ({report.seconds:.1f} s)."
        say(nothing if report.files_seen else _NO_LOGS)
    else:
        tables.insert(0, _changes(report))
    print_tables([*tables, *more])


def _found_nothing(report: SweepReport) -> bool:
    is_changed = report.touched or report.digests_placed
    return not (report.files_changed or report.files_gone or report.files_skipped or is_changed)


def _changes(report: SweepReport) -> Table:
    counts = [
        ("files changed", report.files_changed),
        ("files gone (what was read of them stays)", report.files_gone),
        ("files excluded by helix.toml", report.files_excluded),
        ("files that cannot be read", report.files_skipped),
        ("sessions updated", report.sessions_touched),
        ("sessions that failed", report.sessions_failed),
        ("lines read", report.lines_read),
        ("lines that are not records", report.records_unparsed),
        ("secrets redacted", report.redactions),
        ("records withheld", report.records_withheld),
        ("digests written", report.digests_written),
        ("digests that failed", report.digests_failed),
        ("sessions with another repository, domain or task", report.digests_placed),
    ]
    rows = [[name, human_count(count)] for name, count in counts if count]
    rows += [["read", human_size(report.bytes_read)], ["stored", human_size(report.bytes_written)]]
    rows += [["seconds", f"{report.seconds:.1f}"]]
    title = f"{human_count(report.files_seen)} files seen"
    return Table([Column("what changed"), Column("", "right")], rows, title)


def _problems(report: SweepReport) -> Table:
    shown = report.problems[:LISTED_PROBLEMS]
    more = len(report.problems) - len(shown)
    rows = [[path, reason] for path, reason in shown]
    if more:
        rows.append([f"... and {human_count(more)} more", "see `helix sweep --json` or `helix status`"])
    return Table([Column("problem in"), Column("what")], rows)
