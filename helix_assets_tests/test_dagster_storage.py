"""The project's dagster.yaml keeps Dagster's records in the data folder."""

import os
import stat
from pathlib import Path

import pytest
from dagster import DagsterInstance
from dagster._core.instance.ref import InstanceRef

CHECKOUT = Path(__file__).resolve().parents[1]


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Where an instance made from the project's dagster.yaml put its records."""
    base = tmp_path / "dagster_home"
    base.mkdir()
    with DagsterInstance.from_ref(InstanceRef.from_dir(str(base), config_dir=str(CHECKOUT))) as instance:
        assert instance.get_run_records() == []
        assert not instance.telemetry_enabled
        assert not list(base.iterdir())
        return Path(instance.storage_directory()).parent


def test_records_follow_the_data_dir(records: Path) -> None:
    assert records == Path(os.environ["HELIX_DATA_DIR"]) / "dagster"
    assert (records / "storage" / "runs.db").exists() or any((records / "storage").rglob("*.db"))


def test_records_are_private(records: Path) -> None:
    assert stat.S_IMODE(records.stat().st_mode) == 0o700
