"""The jobs. Sweeping and deriving again are op jobs, because they work on any partition that changed."""

from collections.abc import Collection, Set

import dagster as dg

from helix_assets.ask.partitions import Partition
from helix_assets.defs.checks import CHECKS, asked_lately, evaluations
from helix_assets.defs.record import ending_well_when_busy, record_all
from helix_assets.defs.report import EVICTION_JOB, RETENTION_REPORT, report_at_first
from helix_assets.defs.resources import StoreResource
from helix_assets.prove.promises import stale_partitions
from helix_assets.serve.dagster_private import is_asked_by_sensor
from helix_assets.serve.old_events import evict_old_events
from helix_assets.serve.old_runs import evict_old_runs
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import sweep


def _sweep_and_log(
    context: dg.OpExecutionContext,
    store: Store,
    only: Collection[Partition] | None = None,
    leave_out: Set[dg.AssetCheckKey] = frozenset(),
) -> None:
    report = sweep(store, only=only)
    logged = record_all(context, store)
    for answer in evaluations(store, leave_out):
        context.log_event(answer)  # type: ignore[arg-type]  # its own signature leaves out what its body handles
    figures = {name: number for name, number in report.counters().items() if number or name == "sessions_touched"}
    context.add_output_metadata(
        {**figures, "partitions_touched": len(report.partitions), "materializations_logged": logged}
    )


@dg.op(out=dg.Out(dg.Nothing))
def take_in_changes(context: dg.OpExecutionContext, store: StoreResource) -> None:
    """Take in and digest whatever changed on disk, then report every partition that differs to Dagster.

    The very first run also shows today's `retention_report`. A run that a sensor asked for leaves out checks that read
    a large memory and were asked lately.
    """
    with ending_well_when_busy(context), store.open() as opened:
        is_often = is_asked_by_sensor(context.run)
        _sweep_and_log(context, opened, leave_out=asked_lately(context.instance, opened) if is_often else frozenset())
        report_at_first(context, opened)


@dg.op(out=dg.Out(dg.Nothing))
def derive_again(context: dg.OpExecutionContext, store: StoreResource) -> None:
    """Derive again the partitions that `digests_at_current_version` lists, from the stored records."""
    with ending_well_when_busy(context), store.open() as opened:
        _sweep_and_log(context, opened, only=stale_partitions(opened))


@dg.op(out=dg.Out(dg.Nothing))
def evict_runs(context: dg.OpExecutionContext) -> None:
    """Remove Dagster's own records of old runs, and replaced events. Every partition stays materialized."""
    evict_old_events(context.instance)
    gone = evict_old_runs(context.instance)
    context.add_output_metadata({"runs": gone.runs, "evaluations": gone.evaluations, "bytes_freed": gone.bytes})


@dg.job(name="sweep", description="Takes in whatever changed, in one run; started by sensor, schedule or hand.")
def sweep_job() -> None:
    take_in_changes()


@dg.job(description="Refreshes just the partitions whose digests were made by older rules.")
def rederive_job() -> None:
    derive_again()


@dg.job(description="Evicts Dagster's own records of old runs, by count. No partition looks missing afterwards.")
def old_runs_job() -> None:
    evict_runs()


eviction_job = dg.define_asset_job(
    EVICTION_JOB,
    description="Checks that all that was evicted is covered; only then evicts what today's plan lists, and reports "
    "it. For a dry run, or other caps, change the config of retention_report.",
    selection=dg.AssetSelection.assets(RETENTION_REPORT)
    | dg.AssetSelection.checks(*(check.key for check in CHECKS if check.how.before_eviction)),
)

JOBS = (sweep_job, rederive_job, eviction_job, old_runs_job)
