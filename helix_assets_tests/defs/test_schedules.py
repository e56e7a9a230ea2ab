"""The schedules follow the cadence of the settings."""

from datetime import UTC, datetime

import dagster as dg
import pytest

from helix_assets.defs.resources import StoreResource
from helix_assets.defs.schedules import eviction_schedule, sweep_schedule
from helix_assets.sweep.sweep import utc_now

MONDAY, TUESDAY = datetime(2026, 6, 1, 3, tzinfo=UTC), datetime(2026, 6, 2, 3, tzinfo=UTC)


def evaluate(schedule: dg.ScheduleDefinition, at: datetime) -> object:
    context = dg.build_schedule_context(scheduled_execution_time=at, resources={"store": StoreResource()})
    return schedule(context)


@pytest.mark.parametrize(
    ("cadence", "at", "runs"),
    [
        ("daily", MONDAY, True),
        ("daily", TUESDAY, True),
        ("weekly", MONDAY, True),
        ("weekly", TUESDAY, False),
        ("on-hook", MONDAY, False),
    ],
)
@pytest.mark.parametrize("schedule", [sweep_schedule, eviction_schedule], ids=["sweep", "eviction"])
def test_the_cadence_decides(
    schedule: dg.ScheduleDefinition, cadence: str, at: datetime, runs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HELIX_CADENCE", cadence)
    assert isinstance(evaluate(schedule, at), dg.RunRequest) == runs


def test_an_eviction_is_for_today_even_when_its_tick_is_late() -> None:
    request = evaluate(eviction_schedule, TUESDAY)
    assert isinstance(request, dg.RunRequest)
    assert request.partition_key == utc_now().date().isoformat()
