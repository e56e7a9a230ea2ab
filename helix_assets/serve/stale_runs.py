"""Closing the runs of a Dagster tree that is gone.

Dagster's own run monitoring cannot do it: after a crash of the whole tree a run stays STARTED and keeps its place in
the queue. Queued runs are left alone: they have no process yet, and the daemon starts them later.
"""

import os
import socket
from collections.abc import Iterable

from dagster import DagsterEventType, DagsterInstance, DagsterRun, DagsterRunStatus, RunsFilter

from helix_assets.serve.dagster_private import code_server_of

_UNFINISHED = [DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
_REASON = "The process of this run is gone: helix was stopped or crashed before the run ended."


def close_stale_runs(instance: DagsterInstance) -> list[str]:
    """Mark unfinished runs whose process is dead as failed (canceled, if they were being canceled).

    Returns their run ids. A run that still has a living process is left alone.
    """
    closed = []
    for run in instance.get_runs(RunsFilter(statuses=_UNFINISHED)):
        if _is_alive(instance, run):
            continue
        if run.status is DagsterRunStatus.CANCELING:
            instance.report_run_canceled(run, _REASON)
        else:
            instance.report_run_failed(run, _REASON)
        closed.append(run.run_id)
    return closed


def _is_alive(instance: DagsterInstance, run: DagsterRun) -> bool:
    """A run that a code server launched lives as long as that server; any other as long as the process it named."""
    if server := code_server_of(run):
        return _answers(server)
    return any(_process_exists(pid) for pid in _named_processes(instance, run))


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


def _named_processes(instance: DagsterInstance, run: DagsterRun) -> Iterable[int]:
    for entry in instance.all_logs(run.run_id, of_type=DagsterEventType.ENGINE_EVENT):
        pid = entry.get_dagster_event().engine_event_data.metadata.get("pid")
        if pid is not None and str(pid.value).isdigit():
            yield int(str(pid.value))


def _process_exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
