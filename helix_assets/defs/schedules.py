"""The schedules. The cadence in the settings, read at each tick, says how often sweep and eviction really run."""

import dagster as dg

from helix_assets.defs.jobs import eviction_job, old_runs_job, sweep_job
from helix_assets.defs.resources import StoreResource
from helix_assets.serve.old_runs import old_runs
from helix_assets.sweep.sweep import utc_now

MONDAY = 0
WORTH_A_RUN = 100
"""With fewer old runs, their eviction would leave as much behind as it removes."""


def _reason_to_skip(cadence: str, weekday: int) -> str | None:
    if cadence == "on-hook":
        return "retention.cadence is on-hook: sweeps are started by the agents' hooks"
    if cadence == "weekly" and weekday != MONDAY:
        return "retention.cadence is weekly: it runs on Mondays"
    return None


@dg.schedule(
    job_name=sweep_job.name,
    cron_schedule="0 3 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="A sweep a day, whatever the sensor has seen; how often it really runs is retention.cadence.",
)
def sweep_schedule(context: dg.ScheduleEvaluationContext, store: StoreResource) -> dg.RunRequest | dg.SkipReason:
    """A sweep a day as a backstop for the sensor. It derives again what older rules made, and asks all checks."""
    skip = _reason_to_skip(store.settings().retention.cadence, context.scheduled_execution_time.weekday())
    return dg.SkipReason(skip) if skip else dg.RunRequest()


@dg.schedule(
    job_name=eviction_job.name,
    cron_schedule="30 3 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Evicts once a day what the budget asks for, after the sweep; how often it runs is retention.cadence.",
)
def eviction_schedule(context: dg.ScheduleEvaluationContext, store: StoreResource) -> dg.RunRequest | dg.SkipReason:
    """The eviction job for today, after the sweep."""
    skip = _reason_to_skip(store.settings().retention.cadence, context.scheduled_execution_time.weekday())
    return dg.SkipReason(skip) if skip else dg.RunRequest(partition_key=utc_now().date().isoformat())


@dg.schedule(
    job_name=old_runs_job.name,
    cron_schedule="45 * * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Evicts Dagster's own records of old runs every hour, if there are at least a hundred.",
)
def old_runs_schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
    """Every hour, whatever the cadence of sweeps, as soon as there are enough old runs of Dagster's own."""
    is_worth_it = len(old_runs(context.instance)) >= WORTH_A_RUN
    return dg.RunRequest() if is_worth_it else dg.SkipReason("too few old runs to be worth a run")


SCHEDULES = [sweep_schedule, eviction_schedule, old_runs_schedule]
