"""Reporting the store's content to Dagster: a materialization for each partition that differs from the last report.

Partition runs, the sweep job and the server's own thread all use it, so that they look alike in the UI. Runs log the
events; outside of runs the instance takes them. We make each event ourselves, because Dagster gives all partitions of a
run one version, and add the tags that make staleness exact.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
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
from helix_assets.serve.dagster_private import Logged, input_tags, last_event, last_logged, note, noted, version_tags
from helix_assets.store.store import Store
from helix_assets.sweep.in_thread import LeftError

OUTCOME_TAG = "helix/outcome"
RECORDED = "helix/recorded"
MOST_WITHOUT_A_RUN = 100
"""More partitions of a tier than this are reported by a run: an event takes some milliseconds."""

_NEVER = Logged(None, 0)

Context = dg.OpExecutionContext | dg.AssetExecutionContext


@dataclass(frozen=True)
class Scope:
    """What to report: what `always` names, and what changed since it was reported last.

    `among` limits the second part to some partitions; None means all. `on_disk` are the files as they are now. With
    more than `most` partitions of a tier nothing is reported: LeftError.
    """

    always: Mapping[str, Collection[Partition]] = field(default_factory=dict)
    among: Collection[Partition] | None = None
    on_disk: OnDisk | None = None
    most: int | None = None


def changes(instance: dg.DagsterInstance, store: Store, scope: Scope) -> Iterator[dg.AssetMaterialization]:
    """What is to be reported. Each event must be stored in the instance before the next is asked for, because those of
    a tier name the ones above."""
    above: _Recorded | None = None
    some = None if scope.among is None else set(scope.among).union(*scope.always.values())
    for tier in TIERS:
        versions = data_versions(store, tier, scope.on_disk, some)
        recorded = _Recorded(instance, tier, versions, some)
        news = recorded.outdated(above)
        wanted = {*scope.always.get(tier, ()), *(news if scope.among is None else news.intersection(scope.among))}
        if scope.most is not None and len(wanted) > scope.most:
            raise LeftError(f"{len(wanted)} partitions are to be reported to Dagster")
        if wanted:
            yield from _events(recorded, above, _metadata(store, tier, wanted, scope.on_disk))
            recorded = _Recorded(instance, tier, versions, some)
        above = recorded


def record(context: Context, store: Store, scope: Scope) -> int:
    """Log the changes in a run. Returns the number of materializations."""
    logged = 0
    for event in changes(context.instance, store, scope):
        context.log_event(event)
        logged += 1
    return logged


class _Recorded:
    """What Dagster knows of a tier's partitions, and the versions that they have now."""

    def __init__(
        self,
        instance: dg.DagsterInstance,
        tier: str,
        versions: Mapping[Partition, str],
        among: Collection[Partition] | None,
    ) -> None:
        self.tier, self._versions = tier, versions
        keys = None if among is None else [key_of(partition) for partition in among]
        self._logged = last_logged(instance, dg.AssetKey(tier), keys)

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


def _events(
    recorded: _Recorded, above: _Recorded | None, metadata: Mapping[Partition, Mapping[str, int]]
) -> Iterator[dg.AssetMaterialization]:
    for partition in sorted(metadata, key=lambda p: (p[1], p[0])):
        yield dg.AssetMaterialization(
            recorded.tier,
            partition=key_of(partition),
            metadata=metadata[partition],
            tags=_tags(recorded, partition, above),
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
    """Log the whole store's changes in a run, and note that Dagster knows of this state."""
    state = state_of(store)
    logged = record(context, store, Scope())
    note_recorded(context.instance, state)
    return logged


def report(instance: dg.DagsterInstance, store: Store, touched: Touched) -> int:
    """Report the changes outside of any run, and note that Dagster knows of this state. Returns how many there were.

    Only what was touched is compared, if Dagster knew of the state before that. Else all is, as after a kill; LeftError
    if that is a lot.
    """
    state, before = state_of(store), noted(instance, RECORDED)
    fits = before is not None and before == _note(instance, touched.since)
    sent = 0
    for event in changes(instance, store, Scope(among=touched.partitions if fits else None, most=MOST_WITHOUT_A_RUN)):
        instance.report_runless_asset_event(event)
        sent += 1
    note_recorded(instance, state)
    return sent


@dataclass
class Touched:
    """The partitions that sweeps of this process touched, and the state of the store before the first of them."""

    since: str
    partitions: set[Partition] = field(default_factory=set)


def note_recorded(instance: dg.DagsterInstance, state: str) -> None:
    """Note that Dagster knows of this state. The note is not part of a run: most changes are reported without one."""
    note(instance, RECORDED, _note(instance, state))


def _note(instance: dg.DagsterInstance, state: str) -> str:
    """A state, and the last event of each tier: another event, or a lost one, may have changed what Dagster knows."""
    return json.dumps([state, [last_event(instance, dg.AssetKey(tier)) for tier in TIERS]])


def is_recorded(instance: dg.DagsterInstance, store: Store) -> bool:
    """Whether Dagster knows of everything in the store. It does not know of a sweep from the command line."""
    return noted(instance, RECORDED) == _note(instance, state_of(store))


def was_ever_recorded(instance: dg.DagsterInstance) -> bool:
    """Whether Dagster knows of any state of the store."""
    return noted(instance, RECORDED) is not None


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
