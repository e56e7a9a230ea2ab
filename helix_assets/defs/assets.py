"""The four assets. Bodies call the pipeline; `record` and `report` make what is logged to Dagster."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date

import dagster as dg
from pydantic import Field

from helix_assets.ask.partitions import CODE_VERSIONS, SESSION_DIGESTS, SESSION_EVENTS, SOURCE_FILES, TIERS, OnDisk
from helix_assets.defs.columns import DIGEST_COLUMNS, EVICTION_COLUMNS, SOURCE_COLUMNS, event_schema, table_schema
from helix_assets.defs.followers import OF_ALL_DIGESTS, OWNERS
from helix_assets.defs.partitions import DAYS, PARTITIONS, partition_of
from helix_assets.defs.record import Scope, ending_well_when_busy, record
from helix_assets.defs.report import (
    EVICTION_JOB,
    REPORT_CODE_VERSION,
    RETENTION_REPORT,
    evict_and_log,
    log_report,
    report_of,
)
from helix_assets.defs.resources import StoreResource
from helix_assets.keep.evict import policy_of
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.model.errors import SettingsError
from helix_assets.serve.dagster_private import LOGGED_BY_US
from helix_assets.settings.values import parse_size
from helix_assets.store.store import Store
from helix_assets.sweep.look import scan
from helix_assets.sweep.sweep import sweep, utc_now

SPECS = [
    dg.AssetSpec(
        SOURCE_FILES,
        description="The agents' own logs on disk, never written to: how many, how large, which are gone.",
        group_name="tier0_source",
        kinds={"file", "json"},
        owners=OWNERS,
        code_version=CODE_VERSIONS[SOURCE_FILES],
        metadata={
            "dagster/column_schema": table_schema("sources", SOURCE_COLUMNS),
            "location": "the agents' folders, never written to",
        },
    ),
    dg.AssetSpec(
        SESSION_EVENTS,
        deps=[SOURCE_FILES],
        description="The raw cache: every line redacted and kept whole, with the events found in it. One Parquet file "
        "per session; bounded, so the oldest go once a digest covers them.",
        group_name="tier1_raw_cache",
        kinds={"parquet"},
        owners=OWNERS,
        code_version=CODE_VERSIONS[SESSION_EVENTS],
        metadata={"dagster/column_schema": event_schema(), "location": "raw/flavor=.../day=.../*.parquet"},
    ),
    dg.AssetSpec(
        SESSION_DIGESTS,
        deps=[SESSION_EVENTS],
        description="The memory: one digest per session with outcome, cost, tools, files and errors, and facts, "
        "a row per call, test run and message. Durable: it stays when the raw events are evicted.",
        group_name="tier2_memory",
        kinds={"sqlite", "parquet"},
        owners=OWNERS,
        code_version=CODE_VERSIONS[SESSION_DIGESTS],
        metadata={
            "dagster/column_schema": table_schema("digests", DIGEST_COLUMNS),
            "location": "helix.db, table digests; the facts in memory/<fact>/flavor=.../day=....parquet",
        },
    ),
]


@dg.multi_asset(
    name="session_memory",
    specs=SPECS,
    partitions_def=PARTITIONS,
    backfill_policy=dg.BackfillPolicy.single_run(),
    can_subset=True,
)
def session_memory(context: dg.AssetExecutionContext, store: StoreResource) -> Iterator[dg.MaterializeResult[None]]:
    """Bring the partitions of the run up to date in one sweep, whichever of the three assets was asked for.

    If only sources are asked for, they are only scanned. What the sweep touched outside its partitions (new files,
    sessions that share history) is logged too.
    """
    keys = {partition_of(key) for key in context.partition_keys}
    tiers = [tier for tier in TIERS if dg.AssetKey(tier) in context.selected_asset_keys]
    with ending_well_when_busy(context), store.open() as opened:
        if tiers == [SOURCE_FILES]:
            seen = scan(opened)
            on_disk = OnDisk(seen.found, frozenset(seen.changes.gone))
            record(context, opened, Scope({SOURCE_FILES: keys}, among=(), on_disk=on_disk))
        else:
            report = sweep(opened, only=keys)
            record(context, opened, Scope(dict.fromkeys(tiers, keys), among=keys | report.partitions))
        for tier in tiers:
            yield dg.MaterializeResult(asset_key=tier, metadata=LOGGED_BY_US)


class RetentionConfig(dg.Config):
    """What a run of retention_report may do, and by which caps."""

    apply: bool | None = Field(
        default=None,
        description="Evict what today's plan lists. `false` is a dry run: the report shows what would go. Default: "
        f"`true` in {EVICTION_JOB}, else `false`.",
    )
    raw_soft_cap_bytes: str | None = Field(
        default=None, description='Evict down to this size, such as "2GiB", in this run. Default: as in the settings.'
    )
    raw_hard_cap_bytes: str | None = Field(
        default=None,
        description='Above this size, such as "3GiB", even sessions that no digest covers go, after a try to derive '
        "one, each with a loss record. For this run. Default: as in the settings.",
    )
    raw_max_age_days: int | None = Field(
        default=None, description="Covered sessions older than this go, in this run. Default: as in the settings."
    )

    def policy(self, store: Store) -> RetentionPolicy:
        """The caps of this run; SettingsError if they are not valid."""
        sizes = {"soft_cap_bytes": self.raw_soft_cap_bytes, "hard_cap_bytes": self.raw_hard_cap_bytes}
        try:
            own: dict[str, float] = {name: parse_size(text) for name, text in sizes.items() if text is not None}
        except ValueError as exc:
            raise SettingsError(f"a cap in the config of this run: {exc}") from exc
        if self.raw_max_age_days is not None:
            own["max_age_days"] = self.raw_max_age_days
        return replace(policy_of(store.settings.retention), **own)  # type: ignore[arg-type]  # a size is an int


REPORT_SPEC = dg.AssetSpec(
    RETENTION_REPORT,
    deps=[OF_ALL_DIGESTS],
    description="What was evicted from the raw cache on a day and why; for today also what would go next, and how "
    "full the cache is. Evicts only in the eviction job, or with `apply: true`, and only for today.",
    group_name="tier2_memory",
    kinds={"sqlite", "matplotlib"},
    owners=OWNERS,
    code_version=REPORT_CODE_VERSION,
    skippable=True,
    metadata={
        "dagster/column_schema": table_schema("evictions", EVICTION_COLUMNS),
        "location": "helix.db, table evictions",
    },
)


@dg.multi_asset(
    name=RETENTION_REPORT,
    specs=[REPORT_SPEC],
    partitions_def=DAYS,
    backfill_policy=dg.BackfillPolicy.single_run(),
)
def retention_report(
    context: dg.AssetExecutionContext, config: RetentionConfig, store: StoreResource
) -> Iterator[dg.MaterializeResult[None]]:
    """Report the evictions of each day asked for; before that evict, if the job or the config says so.

    A run without a partition, such as one started by hand, is for today.
    """
    has_days = context.has_partition_key or context.has_partition_key_range
    days = [date.fromisoformat(key) for key in context.partition_keys] if has_days else [utc_now().date()]
    with ending_well_when_busy(context), store.open() as opened:
        policy = config.policy(opened)
        if config.apply if config.apply is not None else context.job_name == EVICTION_JOB:
            evict_and_log(context, opened, days, policy)
        if not has_days:
            log_report(context, opened, policy)
            yield dg.MaterializeResult(metadata=LOGGED_BY_US)
            return
        for day in days:
            context.add_asset_metadata(report_of(opened, day, policy), partition_key=day.isoformat())
        yield dg.MaterializeResult()


ASSETS = [session_memory, retention_report]
