"""The sensors: changed logs and pushed hooks ask for a sweep, a full raw cache for an eviction.

They only compare and ask. Only sweeps move the cursors of files, and only the eviction job evicts.
"""

import time
from hashlib import blake2b
from pathlib import Path

import dagster as dg

from helix_assets.ask.status import last_sweep_number, raw_cache_bytes
from helix_assets.defs.jobs import FOLLOWING, eviction_job, push_sweep, sweep_job
from helix_assets.defs.record import is_recorded, state_of
from helix_assets.defs.resources import StoreResource
from helix_assets.hooks.inbox import Note, read_notes
from helix_assets.keep.evict import plan
from helix_assets.model.changes import fingerprint
from helix_assets.serve.dagster_private import run_of
from helix_assets.store.lock import holder, is_locked
from helix_assets.store.store import Store
from helix_assets.sweep.look import Scan, scan
from helix_assets.sweep.sweep import utc_now

INTERVAL_S = 30
# The daemon goes round its sensors every five seconds at most: too long to wait for a session that has just closed.
PUSH_INTERVAL_S = 1
WATCH_S = 4.0
_LOOK_S = 0.2
LONGEST_PAUSE_S = 3600
LOST_AFTER_S = 600


@dg.sensor(
    job_name=sweep_job.name,
    minimum_interval_seconds=INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts a sweep when the agents' logs have changed, or a sweep ran that Dagster does not know of.",
)
def tier0_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.RunRequest | dg.SkipReason:
    """Ask for a sweep when logs or the code of the tiers changed, or when Dagster does not know of an earlier sweep.

    The cursor is a hash of these changes and how often a sweep was asked for because of them.
    """
    with store.open() as opened:
        if is_locked(opened.data_dir):
            return dg.SkipReason(f"the store is in use by {holder(opened.data_dir)}")
        seen = scan(opened)
        news = _news(context.instance, opened, seen)
    if news is None:
        return dg.SkipReason("no session log changed")
    asked, _, count = (context.cursor or "").partition(":")
    attempt = int(count) if asked == news else 0
    if attempt and (wait := _wait_s(context.instance, _run_key(news, attempt), attempt)) > 0:
        return dg.SkipReason(f"sweep {attempt} of these changes is under way or has just ended; next in {wait:.0f} s")
    attempt += 1
    context.update_cursor(f"{news}:{attempt}")
    return dg.RunRequest(run_key=_run_key(news, attempt), run_config=FOLLOWING)


def _news(instance: dg.DagsterInstance, store: Store, seen: Scan) -> str | None:
    """A hash of what a sweep would find, None if that is nothing."""
    if not seen.changes and is_recorded(instance, store):
        return None
    changes = fingerprint(seen.found, [*seen.changes.changed, *seen.changes.gone])
    return blake2b(f"{changes} {state_of(store)}".encode(), digest_size=16).hexdigest()


def _run_key(news: str, attempt: int) -> str:
    # A used key never fires again, so a failed sweep could not be retried without the number.
    # With spaces: Dagster stores it under a name that ends in "key", where a long word would look like a secret.
    return f"sweep of {news} {attempt}"


def _wait_s(instance: dg.DagsterInstance, run_key: str, attempt: int) -> float:
    """How long to leave the same changes alone: while their sweep runs, then twice as long after each attempt."""
    run = run_of(instance, run_key)
    if run is None:
        return 0.0
    pause = min(INTERVAL_S * 2 ** (attempt - 1), LONGEST_PAUSE_S)
    # A run whose whole tree was killed never ends.
    ended = run.end_time or run.create_timestamp.timestamp() + LOST_AFTER_S
    return float(ended + pause - time.time())


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


@dg.sensor(
    job_name=push_sweep.name,
    minimum_interval_seconds=PUSH_INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Starts a sweep of just the sessions that agents' hooks have named, within seconds of their closing.",
)
def push_inbox_sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.RunRequest | dg.SkipReason:
    """Ask for a sweep of the sessions that agents' hooks have named since the last tick. The cursor is a note's name.

    Watches the inbox for most of the daemon's round, so that a note does not wait for the next one. A sweep that fails
    leaves the notes, so that the next one gets these sessions too.
    """
    data_dir = store.settings().data_dir
    asking = _watch(data_dir, context.cursor or "")
    if not asking:
        return dg.SkipReason("no hook has named a session")
    if is_locked(data_dir):
        return dg.SkipReason(f"the store is in use by {holder(data_dir)}")
    context.update_cursor(asking[-1].name)
    return dg.RunRequest(run_key=asking[-1].name)


def _watch(data_dir: Path, seen: str) -> list[Note]:
    """The notes after `seen` that ask for a sweep, as soon as there are any; none when the time is up."""
    leave = time.monotonic() + WATCH_S
    while True:
        notes = read_notes(data_dir, seen)
        asking = [note for note in notes if note.asks_for_a_sweep]
        if asking or time.monotonic() >= leave:
            return asking
        seen = notes[-1].name if notes else seen
        time.sleep(_LOOK_S)


def _question(store: Store) -> str:
    """The last sweep with changes, and the caps that it is compared with."""
    caps = store.settings.retention
    return f"sweep {last_sweep_number(store)}, caps {caps.raw_soft_cap_bytes} and {caps.raw_hard_cap_bytes}"


SENSORS = [tier0_sensor, push_inbox_sensor, budget_sensor]
