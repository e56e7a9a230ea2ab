"""`helix report`: a report over the memory, for reading, as data, or as files."""

from contextlib import closing
from typing import Any

import click

from helix_assets.ask.reading import open_existing
from helix_assets.ask.reports.all_reports import REPORTS, make_report
from helix_assets.ask.reports.files import as_csv
from helix_assets.ask.reports.frame import Report, Span, day_of_text
from helix_assets.ask.reports.markdown import as_markdown
from helix_assets.cli.output import Column, Table, emit, say
from helix_assets.keep.report_files import write_report
from helix_assets.settings import load_settings
from helix_assets.store.store import Store


@click.command("report", epilog=f"Reports: {', '.join(REPORTS)}. What they say: docs/reports.md.")
@click.argument("name", required=False)
@click.option("--since", metavar="DAY", help="The first day, such as 2026-01-31.")
@click.option(
    "--until", metavar="DAY", help="The last day. For weekly_retro: a day of its week.  [default there: yesterday]"
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--csv", "csv_table", metavar="TABLE", help="Print one table of the report as CSV.")
@click.option("--files", is_flag=True, help="Write Markdown, CSV, Parquet and pictures into the data folder.")
def report(  # noqa: PLR0913, PLR0917 - click passes an argument per option
    name: str | None, since: str | None, until: str | None, as_json: bool, csv_table: str | None, files: bool
) -> None:
    """Print report NAME as Markdown; without NAME list the reports."""
    if name is None:
        listed = [[name, kind.about] for name, kind in REPORTS.items()]
        emit(dict(listed), as_json, Table([Column("report"), Column("what it says")], listed))
        return
    if as_json + files + (csv_table is not None) > 1:
        raise click.UsageError("--json, --csv and --files exclude each other: give one of them")
    span = Span(day_of_text("--since", since), day_of_text("--until", until))
    with closing(open_existing(load_settings())) as store:
        if files:
            say(f"written to {_write(store, name, span)}")
        else:
            _print(make_report(store, name, span), as_json, csv_table)


def _write(store: Store, name: str, span: Span) -> str:
    return str(write_report(store, name, lambda: make_report(store, name, span))[1])


def _print(found: Report, as_json: bool, csv_table: str | None) -> None:
    if csv_table is not None:
        say(as_csv(found.table(csv_table)), nl=False)
    elif as_json:
        emit(_data(found), as_json=True)
    else:
        say(as_markdown(found), nl=False)
    if found.left_out and (csv_table is not None or as_json):
        say(f"Left out, because damaged: {len(found.left_out)}. Run `helix verify`.", err=True)


def _data(found: Report) -> dict[str, Any]:
    return {
        "title": found.title,
        "since": found.span.since,
        "until": found.span.until,
        "figures": dict(found.figures),
        "tables": {table.name: table.rows for table in found.tables},
        "left_out": list(found.left_out),
    }
