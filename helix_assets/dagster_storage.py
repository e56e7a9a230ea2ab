"""Where Dagster keeps its own records when the project's dagster.yaml is in force.

dagster.yaml can take a path from a variable, but cannot fall back when it is unset, nor read helix.toml. These classes
ask the settings instead, so that `dagster dev` and `helix up` share one history under <data dir>/dagster.
"""

from pathlib import Path
from typing import Any

from dagster._core.storage.local_compute_log_manager import LocalComputeLogManager
from dagster._core.storage.root import LocalArtifactStorage
from dagster._core.storage.sqlite_storage import DagsterSqliteStorage
from dagster._serdes import ConfigurableClassData

from helix_assets.dagster_home import prepare_dagster_home
from helix_assets.settings import load_settings


def _home() -> Path:
    return prepare_dagster_home(load_settings().data_dir)


class HelixStorage(DagsterSqliteStorage):
    """Runs, events and schedules."""

    @classmethod
    def config_type(cls) -> Any:
        return {}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> "HelixStorage":
        return cls.from_local(str(_home() / "storage"), inst_data=inst_data)


class HelixComputeLogs(LocalComputeLogManager):
    """What the steps wrote to stdout and stderr."""

    @classmethod
    def config_type(cls) -> Any:
        return {}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> "HelixComputeLogs":
        return cls(str(_home() / "logs"), inst_data=inst_data)


class HelixArtifacts(LocalArtifactStorage):
    """Files that Dagster itself puts beside the history."""

    @classmethod
    def config_type(cls) -> Any:
        return {}

    @classmethod
    def from_config_value(cls, inst_data: ConfigurableClassData | None, config_value: Any) -> "HelixArtifacts":
        return cls(str(_home()), inst_data=inst_data)
