"""Closing the runs of a Dagster tree that is gone.

Dagster's own run monitoring cannot do it: after a crash of the whole tree a run stays STARTED and keeps its place in
the queue. Queued runs are left alone: they have no process yet, and the daemon starts them later.
"""

import os
import socket
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from dagster import DagsterEventType, DagsterInstance, DagsterRun, DagsterRunStatus, RunsFilter

from helix_assets.serve.dagster_private import code_server_of

PROCESS = "process of the run"
"""Under this name our launcher notes a run's process in the run's log. The process has the run's id in its command."""
_UNFINISHED = [DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
_REASON = "The process of this run is gone: helix was stopped or crashed before the run ended."


def close_stale_runs(instance: DagsterInstance) -> list[str]:
    """Mark unfinished runs whose process is dead as failed (canceled, if they were being canceled).

    Returns their run ids. A run that still has a living process is left alone.
    """
    closed = []
    for run in instance.get_runs(RunsFilter(statuses=_UNFINISHED)):
        if is_alive(instance, run):
            continue
        if run.status is DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, _REASON)
        else:
            instance.report_run_failed(run, _REASON)
        closed.append(run.run_id)
    return closed


def is_alive(instance: DagsterInstance, run: DagsterRun) -> bool:
    """Whether the process of a run exists.

    A run of ours is a process that names the run. One that a code server launched, as in `dagster dev`, lives as long
    as that server; any other as long as the process it named.
    """
    if server := code_server_of(run):
        return _answers(server)
    named = list(_named_processes(instance, run))
    if ours := [pid for name, pid in named if name == PROCESS]:
        return any(run.run_id in _command_of(pid) for pid in ours)
    return any(_process_exists(pid) for _, pid in named)


def _answers(address: dict[str, object]) -> bool:
    path, port = address.get("socket"), address.get("port")
    family = socket.AF_UNIX if path else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(2)
        target = str(path).removeprefix("unix:") if path else (address.get("host") or "localhost", port)
        try:
            probe.connect(target)
        except OSError:
            return False
    return True


def _named_processes(instance: DagsterInstance, run: DagsterRun) -> Iterable[tuple[str, int]]:
    for entry in instance.all_logs(run.run_id, of_type=DagsterEventType.ENGINE_EVENT):
        for name, value in entry.get_dagster_event().engine_event_data.metadata.items():
            if name in (PROCESS, "pid") and str(value.value).isdigit():
                yield name, int(str(value.value))


def _command_of(pid: int) -> str:
    """The words that a process was started with; empty if there is no such process, or it only waits to be reaped."""
    if Path("/proc/self/cmdline").exists():
        with suppress(OSError):
            return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
        return ""
    asked = subprocess.run(["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return asked.stdout


def _process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
