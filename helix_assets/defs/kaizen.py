"""The assets that downstream projects read: they follow the digests, at least once a day.

The server's own thread updates them without a run. Where there is none, declarative automation starts runs, as does a
schedule. Belongs here: what Dagster shows of them. Not here: their content (`kaizen`). Metadata contains only counts
and words of our own.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from helix_assets.ask.plots import Rates, markdown, png
from helix_assets.defs.followers import OF_ALL_DIGESTS, OWNERS, WHEN_DIGESTS_CHANGE
from helix_assets.defs.partitions import ROWS
from helix_assets.defs.record import ending_well_when_busy
from helix_assets.defs.resources import StoreResource
from helix_assets.kaizen.derived import SCORECARD, folder_of, write_correlated, write_scorecard
from helix_assets.kaizen.executions import Correlation
from helix_assets.kaizen.metrics import read_projects
from helix_assets.kaizen.scorecard import Score, rates_by_week
from helix_assets.keep.writing import writing
from helix_assets.model.time import iso, microseconds
from helix_assets.serve.dagster_private import code_version_tag, input_tags, last_of
from helix_assets.store.durable import replace_file
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import utc_now

GROUP = "kaizen"
CODE_VERSION = "1"
AUTOMATION_S = 1800
MATCH_RATE = 0.8
"""Below this share of executions with a session the check warns."""
PROJECT_METRICS, CORRELATED, AGENT_SCORECARD = (
    dg.AssetKey([GROUP, name]) for name in ("project_metrics", "correlated_executions", "agent_scorecard")
)
_MATCHED = "executions_find_their_sessions"

Results = Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]


def _spec(
    key: dg.AssetKey, deps: Sequence[dg.AssetDep | dg.AssetKey], kinds: set[str], about: str, where: str
) -> dg.AssetSpec:
    return dg.AssetSpec(
        key,
        deps=deps,
        description=about,
        group_name=GROUP,
        kinds=kinds,
        owners=OWNERS,
        code_version=CODE_VERSION,
        automation_condition=WHEN_DIGESTS_CHANGE,
        skippable=True,
        metadata={"location": where},
    )


@dg.multi_asset(
    name="project_metrics",
    specs=[
        _spec(
            PROJECT_METRICS,
            [OF_ALL_DIGESTS],
            {"sqlite", "json"},
            "What projects record about their own agents in .kaizen/metrics/<agent>/executions.jsonl, read as it grows "
            "and never written. Projects are named in the settings, kaizen.projects.",
            "helix.db, table executions",
        )
    ],
)
def project_metrics(context: dg.AssetExecutionContext, store: StoreResource) -> Results:
    """Take in what is new in the metrics of the projects."""
    with ending_well_when_busy(context), store.open() as opened, writing(opened, "read the projects' metrics"):
        yield dg.MaterializeResult(metadata=_read(opened))


@dg.multi_asset(
    name="correlated_executions",
    specs=[
        _spec(
            CORRELATED,
            [PROJECT_METRICS, OF_ALL_DIGESTS],
            {"parquet"},
            "Each execution with its session's tokens, cost, outcome, infrastructure overhead and errors: by "
            "helix_session_uid, else inferred by repository and time. Those without a session are included; sessions "
            "that no execution refers to are in unmatched_sessions.",
            "kaizen/correlated_executions.parquet, kaizen/unmatched_sessions.parquet",
        )
    ],
    check_specs=[
        dg.AssetCheckSpec(
            _MATCHED,
            asset=CORRELATED,
            description=f"At least {MATCH_RATE:.0%} of the executions have a session, or there are none.",
        )
    ],
)
def correlated_executions(context: dg.AssetExecutionContext, store: StoreResource) -> Results:
    """Join the executions with the digests."""
    with ending_well_when_busy(context), store.open() as opened, writing(opened, "join executions and digests"):
        found = write_correlated(opened)
        yield dg.MaterializeResult(metadata=_figures(found))
        yield dg.AssetCheckResult(**_matched(found))


@dg.multi_asset(
    name="agent_scorecard",
    specs=[
        _spec(
            AGENT_SCORECARD,
            [OF_ALL_DIGESTS],
            {"parquet", "matplotlib"},
            "Per agent, repository and week: sessions, success rate with interval and trend, cost per success, "
            "retries, interventions, test pass rate, infrastructure overhead. A table, a picture and a page.",
            "kaizen/agent_scorecard.parquet, .png and .md",
        )
    ],
)
def agent_scorecard(context: dg.AssetExecutionContext, store: StoreResource) -> Results:
    """Score the agents."""
    with ending_well_when_busy(context), store.open() as opened, writing(opened, "score agents"):
        found = write_scorecard(opened)
        chart = Rates("success rate by agent and week", rates_by_week(found))
        replace_file(folder_of(opened.data_dir) / f"{SCORECARD}.png", png(chart, opened.data_dir))
        picture = dg.MetadataValue.md(markdown(chart, opened.data_dir))
        yield dg.MaterializeResult(metadata={**_scored(found), "success_rate": picture})


def updated(instance: dg.DagsterInstance, store: Store) -> Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation]:
    """Update the tables and the page outside of any run. A picture takes as long again, and is drawn by runs only.

    Each event must be stored in the instance before the next is asked for: later ones name it as their input.
    """
    with writing(store, "update the tables of kaizen", wait_s=1):
        read, joined, scored = _read(store), write_correlated(store), write_scorecard(store)
    made = {PROJECT_METRICS: read, CORRELATED: _figures(joined), AGENT_SCORECARD: _scored(scored)}
    for spec in (spec for asset in KAIZEN_ASSETS for spec in asset.specs):
        tags = code_version_tag(CODE_VERSION)
        for dep in spec.deps:
            tags |= input_tags(dep.asset_key, last_of(instance, dep.asset_key))
        yield dg.AssetMaterialization(spec.key, metadata=made[spec.key], tags=tags)
    yield dg.AssetCheckEvaluation(**_matched(joined))


def _read(store: Store) -> dict[str, int]:
    return dict(vars(read_projects(store, iso(microseconds(utc_now())) or "")))


def _matched(found: Correlation) -> dict[str, Any]:
    return {
        "check_name": _MATCHED,
        "asset_key": CORRELATED,
        "passed": found.rate is None or found.rate >= MATCH_RATE,
        "severity": dg.AssetCheckSeverity.WARN,
        "metadata": _figures(found),
    }


def _scored(found: Sequence[Score]) -> dict[str, int]:
    return {
        ROWS: len(found),
        "sessions": sum(score.sessions for score in found),
        "weeks": len({score.week for score in found}),
    }


def _figures(found: Correlation) -> Mapping[str, int | float]:
    by = [link.by for link in found.links]
    figures: dict[str, int | float] = {
        ROWS: len(by),
        "by_reference": by.count("reference"),
        "inferred": by.count("inferred"),
        "executions_without_a_session": by.count(None),
        "sessions_without_an_execution": len(found.unmatched_sessions),
    }
    return figures if found.rate is None else figures | {"match_rate": round(found.rate, 3)}


KAIZEN_ASSETS = [project_metrics, correlated_executions, agent_scorecard]
"""Each after those that it is made of."""

kaizen_job = dg.define_asset_job(
    "kaizen_job",
    description="Updates all that downstream projects read.",
    selection=dg.AssetSelection.groups(GROUP),
)

kaizen_schedule = dg.ScheduleDefinition(
    name="kaizen_schedule",
    job=kaizen_job,
    cron_schedule="0 4 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Once a day, as a backstop for automation.",
)

kaizen_automation = dg.AutomationConditionSensorDefinition(
    "kaizen_automation",
    target=dg.AssetSelection.groups(GROUP),
    minimum_interval_seconds=AUTOMATION_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Updates the assets of kaizen when digests change, if the server's own thread does not.",
)
