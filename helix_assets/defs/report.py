"""The content of retention_report for a day, and the one call from Dagster that evicts.

Belongs here: the append-only log of evictions and today's plan, as numbers and pictures. Not here: deciding what goes
(`keep.retention`), and evicting it (`keep.evict`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import date, timedelta
from itertools import chain, islice
from typing import Any

import dagster as dg

from helix_assets.ask.budget import bytes_per_day, history, outlook
from helix_assets.ask.evictions import gone_on, losses_after
from helix_assets.ask.partitions import SESSION_EVENTS, sessions_by_partition
from helix_assets.ask.plots import BytesOverTime, Chart, DayBars, markdown
from helix_assets.defs.partitions import PARTITION_ROWS, ROWS, key_of
from helix_assets.keep.evict import apply, plan, policy_of
from helix_assets.keep.retention import Decision, EvictionPlan, Reason, RetentionPolicy
from helix_assets.serve.dagster_private import code_version_tag
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import sweep, utc_now

EVICTION_JOB, RETENTION_REPORT = "eviction_job", "retention_report"
REPORT_CODE_VERSION = "1"
DATA_LOSS = "session_memory.data_loss"
"""The name of the event and log line that report raw bytes gone without a digest."""
PLOT_DAYS = 60
LISTED = 50
"""Rows of the longest table; the numbers next to it count all."""


def evict_and_log(
    context: dg.AssetExecutionContext, store: Store, days: Sequence[date], policy: RetentionPolicy
) -> None:
    """Evict what the current plan lists, and log for each partition what went and why. Only for today."""
    if list(days) != [utc_now().date()]:
        raise dg.Failure("only today's partition of retention_report can evict; start the job for today's key")
    try:
        done = apply(store, clock=utc_now, policy=policy, analyze=lambda: sweep(store))
        for partition, decisions in sorted(done.by_partition().items()):
            event = dg.AssetObservation(SESSION_EVENTS, partition=key_of(partition), metadata=_what_went(decisions))
            context.log_event(event)
    finally:
        log_losses(context, store)


def _what_went(decisions: Sequence[Decision]) -> dict[str, float]:
    reasons = Counter(str(decision.reason) for decision in decisions)
    return {
        "sessions_evicted": len(decisions),
        "bytes_evicted": sum(decision.bytes for decision in decisions),
        "oldest_age_days": max(decision.age_days for decision in decisions),
        "newest_age_days": min(decision.age_days for decision in decisions),
        "sessions_lost": sum(decision.is_loss for decision in decisions),
        **{f"because_{reason}": count for reason, count in reasons.items()},
    }


def log_losses(context: dg.AssetExecutionContext, store: Store) -> None:
    """Log an event and a line `session_memory.data_loss` for each loss that Dagster does not know of.

    Dagster's own last event says which these are, so that no loss is missed after a kill or outside Dagster.
    """
    before = context.instance.fetch_observations(dg.AssetKey(RETENTION_REPORT), limit=1).records
    last = before[0].asset_observation if before else None
    known = int(str(last.metadata["loss"].value)) if last is not None else 0
    for loss in losses_after(store, known):
        of = key_of((loss.flavor, loss.day))
        context.log.error(
            f"{DATA_LOSS}: a session of {of}, {loss.bytes} bytes, {loss.records} records, without a digest"
        )
        metadata: dict[str, Any] = {"loss": loss.id, "event": DATA_LOSS, "at": loss.at, "session_of": str(of),
                                    "bytes": loss.bytes, "records": loss.records, "reason": loss.reason}  # fmt: skip
        context.log_event(
            dg.AssetObservation(RETENTION_REPORT, partition=loss.at[:10], description=DATA_LOSS, metadata=metadata)
        )


def report_at_first(context: dg.OpExecutionContext, store: Store) -> None:
    """Log today's report once after a sweep, because otherwise there would be none before the first eviction."""
    if context.instance.get_latest_materialization_event(dg.AssetKey(RETENTION_REPORT)) is None:
        log_report(context, store, policy_of(store.settings.retention))


def log_report(
    context: dg.OpExecutionContext | dg.AssetExecutionContext, store: Store, policy: RetentionPolicy
) -> None:
    """Log today's report, for a run that names no partition."""
    today = utc_now().date()
    metadata, tags = report_of(store, today, policy), code_version_tag(REPORT_CODE_VERSION)
    context.log_event(dg.AssetMaterialization(RETENTION_REPORT, partition=str(today), metadata=metadata, tags=tags))


def report_of(store: Store, day: date, policy: RetentionPolicy) -> dict[str, Any]:
    """The evictions of a day; for today also what would go now, and how full the raw cache was lately."""
    metadata = _logged(store, day)
    if day == utc_now().date():
        now = plan(store, now=utc_now(), policy=policy)
        metadata |= _planned(now) | _next(now) | _pictures(store, day)
        if (lasts := outlook(bytes_per_day(store, utc_now()), now.usage_before, now.soft_cap)) is not None:
            metadata |= lasts._asdict()
    return metadata


def _logged(store: Store, day: date) -> dict[str, Any]:
    """What went on the day and in all, with a table of the newest losses of all days."""
    gone = gone_on(store, day, LISTED)
    metadata: dict[str, Any] = {
        ROWS: gone.sessions_evicted_ever,
        PARTITION_ROWS: sum(part.sessions for part in gone.evicted),
        "bytes_evicted": sum(part.bytes for part in gone.evicted),
        "sessions_lost": gone.sessions_lost,
        "sessions_lost_ever": gone.sessions_lost_ever,
        "bytes_lost_ever": gone.bytes_lost_ever,
    }
    for name, rows in (("losses", gone.newest_losses), ("evicted", gone.evicted)):
        if rows:
            metadata[name] = dg.MetadataValue.table([dg.TableRecord(row._asdict()) for row in rows])
    return metadata


def _next(now: EvictionPlan) -> dict[str, Any]:
    """What goes first when room is needed, without the names of sessions."""
    staying = (decision for decision in now.stays if decision.reason is Reason.WITHIN_BUDGET)
    rows = [
        dg.TableRecord(
            {
                "place": place,
                "flavor": decision.flavor,
                "day": decision.day,
                "bytes": decision.bytes,
                "age_days": decision.age_days,
                "why": str(decision.reason) if decision.goes else "next_over_soft_cap",
            }
        )
        for place, decision in enumerate(islice(chain(now.goes, staying), LISTED), start=1)
    ]
    return {"next_to_go": dg.MetadataValue.table(rows)} if rows else {}


def _planned(now: EvictionPlan) -> dict[str, Any]:
    figures = now.figures()
    reasons = figures.pop("by_reason")
    planned = {name: value for name, value in figures.items() if value is not None}
    if reasons:
        rows = [dg.TableRecord({"reason": reason, **counts}) for reason, counts in reasons.items()]
        planned["by_reason"] = dg.MetadataValue.table(rows)
    return {f"plan/{name}": value for name, value in planned.items()}


def _pictures(store: Store, day: date) -> dict[str, dg.MetadataValue[Any]]:
    """Usage against the caps, and sessions a day. Numbers only, drawn as pictures inside the text."""
    filled = history(store)
    caps = {
        "soft cap": [(point.at, point.soft_cap) for point in filled if point.soft_cap is not None],
        "hard cap": [(point.at, point.hard_cap) for point in filled if point.hard_cap is not None],
    }
    first = (day - timedelta(days=PLOT_DAYS)).isoformat()
    by_flavor: dict[str, dict[str, float]] = defaultdict(dict)
    for (flavor, of_day), count in sessions_by_partition(store, first).items():
        by_flavor[flavor][of_day] = count
    used = [(point.at, point.bytes) for point in filled]
    charts: dict[str, Chart] = {
        "raw_cache_over_time": BytesOverTime("Raw cache after each sweep and eviction", used, caps),
        "sessions_by_day": DayBars("Sessions by day", by_flavor, "sessions"),
    }
    return {name: dg.MetadataValue.md(markdown(chart, store.data_dir)) for name, chart in charts.items()}
