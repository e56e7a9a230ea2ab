"""The run launcher of `helix up`: each run is a child process of the server, and ends with it.

Belongs here: starting and ending these processes. Not here: when a run starts (Dagster's queue), and runs that an
earlier server left behind (`serve.stale_runs`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import Any

from dagster import DagsterInstance, DagsterRun, DagsterRunStatus

from helix_assets.serve.dagster_private import (
    CheckRunHealthResult,
    ConfigurableClass,
    ConfigurableClassData,
    EngineEventData,
    LaunchRunContext,
    RunLauncher,
    WorkerStatus,
    words_to_execute,
)
from helix_assets.serve.lifeline import start_tied
from helix_assets.serve.stale_runs import PROCESS, is_alive

_PATIENCE_S = 10
"""How long a run that is to end has for that."""


class ChildRuns(RunLauncher[DagsterInstance], ConfigurableClass):
    """Starts runs as child processes. Named in dagster.yaml."""

    def __init__(self, inst_data: ConfigurableClassData | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # as in Dagster
        self._inst_data = inst_data
        self._children: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def inst_data(self) -> ConfigurableClassData | None:
        """What dagster.yaml says about this class."""
        return self._inst_data

    @classmethod
    def config_type(cls) -> Any:
        """There is nothing to set."""
        return {}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]) -> ChildRuns:
        """Make one as dagster.yaml says."""
        return cls(inst_data)

    def launch_run(self, context: LaunchRunContext) -> None:
        """Start the process of a run, in the server's process group, so that it can be ended with the server."""
        run = context.dagster_run
        process, lifeline = start_tied("dagster", words_to_execute(self._instance, run))
        self._children[run.run_id] = process
        threading.Thread(target=self._wait_for, args=(run.run_id, process, lifeline), daemon=True).start()
        said = f"Started process {process.pid}."
        self._instance.report_engine_event(said, run, EngineEventData({PROCESS: str(process.pid)}), type(self))

    def terminate(self, run_id: str) -> bool:
        """End a run: politely, and if that does not help by killing its process. It becomes CANCELED."""
        run = self._instance.get_run_by_id(run_id)
        if run is None or run.is_finished:
            return False
        self._instance.report_run_canceling(run)
        if (child := self._children.get(run_id)) is None:
            if not is_alive(self._instance, run):
                self._instance.report_run_canceled(run)
            return False
        child.send_signal(signal.SIGINT)
        last_resort = threading.Timer(_PATIENCE_S, child.kill)
        last_resort.daemon = True
        last_resort.start()
        return True

    @property
    def supports_check_run_worker_health(self) -> bool:
        """Yes: Dagster's monitoring asks about each run every half a minute."""
        return True

    def check_run_worker_health(self, run: DagsterRun) -> CheckRunHealthResult:
        """Whether the process of a run still runs."""
        if run.run_id in self._children or is_alive(self._instance, run):
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.NOT_FOUND, "its process is gone")

    def end_all(self, deadline: float) -> None:
        """End all runs before this time of the monotonic clock. What Dagster shows is right afterwards."""
        children = dict(self._children)
        for child in children.values():
            child.send_signal(signal.SIGINT)
        while self._children and time.monotonic() < deadline:
            time.sleep(0.05)
        for child in children.values():
            child.kill()

    def _wait_for(self, run_id: str, process: subprocess.Popen[bytes], lifeline: int) -> None:
        """Wait for the end of a run's process. A run that did not end well by itself has failed, or is canceled."""
        code = process.wait()
        os.close(lifeline)
        try:
            run = self._instance.get_run_by_id(run_id)
            if run is None or run.is_finished:
                return
            if run.status is DagsterRunStatus.CANCELING:
                self._instance.report_run_canceled(run)
            else:
                self._instance.report_run_failed(run, f"The process of this run ended unexpectedly (code {code}).")
        finally:
            del self._children[run_id]
