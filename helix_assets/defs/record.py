"""Telling Dagster what lies in the store: a materialization for each partition that differs from the last one told.

Both ways in (partition runs and the sweep job) tell it here, so that they look alike in the UI. We log each event
ourselves, because Dagster gives all partitions of a run one version, and with the tags that make staleness exact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b

import dagster as dg
from dagster._core.definitions.data_version import (
    CODE_VERSION_TAG,
    DATA_VERSION_IS_USER_PROVIDED_TAG,
    DATA_VERSION_TAG,
    NULL_EVENT_POINTER,
    get_input_data_version_tag,
    get_input_event_pointer_tag,
)
from sqlalchemy import func, select

from helix_assets.core.errors import BusyError
from helix_assets.defs.figures import CODE_VERSIONS, ROWS, TIERS, data_versions, empty_version, numbers, row_count
from helix_assets.defs.partitions import Partition, key_of
from helix_assets.pipeline import Scan
from helix_assets.storage.tables import sweeps
from helix_assets.store import Store

RECORDED_TAG = "helix/recorded"
OUTCOME_TAG = "helix/outcome"
_MATERIALIZED = dg.DagsterEventType.ASSET_MATERIALIZATION

Context = dg.OpExecutionContext | dg.AssetExecutionContext


def record(
    context: Context,
    store: Store,
    *,
    always: Mapping[str, Collection[Partition]] | None = None,
    among: Collection[Partition] | None = None,
    on_disk: Scan | None = None,
) -> int:
    """Log materializations of what `always` names and of whatever has changed since it was last logged.

    `among` limits the second part to some partitions, None looks at all. Gives the number of materializations.
    """
    log = context.instance.event_log_storage
    always = always or {}
    logged = 0
    upstream: _Upstream | None = None
    for tier in TIERS:
        versions = data_versions(store, tier, on_disk)
        told = log.get_latest_tags_by_partition(dg.AssetKey(tier), _MATERIALIZED, [DATA_VERSION_TAG])
        changed = {p for p, version in versions.items() if told.get(key_of(p), {}).get(DATA_VERSION_TAG) != version}
        wanted = set(always.get(tier, ())) | (changed if among is None else changed.intersection(among))
        if wanted:
            figures = numbers(store, tier, wanted, on_disk)
            above = upstream.events(context.instance, wanted) if upstream else {}
            rows = row_count(store, tier)
            for partition in sorted(wanted, key=lambda p: (p[1], p[0])):
                metadata = {ROWS: rows} | {name: int(number) for name, number in figures[partition].items()}
                version = versions.get(partition, empty_version(tier))
                tags = _tags(tier, version, upstream, partition, above)
                context.log_event(
                    dg.AssetMaterialization(tier, partition=key_of(partition), metadata=metadata, tags=tags)
                )
            logged += len(wanted)
        upstream = _Upstream(tier, versions)
    return logged


class _Upstream:
    """The tier above, as the tier below has just read it."""

    def __init__(self, tier: str, versions: Mapping[Partition, str]) -> None:
        self.tier, self._versions = tier, versions

    def events(self, instance: dg.DagsterInstance, partitions: Collection[Partition]) -> Mapping[str, int]:
        """Where Dagster keeps the latest materialization of each of the partitions."""
        return instance.event_log_storage.get_latest_storage_id_by_partition(
            dg.AssetKey(self.tier), _MATERIALIZED, {str(key_of(partition)) for partition in partitions}
        )

    def version(self, partition: Partition) -> str:
        return self._versions.get(partition) or empty_version(self.tier)


def _tags(
    tier: str, version: str, upstream: _Upstream | None, partition: Partition, above: Mapping[str, int]
) -> dict[str, str]:
    tags = {
        CODE_VERSION_TAG: CODE_VERSIONS[tier],
        DATA_VERSION_TAG: version,
        DATA_VERSION_IS_USER_PROVIDED_TAG: "true",
    }
    if upstream is not None:
        key = dg.AssetKey(upstream.tier)
        # Without both of these everything below shows as stale for ever.
        tags[get_input_data_version_tag(key)] = upstream.version(partition)
        tags[get_input_event_pointer_tag(key)] = str(above.get(key_of(partition), NULL_EVENT_POINTER))
    return tags


def state_of(store: Store) -> str:
    """A name for what a whole record tells of: the last sweep that left a trace, and the code of the tiers."""
    with store.catalog.reading() as connection:
        last = connection.execute(select(func.max(sweeps.c.id))).scalar_one()
    code = blake2b(repr(sorted(CODE_VERSIONS.items())).encode(), digest_size=6).hexdigest()
    return f"{last or 0}.{code}"


def record_all(context: Context, store: Store) -> int:
    """Tell Dagster of the whole store, and mark the run as the one that did."""
    state = state_of(store)
    logged = record(context, store)
    context.instance.add_run_tags(context.run_id, {RECORDED_TAG: state})
    return logged


def is_recorded(instance: dg.DagsterInstance, store: Store) -> bool:
    """Whether Dagster knows of everything in the store; a sweep from the command line leaves it behind."""
    return instance.get_runs_count(dg.RunsFilter(tags={RECORDED_TAG: state_of(store)})) > 0


@contextmanager
def ending_well_when_busy(context: Context) -> Iterator[None]:
    """End a run that lost the race for the writer lock as a success which says "busy"."""
    try:
        yield
    except BusyError as exc:
        context.log.warning(f"busy: {exc}")
        context.instance.add_run_tags(context.run_id, {OUTCOME_TAG: "busy"})
