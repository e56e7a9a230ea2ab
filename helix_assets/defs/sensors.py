"""The sensors: news in the agents' logs is taken in, a full raw cache asks for an eviction.

Only sweeps move the cursors of files, and only the eviction job evicts.
"""

import dagster as dg

from helix_assets.ask.status import last_sweep_number, raw_cache_bytes
from helix_assets.defs import follow
from helix_assets.defs.jobs import eviction_job, sweep_job
from helix_assets.defs.resources import StoreResource
from helix_assets.keep.evict import plan
from helix_assets.store.lock import holder, is_locked
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import utc_now

INTERVAL_S = 60 if follow.is_expected else 30

_own: follow.Follower | None = None
"""What ticks do where no thread follows the logs, as under plain `dagster dev`."""


@dg.sensor(
    job_name=sweep_job.name,
    minimum_interval_seconds=INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Takes in small news of the agents' logs, unless a thread of `helix up` does, and starts a sweep for "
    "the rest.",
)
def tier0_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.RunRequest | dg.SkipReason:
    """Ask for the sweep that the follower of this process wants. Without one the tick follows the logs itself."""
    if (follower := follow.current()) is not None:
        # The same words each time: a tick that says nothing new is not stored.
        waits = f"; it left some to a run: {follower.left}" if follower.left else ""
        return follower.wanted() or dg.SkipReason(f"the server's own thread follows the logs{waits}")
    global _own  # noqa: PLW0603 - what it remembers from one tick to the next saves opening Dagster's instance
    _own = _own or follow.Follower(lambda: context.instance, store.settings)
    _own.instance = lambda: context.instance
    _own.work(at_once=True)
    return _own.wanted() or dg.SkipReason(_own.said)


@dg.sensor(
    job_name=eviction_job.name,
    minimum_interval_seconds=INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts the eviction job after a sweep that left the raw cache above its soft cap, if anything may go.",
)
def budget_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.RunRequest | dg.SkipReason:
    """Ask for an eviction after a sweep that left the raw cache above its soft cap; once per sweep and caps.

    Nothing is asked for if the plan would evict nothing. What an eviction leaves is checked after the next sweep, or by
    the daily schedule: an eviction that fails or cannot get below the cap is not repeated in a loop.
    """
    with store.open() as opened:
        if is_locked(opened.data_dir):
            return dg.SkipReason(f"the store is in use by {holder(opened.data_dir)}")
        question = _question(opened)
        if context.cursor == question:
            return dg.SkipReason("no sweep since this was looked at")
        context.update_cursor(question)
        if raw_cache_bytes(opened) <= opened.settings.retention.raw_soft_cap_bytes:
            return dg.SkipReason("the raw cache is within its soft cap")
        now = plan(opened, now=utc_now())
    if not now.goes and not now.must_analyze:
        return dg.SkipReason("the raw cache is above its soft cap, but nothing in it may go")
    return dg.RunRequest(run_key=question, partition_key=utc_now().date().isoformat())


def _question(store: Store) -> str:
    """The last sweep with changes, and the caps that it is compared with."""
    caps = store.settings.retention
    return f"sweep {last_sweep_number(store)}, caps {caps.raw_soft_cap_bytes} and {caps.raw_hard_cap_bytes}"


SENSORS = [tier0_sensor, budget_sensor]
