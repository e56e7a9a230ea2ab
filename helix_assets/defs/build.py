"""Building the definitions. Tests pass in other resources."""

from __future__ import annotations

from typing import Any

import dagster as dg

from helix_assets.defs.assets import ASSETS
from helix_assets.defs.checks import ASSET_CHECKS
from helix_assets.defs.jobs import JOBS
from helix_assets.defs.kaizen import KAIZEN_ASSETS, kaizen_automation, kaizen_job, kaizen_schedule
from helix_assets.defs.reports import REPORT_ASSETS, reports_job, reports_schedule, reports_sensor
from helix_assets.defs.resources import DUCKDB, StoreResource
from helix_assets.defs.schedules import SCHEDULES
from helix_assets.defs.sensors import SENSORS


def build_defs(**overrides: Any) -> dg.Definitions:
    """All definitions; `overrides` replace resources by name. Opens nothing."""
    return dg.Definitions(
        assets=[*ASSETS, *KAIZEN_ASSETS, *REPORT_ASSETS],
        asset_checks=ASSET_CHECKS,
        jobs=[*JOBS, kaizen_job, reports_job],
        sensors=[*SENSORS, kaizen_automation, reports_sensor],
        schedules=[*SCHEDULES, kaizen_schedule, reports_schedule],
        resources={"store": StoreResource(), "duckdb": DUCKDB, **overrides},
        # A process per step would cost seconds each; heavy work runs in the pipeline's own processes.
        executor=dg.in_process_executor,
    )
