"""DAGSTER_HOME of the product: <data dir>/dagster, private, with an instance config written by us at each start.

All that Dagster keeps (runs, events, logs, artifacts) is in this one folder. `dagster dev` without DAGSTER_HOME uses
the project's own dagster.yaml instead.
"""

import json
import os
from pathlib import Path
from typing import Any

from helix_assets.store.folder import own_folder

_HEADER = "# Written by helix at each start; changes made here are lost. (JSON is YAML too.)\n"


def prepare_dagster_home(data_dir: Path) -> Path:
    """Create <data dir>/dagster (0700), write its dagster.yaml, and return its absolute path."""
    home = data_dir.absolute() / "dagster"
    own_folder(data_dir)
    own_folder(home)
    text = _HEADER + json.dumps(instance_config(home), indent=2) + "\n"
    # Another process may be reading the config: it must see the old one or the new one, never half of one.
    temporary = home / f"dagster.yaml.{os.getpid()}"
    temporary.touch(mode=0o600)
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(home / "dagster.yaml")
    return home


def dagster_environment(home: Path) -> dict[str, str]:
    """The variables that every Dagster process of ours needs."""
    # The caller's folder must not shadow a module of ours: it is often somebody's repository.
    return {"DAGSTER_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "yes", "PYTHONSAFEPATH": "1"}


def instance_config(home: Path) -> dict[str, Any]:
    """Dagster's instance settings, everything below `home`."""
    return {
        "telemetry": {"enabled": False},
        "nux": {"enabled": False},
        "storage": {
            "custom": {
                "module": "helix_assets.serve.dagster_storage",
                "class": "HelixStorage",
                "config": {"base_dir": str(home / "storage")},
            }
        },
        "compute_logs": {
            "module": "helix_assets.serve.dagster_storage",
            "class": "HelixComputeLogs",
            "config": {"base_dir": str(home / "logs")},
        },
        "local_artifact_storage": {
            "module": "helix_assets.serve.dagster_storage",
            "class": "HelixArtifacts",
            "config": {"base_dir": str(home)},
        },
        # The definitions are in the server's own process, where Dagster's own launcher cannot start a run.
        "run_launcher": {"module": "helix_assets.serve.launcher", "class": "ChildRuns"},
        "concurrency": {"runs": {"max_concurrent_runs": 2}},
        # A queued run waits for one second, not five: what a hook pushes must be digested in under ten.
        "run_coordinator": {
            "module": "dagster",
            "class": "QueuedRunCoordinator",
            "config": {"dequeue_interval_seconds": 1},
        },
        # A thread each: one of them watches the inbox for a while, and the others must not wait for it.
        "sensors": {"use_threads": True, "num_workers": 4},
        "run_monitoring": {"enabled": True, "poll_interval_seconds": 30, "start_timeout_seconds": 120},
        # A crashed run is retried. A failed step is not, because it would fail again.
        "freshness": {"enabled": False},  # no asset has a policy of freshness
        "run_retries": {"enabled": True, "max_retries": 2, "retry_on_asset_or_op_failure": False},
        # `old_runs` evicts runs.
        "retention": {
            "sensor": {"purge_after_days": {"skipped": 1, "success": 7, "failure": 7}},
            "schedule": {"purge_after_days": {"skipped": 7, "success": 30, "failure": 30}},
        },
    }
