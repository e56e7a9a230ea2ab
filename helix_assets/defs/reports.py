"""The reports as assets: each rewrites its files, and shows its figures, pictures and some tables in Dagster.

Dagster's records are kept when a session is forgotten, and new redaction rules do not reach them. So they contain only
numbers, days and words of our own: no path, title, repository, model or snippet, and no tool names but the agents' own.
All of that is in the files, which are dropped with the session.
"""

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import Any

import dagster as dg
from dagster_duckdb import DuckDBResource
from pydantic import Field

from helix_assets.agents import known_tool
from helix_assets.ask.plots import markdown
from helix_assets.ask.reports.all_reports import REPORTS, make_report, totals_of_digests
from helix_assets.ask.reports.frame import SHOWN_ROWS, Report, ReportTable, Span, day_of_text
from helix_assets.ask.views import Connect
from helix_assets.defs.followers import OF_ALL_DIGESTS, OWNERS, WHEN_DIGESTS_CHANGE
from helix_assets.defs.record import ending_well_when_busy
from helix_assets.defs.resources import StoreResource
from helix_assets.keep.report_files import write_report
from helix_assets.store.store import Store
from helix_assets.sweep.sweep import utc_now

GROUP = "reports"
ADD_UP, WHOLE = "totals_equal_the_digests", "nothing_is_left_out"
INTERVAL_S = 1800
"""How often to check whether reports must be made again: they cost seconds, and sessions change all the time."""
RETRO = "weekly_retro"


# `eager` does not see changes from before its first evaluation.
_AT_FIRST = dg.AutomationCondition.missing().newly_true()


class ReportConfig(dg.Config):
    """Which days a report is about."""

    since: str | None = Field(default=None, description="The first day, such as 2026-01-31. Default: all days.")
    until: str | None = Field(
        default=None,
        description="The last day; of weekly_retro any day of the week that is meant. Default: today, there yesterday.",
    )

    def span(self) -> Span:
        """The days; QueryError if they are not dates or in the wrong order."""
        return Span(day_of_text("since", self.since or None), day_of_text("until", self.until or None))


def _asset(name: str) -> dg.AssetsDefinition:
    kind = REPORTS[name]
    spec = dg.AssetSpec(
        name,
        deps=[OF_ALL_DIGESTS],
        description=f"{kind.about} Computed in DuckDB over the memory's views; docs/reports.md.",
        group_name=GROUP,
        kinds={"duckdb", "parquet", "matplotlib"},
        owners=OWNERS,
        code_version="1",
        skippable=True,
        metadata={"location": f"reports/{name}/: Markdown, CSV, Parquet, SVG"},
        automation_condition=WHEN_DIGESTS_CHANGE | _AT_FIRST,
    )
    checks = [dg.AssetCheckSpec(WHOLE, asset=name, description="No damaged session or file is missing in the report.")]
    if kind.totals:
        about = f"Over all days {', '.join(kind.totals)} are the sums over the digests."
        checks.append(dg.AssetCheckSpec(ADD_UP, asset=name, description=about))

    # Only what can be subset may end without a result, as a run does that finds the store in use.
    @dg.multi_asset(name=name, specs=[spec], check_specs=checks, can_subset=True, description=kind.about)
    def report(
        context: dg.AssetExecutionContext, config: ReportConfig, store: StoreResource, duckdb: DuckDBResource
    ) -> Iterator[dg.MaterializeResult[None] | dg.AssetCheckResult]:
        with ending_well_when_busy(context), store.open() as opened:
            span, today, connect = config.span(), utc_now().date(), duckdb.get_connection
            made, _ = write_report(opened, name, lambda: make_report(opened, name, span, today=today, connect=connect))
            wanted = {key.name for key in context.selected_asset_check_keys}
            if context.selected_asset_keys:
                yield dg.MaterializeResult(asset_key=name, metadata=_metadata(opened, made))
            yield from (result for result in _answers(opened, name, made, connect) if result.check_name in wanted)

    return report


def _answers(store: Store, name: str, made: Report, connect: Connect) -> Iterator[dg.AssetCheckResult]:
    left_out = len(made.left_out)
    severity = dg.AssetCheckSeverity.WARN
    yield dg.AssetCheckResult(
        asset_key=name, check_name=WHOLE, passed=not left_out, severity=severity, metadata={"left_out": left_out}
    )
    if totals := totals_of_digests(store, name, connect):
        figures = {f"{figure}/report": both.reported for figure, both in totals.items()}
        figures |= {f"{figure}/digests": both.of_digests for figure, both in totals.items()}
        passed = all(both.reported == both.of_digests for both in totals.values())
        yield dg.AssetCheckResult(asset_key=name, check_name=ADD_UP, passed=passed, metadata=figures)


def _metadata(store: Store, report: Report) -> dict[str, Any]:
    metadata: dict[str, Any] = {name: value for name, value in report.figures.items() if value is not None}
    metadata["span"] = str(report.span)
    # Dagster keeps the order: nobody would find the pictures below the long tables.
    for name, chart in report.charts.items():
        metadata[f"picture/{name}"] = dg.MetadataValue.md(markdown(chart, store.data_dir))
    for table in report.tables:
        if records := _records(table):
            metadata[f"table/{table.name}"] = dg.MetadataValue.table(records)
    return metadata


def _records(table: ReportTable) -> list[dg.TableRecord]:
    """The first rows of a table without private columns; none if its first column, which names the rows, is private."""
    if table.columns[0] in table.private:
        return []
    shown = [name for name in table.columns if name not in table.private]
    rows = table.data.select(shown).slice(0, SHOWN_ROWS).to_pylist()
    return [dg.TableRecord({name: _shown(name, value) for name, value in row.items()}) for row in rows]


def _shown(column: str, value: Any) -> str | int | float | bool | None:
    if column == "tool":
        return known_tool(value)
    return value.isoformat() if isinstance(value, date | datetime) else value


REPORT_ASSETS = [_asset(name) for name in REPORTS]

reports_job = dg.define_asset_job(
    "reports_job", description="Makes all reports again.", selection=dg.AssetSelection.groups(GROUP)
)

reports_sensor = dg.AutomationConditionSensorDefinition(
    "reports_sensor",
    target=dg.AssetSelection.groups(GROUP),
    minimum_interval_seconds=INTERVAL_S,
    default_status=dg.DefaultSensorStatus.RUNNING,
    description="Asks for the reports whose condition holds: digests changed since they were made.",
)


@dg.schedule(
    job=reports_job,
    cron_schedule="0 4 * * *",
    default_status=dg.DefaultScheduleStatus.RUNNING,
    description="Makes all reports once a day; the retro is that of the week of yesterday.",
)
def reports_schedule(context: dg.ScheduleEvaluationContext) -> dg.RunRequest:
    """All reports once a day. The retro is for the week of yesterday: on Monday it completes the week before."""
    yesterday = (context.scheduled_execution_time - timedelta(days=1)).date().isoformat()
    return dg.RunRequest(run_config={"ops": {RETRO: {"config": {"until": yesterday}}}})
