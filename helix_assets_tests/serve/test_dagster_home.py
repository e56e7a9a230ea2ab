"""The instance config that we write, as Dagster itself reads it."""

import stat
from pathlib import Path

import pytest
import yaml
from dagster import DagsterInstance
from dagster._core.definitions.run_request import InstigatorType

from helix_assets.model.errors import StoreError
from helix_assets.serve.dagster_home import prepare_dagster_home
from helix_assets.serve.dagster_private import TickStatus


def test_dagster_accepts_the_config_and_sees_our_settings(tmp_path: Path) -> None:
    with DagsterInstance.from_config(str(prepare_dagster_home(tmp_path / "data"))) as instance:
        assert not instance.telemetry_enabled
        assert not instance.nux_enabled
        assert instance.run_monitoring_enabled
        assert (instance.run_retries_max_retries, instance.run_retries_retry_on_asset_or_op_failure) == (2, False)
        queue = instance.get_concurrency_config().run_queue_config
        assert queue is not None
        assert queue.max_concurrent_runs == 2


def test_no_tick_is_kept_for_ever(tmp_path: Path) -> None:
    with DagsterInstance.from_config(str(prepare_dagster_home(tmp_path / "data"))) as instance:
        kept = {kind: instance.get_tick_retention_settings(kind) for kind in InstigatorType}
    ended = (TickStatus.SKIPPED, TickStatus.SUCCESS, TickStatus.FAILURE)
    assert [kept[InstigatorType.SENSOR][status] for status in ended] == [1, 7, 7]
    assert [kept[InstigatorType.SCHEDULE][status] for status in ended] == [7, 30, 30]


def test_everything_lies_under_the_home(tmp_path: Path) -> None:
    home = prepare_dagster_home(tmp_path / "data")
    config = yaml.safe_load((home / "dagster.yaml").read_text())
    folders = [
        config["storage"]["custom"]["config"]["base_dir"],
        config["compute_logs"]["config"]["base_dir"],
        config["local_artifact_storage"]["config"]["base_dir"],
    ]
    assert all(Path(folder).is_relative_to(home) for folder in folders)


def test_folders_and_config_are_private_whatever_the_umask(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o755)
    home = prepare_dagster_home(data_dir)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (data_dir, home, home / "dagster.yaml")]
    assert modes == [0o700, 0o700, 0o600]


def test_a_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    (data_dir / "helix.db").touch()
    data_dir.chmod(0o777)
    with pytest.raises(StoreError, match="chmod 700"):
        prepare_dagster_home(data_dir)
