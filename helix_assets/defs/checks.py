"""The asset checks: each promise under a name that states it. Sweeps log the same answers."""

import time
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass

import dagster as dg
from sqlalchemy import func, select

from helix_assets.ask.reading import read_consistently
from helix_assets.defs.figures import SESSION_DIGESTS, SESSION_EVENTS, SOURCE_FILES
from helix_assets.defs.record import in_our_words
from helix_assets.defs.report import EVICTION_JOB, RETENTION_REPORT
from helix_assets.defs.resources import StoreResource
from helix_assets.model.errors import ChangedError, HelixError
from helix_assets.prove import promises, totals
from helix_assets.prove.promises import Answer
from helix_assets.serve.dagster_private import give_partition, passed_since
from helix_assets.store.catalog.old_tables import sessions
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import utc_now

ASKED_EVERY_S = 3600
LARGE = 5_000
ERROR, WARN = dg.AssetCheckSeverity.ERROR, dg.AssetCheckSeverity.WARN


@dataclass(frozen=True)
class Check:
    """A promise as Dagster shows it.

    If a `blocking` one fails as an error, the rest of the run does not start. `before_eviction` ones run first.
    `walks` says that it reads the whole memory: if that is large, the sensor's sweeps ask it only once an hour.
    """

    name: str
    asset: str
    ask: Callable[[Store], Answer]
    severity: dg.AssetCheckSeverity
    blocking: bool = False
    before_eviction: bool = False
    walks: bool = False

    def answer(self, store: Store) -> Answer:
        """Ask, and ask again if it does not hold and something was written meanwhile.

        A promise reads the store several times, and during a sweep these reads are not of one moment.
        """
        answers: list[Answer] = []

        def ask() -> Answer:
            before = store.catalog.change()
            answers.append(self._asked(store))
            if not answers[-1].holds and store.catalog.change() != before:
                raise ChangedError("the store was written to")
            return answers[-1]

        try:
            return read_consistently(ask)
        except ChangedError:
            return answers[-1]

    def _asked(self, store: Store) -> Answer:
        """The promise's answer. If it cannot be asked, it does not hold."""
        try:
            return self.ask(store)
        except HelixError as exc:
            # Its message may name a session, and Dagster's records are kept when a session is forgotten.
            return Answer(False, {"cannot_be_asked": f"{type(exc).__name__}: `helix verify` says what is wrong"})

    @property
    def key(self) -> dg.AssetCheckKey:
        return dg.AssetCheckKey(dg.AssetKey(self.asset), self.name)


CHECKS = (
    Check("logs_read_before_they_are_deleted", SOURCE_FILES, promises.logs_are_read_before_they_go, WARN),
    Check("raw_cache_within_budget", SESSION_EVENTS, promises.raw_cache_is_within_budget, WARN, before_eviction=True),
    Check("no_secret_survives_in_raw_cache", SESSION_EVENTS, promises.no_secret_survives, ERROR),
    Check("few_lines_unparsed", SESSION_EVENTS, promises.few_lines_are_unparsed, WARN, walks=True),
    Check(
        "every_evicted_session_has_a_covering_digest_or_a_loss_record",
        SESSION_DIGESTS,
        promises.evicted_are_covered,
        ERROR,
        blocking=True,
        before_eviction=True,
    ),
    Check("token_totals_add_up", SESSION_DIGESTS, totals.token_totals_add_up, ERROR, walks=True),
    Check("prices_known", SESSION_DIGESTS, promises.prices_are_known, WARN),
    Check("every_session_is_derived", SESSION_DIGESTS, promises.every_session_is_derived, WARN),
    Check("digests_at_current_version", SESSION_DIGESTS, promises.digests_are_current, WARN),
    Check("memory_within_its_cap", SESSION_DIGESTS, promises.memory_is_within_its_cap, WARN),
    Check("no_evicted_session_has_a_file_left", RETENTION_REPORT, promises.evicted_files_are_gone, ERROR),
)


def _asset_check(check: Check) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=check.asset,
        name=check.name,
        description=check.ask.__doc__,
        blocking=check.blocking,
        op_tags={"dagster/priority": str(int(check.before_eviction))},
    )
    def ask(context: dg.AssetCheckExecutionContext, store: StoreResource) -> dg.AssetCheckResult:
        if check.before_eviction:
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
    with store.catalog.reading() as connection:
        if connection.execute(select(func.count()).select_from(sessions)).scalar_one() < LARGE:
            return set()
    walking, now = [check.key for check in CHECKS if check.walks], time.time()
    return passed_since(instance, walking, now - ASKED_EVERY_S, now)


def evaluations(store: Store, leave_out: Set[dg.AssetCheckKey] = frozenset()) -> Iterator[dg.AssetCheckEvaluation]:
    """The answers of the checks as events, for a run that does not run the checks."""
    for check in CHECKS:
        if check.key in leave_out:
            continue
        answer = check.answer(store)
        yield dg.AssetCheckEvaluation(
            asset_key=dg.AssetKey(check.asset),
            check_name=check.name,
            passed=answer.holds,
            severity=check.severity,
            blocking=check.blocking,
            metadata=answer.figures,
        )
