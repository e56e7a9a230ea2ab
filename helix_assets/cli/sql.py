"""`helix sql`: the answer to one SELECT over the memory's views, as a table, JSON or CSV."""

import resource
import sys
from contextlib import closing, suppress
from typing import Any

import click

from helix_assets.ask.reading import open_existing
from helix_assets.ask.reports.files import cell_text, csv_text
from helix_assets.ask.sql import ROWS, SECONDS, Answer, ask
from helix_assets.ask.views import VIEWS
from helix_assets.ask.withheld import note_on_texts
from helix_assets.cli.output import Column, Justify, Table, emit, human_count, print_table, say
from helix_assets.settings import load_settings

_ADDRESS_SPACE = 4 << 30
_NAMED = 5


@click.command(
    "sql", epilog=f"Views: {', '.join(VIEWS)}. Their columns: docs/sql.md, or `helix sql 'describe sessions'`."
)
@click.argument("query")
@click.option("--rows", type=click.IntRange(1), default=ROWS, show_default=True, help="How many rows at most.")
@click.option("--seconds", type=click.FloatRange(0.1), default=SECONDS, show_default=True, help="How long at most.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document: a list of objects.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header line.")
def sql(query: str, rows: int, seconds: float, as_json: bool, as_csv: bool) -> None:
    """Answer QUERY, one SELECT over the memory's views ("-" reads it from standard input)."""
    if as_json and as_csv:
        raise click.UsageError("--json or --csv, not both")
    if query == "-":
        query = sys.stdin.read()
    _fence_memory()
    with closing(open_existing(load_settings())) as store:
        answer = ask(store, query, rows=rows, seconds=seconds)
    if as_csv:
        say(csv_text(answer.columns, answer.rows), nl=False)
    elif as_json:
        emit([dict(zip(answer.columns, map(_json_value, row), strict=True)) for row in answer.rows], as_json=True)
    else:
        print_table(_table(answer))
    _print_notes(answer, rows)


def _fence_memory() -> None:
    """Set a second limit, the kernel's, for functions whose memory DuckDB does not count, such as repeat()."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or hard > _ADDRESS_SPACE:
        with suppress(OSError, ValueError):  # not every system allows that
            resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, hard))


def _table(answer: Answer) -> Table:
    justify: list[Justify] = ["right" if _is_number(answer, place) else "left" for place in range(len(answer.columns))]
    columns = [Column(name, side) for name, side in zip(answer.columns, justify, strict=True)]
    return Table(columns, [[cell_text(value) for value in row] for row in answer.rows])


def _is_number(answer: Answer, place: int) -> bool:
    return any(isinstance(row[place], int | float) and not isinstance(row[place], bool) for row in answer.rows[:20])


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    return value if isinstance(value, str | int | float | None) else cell_text(value)


def _print_notes(answer: Answer, rows: int) -> None:
    """Say what the answer lacks, on stderr, so that it does not get into the data."""
    if answer.is_cut:
        say(f"Only the first {human_count(rows)} rows; --rows shows more.", err=True)
    if answer.left_out:
        named = ", ".join(answer.left_out[:_NAMED]) + (", ..." if len(answer.left_out) > _NAMED else "")
        say(f"Left out, because damaged: {named} ({len(answer.left_out)}). Run `helix verify`.", err=True)
    if answer.withheld:
        say(note_on_texts(answer.withheld), err=True)
