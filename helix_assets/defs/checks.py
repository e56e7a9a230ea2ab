"""The asset checks: each promise under a name that states it. Sweeps log the same answers."""

import time
from collections.abc import Iterator, Set

import dagster as dg

from helix_assets.ask.status import count_sessions
from helix_assets.defs.record import in_our_words
from helix_assets.defs.report import EVICTION_JOB
from helix_assets.defs.resources import StoreResource
from helix_assets.prove.promises import PROMISES, AssetCheck, Promise
from helix_assets.serve.dagster_private import give_partition, passed_since
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import utc_now

ASKED_EVERY_S = 3600
LARGE = 5_000


class Check:
    """A promise as Dagster shows it."""

    def __init__(self, promise: Promise, how: AssetCheck) -> None:
        self.name, self.answer, self.how = promise.name, promise.settled, how
        self.description = promise.ask.__doc__
        self.key = dg.AssetCheckKey(dg.AssetKey(how.asset), promise.name)
        self.severity = dg.AssetCheckSeverity.ERROR if how.is_error else dg.AssetCheckSeverity.WARN


CHECKS = tuple(Check(promise, promise.check) for promise in PROMISES if promise.check is not None)


def _asset_check(check: Check) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=check.how.asset,
        name=check.name,
        description=check.description,
        blocking=check.how.blocking,
        op_tags={"dagster/priority": str(int(check.how.before_eviction))},
    )
    def ask(context: dg.AssetCheckExecutionContext, store: StoreResource) -> dg.AssetCheckResult:
        if check.how.before_eviction:
            mean_today(context)
        with in_our_words(), store.open() as opened:
            answer = check.answer(opened)
        return dg.AssetCheckResult(passed=answer.holds, severity=check.severity, metadata=answer.figures)

    return ask


def mean_today(context: dg.AssetCheckExecutionContext) -> None:
    """Give a run of the eviction job without a partition today's partition.

    Dagster reads the partition from the run's tags after these checks, when it starts the report, and refuses a run
    without one. It has no default partition for a job.
    """
    try:
        run = context.run
    except dg.DagsterError:
        return  # called by hand, outside of a run
    if run.job_name == EVICTION_JOB:
        give_partition(context.instance, run, str(utc_now().date()))


ASSET_CHECKS = [_asset_check(check) for check in CHECKS]


def asked_lately(instance: dg.DagsterInstance, store: Store) -> set[dg.AssetCheckKey]:
    """The checks that read a large memory and passed within the last hour."""
    if count_sessions(store) < LARGE:
        return set()
    walking, now = [check.key for check in CHECKS if check.how.walks], time.time()
    return passed_since(instance, walking, now - ASKED_EVERY_S, now)


def evaluations(store: Store, leave_out: Set[dg.AssetCheckKey] = frozenset()) -> Iterator[dg.AssetCheckEvaluation]:
    """The answers of the checks as events, for a run that does not run the checks."""
    for check in CHECKS:
        if check.key in leave_out:
            continue
        answer = check.answer(store)
        yield dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(check.how.asset),
            check_name=check.name,
            passed=answer.holds,
            severity=check.severity,
            blocking=check.how.blocking,
            metadata=answer.figures,
        )
