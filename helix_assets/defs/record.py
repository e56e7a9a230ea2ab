"""Reporting the store's content to Dagster: a materialization for each partition that differs from the last report.

Partition runs and the sweep job both use it, so that they look alike in the UI. We log each event ourselves, because
Dagster gives all partitions of a run one version, and add the tags that make staleness exact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2b
from traceback import format_tb

import dagster as dg

from helix_assets.ask.partitions import (
    CODE_VERSIONS,
    TIERS,
    OnDisk,
    Partition,
    data_versions,
    empty_version,
    figures_of,
    row_count,
)
from helix_assets.ask.status import last_sweep_number
from helix_assets.defs.partitions import PARTITION_ROWS, ROWS, key_of
from helix_assets.model.errors import BusyError, QueryError, SettingsError, WithheldError
from helix_assets.serve.dagster_private import Logged, input_tags, last_logged, version_tags
from helix_assets.store.store import Store

RECORDED_TAG = "helix/recorded"
OUTCOME_TAG = "helix/outcome"

_NEVER = Logged(None, 0)

Context = dg.OpExecutionContext | dg.AssetExecutionContext


def record(
    context: Context,
    store: Store,
    *,
    always: Mapping[str, Collection[Partition]] | None = None,
    among: Collection[Partition] | None = None,
    on_disk: OnDisk | None = None,
) -> int:
    """Log materializations of what `always` names and of whatever changed since it was logged last.

    `among` limits the second part to some partitions; None means all. Returns the number of materializations.
    """
    above: _Recorded | None = None
    logged = 0
    for tier in TIERS:
        versions = data_versions(store, tier, on_disk)
        recorded = _Recorded(context.instance, tier, versions)
        news = recorded.outdated(above)
        wanted = set((always or {}).get(tier, ())) | (news if among is None else news.intersection(among))
        if wanted:
            _log(context, recorded, above, _metadata(store, tier, wanted, on_disk))
            recorded = _Recorded(context.instance, tier, versions)
        above = recorded
        logged += len(wanted)
    return logged


class _Recorded:
    """What Dagster knows of a tier's partitions, and the versions that they have now."""

    def __init__(self, instance: dg.DagsterInstance, tier: str, versions: Mapping[Partition, str]) -> None:
        self.tier, self._versions = tier, versions
        self._logged = last_logged(instance, dg.AssetKey(tier))

    def version(self, partition: Partition) -> str:
        return self._versions.get(partition) or empty_version(self.tier)

    def last(self, partition: Partition) -> Logged:
        """Dagster's last materialization, without a version if there is none."""
        return self._logged.get(key_of(partition), _NEVER)

    def outdated(self, above: _Recorded | None) -> set[Partition]:
        """Partitions that changed, or were last logged before the tier above them."""
        return {
            partition
            for partition, version in self._versions.items()
            if self.last(partition).version != version
            or (above is not None and above.last(partition).event > self.last(partition).event)
        }


def _metadata(
    store: Store, tier: str, wanted: Collection[Partition], on_disk: OnDisk | None
) -> dict[Partition, dict[str, int]]:
    rows = row_count(store, tier)
    return {
        partition: {ROWS: rows, PARTITION_ROWS: figures.rows} | {name: int(n) for name, n in figures.counts.items()}
        for partition, figures in figures_of(store, tier, wanted, on_disk).items()
    }


def _log(
    context: Context, recorded: _Recorded, above: _Recorded | None, metadata: Mapping[Partition, Mapping[str, int]]
) -> None:
    for partition in sorted(metadata, key=lambda p: (p[1], p[0])):
        context.log_event(
            dg.AssetMaterialization(
                recorded.tier,
                partition=key_of(partition),
                metadata=metadata[partition],
                tags=_tags(recorded, partition, above),
            )
        )


def _tags(recorded: _Recorded, partition: Partition, above: _Recorded | None) -> dict[str, str]:
    tags = version_tags(CODE_VERSIONS[recorded.tier], recorded.version(partition))
    if above is None:
        return tags
    used = Logged(above.version(partition), above.last(partition).event)
    return tags | input_tags(dg.AssetKey(above.tier), used)


def state_of(store: Store) -> str:
    """A name for the state that a whole record reports: the last sweep with changes, and the code of the tiers."""
    code = blake2b(repr(sorted(CODE_VERSIONS.items())).encode(), digest_size=6).hexdigest()
    return f"{last_sweep_number(store)}.{code}"


def record_all(context: Context, store: Store) -> int:
    """Report the whole store to Dagster, and mark the run as the one that did."""
    state = state_of(store)
    logged = record(context, store)
    context.instance.add_run_tags(context.run.run_id, {RECORDED_TAG: state})
    return logged


def is_recorded(instance: dg.DagsterInstance, store: Store) -> bool:
    """Whether Dagster knows of everything in the store. It does not know of a sweep from the command line."""
    return instance.get_runs_count(dg.RunsFilter(tags={RECORDED_TAG: state_of(store)})) > 0


@contextmanager
def in_our_words() -> Iterator[None]:
    """Let a run fail without the message of its error, which may contain words of a log: only its type and place.

    Errors of the settings, or of this run's own config, stay as they are.
    """
    try:
        yield
    except (dg.Failure, dg.DagsterError, BusyError, WithheldError, SettingsError, QueryError):
        raise
    except Exception as exc:  # noqa: BLE001 - whatever it is, the run fails by it
        where = "".join(format_tb(exc.__traceback__))
        raise dg.Failure(f"{type(exc).__name__}: `helix status` and `helix verify` say more\n{where}") from None


@contextmanager
def ending_well_when_busy(context: Context) -> Iterator[None]:
    """End a run as a success, tagged "busy" if it did not get the writer lock, "withheld" if what it reads waits for a
    sweep with new redaction rules. Other errors fail `in_our_words`.
    """
    try:
        with in_our_words():
            yield
    except (BusyError, WithheldError) as exc:
        outcome = "busy" if isinstance(exc, BusyError) else "withheld"
        context.log.warning(f"{outcome}: {exc}")
        context.instance.add_run_tags(context.run.run_id, {OUTCOME_TAG: outcome})
