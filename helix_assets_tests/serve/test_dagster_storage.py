"""The project's dagster.yaml keeps Dagster's records in the data folder; sensors without news add nothing to them."""

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest
from dagster import DagsterInstance
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.instance.ref import InstanceRef
from dagster._core.scheduler.instigation import TickData

from helix_assets.serve.dagster_home import prepare_dagster_home
from helix_assets.serve.dagster_private import TickStatus

CHECKOUT = Path(__file__).resolve().parents[2]


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


def test_all_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    @dg.asset
    def anything() -> None: ...

    umask = os.umask(0o022)
    try:
        with DagsterInstance.from_ref(InstanceRef.from_dir(str(tmp_path), config_dir=str(CHECKOUT))) as instance:
            assert dg.materialize([anything], instance=instance).success
            modes = {place: place.stat().st_mode for place in Path(instance.storage_directory()).parent.rglob("*")}
    finally:
        os.umask(umask)
    assert {"runs.db", "schedules.db", "index.db"} <= {place.name for place in modes}
    assert any(place.suffix == ".out" for place in modes)
    assert [place for place, mode in modes.items() if mode & 0o077] == []


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[DagsterInstance]:
    with DagsterInstance.from_config(str(prepare_dagster_home(tmp_path / "data"))) as instance:
        yield instance


def skip(instance: DagsterInstance, times: int, reason: str = "no session log changed", start: int = 0) -> None:
    """Ticks of one sensor that skip for the same reason, as the daemon stores them."""
    for number in range(times):
        data = TickData("origin", "tier0_sensor", InstigatorType.SENSOR, TickStatus.STARTED, float(start + number),
                        selector_id="selector")  # fmt: skip
        tick = instance.create_tick(data)
        instance.update_tick(tick.with_status(TickStatus.SKIPPED).with_reason(reason))


def bytes_in_use(instance: DagsterInstance) -> int:
    file = Path(instance.storage_directory()).parent / "storage" / "schedules" / "schedules.db"
    with closing(sqlite3.connect(file)) as connection:
        pages, free, size = (
            connection.execute(f"pragma {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
        )
    return int((pages - free) * size)


def test_ticks_without_news_take_no_room(instance: DagsterInstance) -> None:
    skip(instance, 5)
    before = bytes_in_use(instance)
    skip(instance, 200, start=5)
    assert bytes_in_use(instance) == before


def test_a_skip_for_another_reason_stays(instance: DagsterInstance) -> None:
    skip(instance, 3)
    skip(instance, 3, "the store is in use", start=10)
    skip(instance, 3, start=20)
    reasons = [tick.skip_reason for tick in instance.get_ticks("origin", "selector")]
    assert reasons == ["no session log changed", "the store is in use", "no session log changed"]


def test_a_tick_that_asked_for_a_run_stays(instance: DagsterInstance) -> None:
    data = TickData("origin", "tier0_sensor", InstigatorType.SENSOR, TickStatus.STARTED, 0.0, selector_id="selector")
    asked = instance.create_tick(data)
    instance.update_tick(asked.with_status(TickStatus.SUCCESS))
    skip(instance, 2, start=1)
    assert [tick.status.value for tick in instance.get_ticks("origin", "selector")] == ["SKIPPED", "SUCCESS"]
