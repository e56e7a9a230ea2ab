"""The asset checks: each promise under a name that states it. Sweeps log the same answers."""

import time
from collections.abc import Iterator, Mapping, Set
from typing import Any

import dagster as dg

from helix_assets.ask.partitions import TIERS
from helix_assets.ask.status import count_sessions
from helix_assets.defs.record import in_our_words
from helix_assets.defs.report import EVICTION_JOB
from helix_assets.defs.resources import StoreResource
from helix_assets.prove.promises import PROMISES, AssetCheck, Promise
from helix_assets.serve.dagster_private import give_partition, last_answers, made_by_run, passed_since
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import utc_now

ASKED_EVERY_S, FAILED_EVERY_S = 3600, 300
ASKED_AT = "asked_at"
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
        if check.key not in leave_out:
            answer = check.answer(store)
            yield _evaluation(check, answer.holds, answer.figures)


def evaluations_without_a_run(
    instance: dg.DagsterInstance, store: Store, now: float
) -> Iterator[dg.AssetCheckEvaluation]:
    """The answers of the tiers' checks as events outside of any run.

    Slow ones are asked once an hour, more often if they do not hold, and say when. Their last answer is repeated if it
    is from a run, or from before what a run made: it looks as if it was about older data.
    """
    of_tiers = [check for check in CHECKS if check.how.asset in TIERS]
    last = last_answers(instance, [check.key for check in of_tiers if check.how.is_slow], ASKED_AT)
    made = {tier: made_by_run(instance, dg.AssetKey(tier)) for tier in TIERS}
    for check in of_tiers:
        known, about = last.get(check.key), made[check.how.asset]
        if known is None or not now - (ASKED_EVERY_S if known.passed else FAILED_EVERY_S) < known.at <= now:
            answer = check.answer(store)
            asked_at = {ASKED_AT: dg.MetadataValue.timestamp(now)} if check.how.is_slow else {}
            yield _evaluation(check, answer.holds, {**answer.figures, **asked_at}, about)
        elif known.is_from_a_run or (about and known.about != about):
            asked_at = {ASKED_AT: dg.MetadataValue.timestamp(known.at)}
            yield _evaluation(check, known.passed, {**known.metadata, **asked_at}, about)


def _evaluation(check: Check, passed: bool, metadata: Mapping[str, Any], about: Any = None) -> dg.AssetCheckEvaluation:
    return dg.AssetCheckEvaluation(
        asset_key=dg.AssetKey(check.how.asset),
        check_name=check.name,
        passed=passed,
        severity=check.severity,
        blocking=check.how.blocking,
        metadata=metadata,
        target_materialization_data=about,
    )
