"""How commands speak: JSON, tables, sizes, progress, and nothing that could drive the terminal.

Transcript text is hostile until it has gone through `terminal_safe`; `emit` and `print_table` see to that themselves.
Nothing here knows what a session is.
"""

import json
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Literal, Protocol

import click

_BIDI_CONTROLS = frozenset("\u061c\u200e\u200f\u2028\u2029\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_BINARY_UNITS = ("KiB", "MiB", "GiB", "TiB")

Justify = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; numbers are set to the right."""

    name: str
    justify: Justify = "left"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of ready-made texts under named columns."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]] = field(default_factory=list)
    title: str = ""


def emit(data: object, as_json: bool, table: Table | Sequence[Table] | None = None) -> None:
    """Write the answer of a command: as one JSON document, or as tables for a person."""
    if as_json:
        click.echo(to_json(data).encode())  # bytes, so that it is UTF-8 whatever the locale
        return
    print_tables([table] if isinstance(table, Table) else table or [])


def to_json(data: object) -> str:
    """Indented JSON in valid UTF-8; dataclasses, dates and paths are understood."""
    text = json.dumps(data, default=_plain, ensure_ascii=False, indent=2)
    # A lone surrogate, as a torn log line may hold, cannot be encoded.
    return text.encode("utf-8", "replace").decode("utf-8")


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def terminal_safe(text: str) -> str:
    """The text without what a terminal would obey: control characters but newline and tab, and bidi controls."""
    return "".join(char for char in text if char in "\n\t" or not _is_control(char))


def _is_control(char: str) -> bool:
    return char in _BIDI_CONTROLS or unicodedata.category(char) in ("Cc", "Cs")


def cell(text: str) -> str:
    """The text on one line, safe for the terminal."""
    return terminal_safe(text.replace("\n", " ").replace("\t", " "))


def human_size(size_bytes: int) -> str:
    """Bytes as a person reads them, such as '4.0 GiB'; exact below one KiB."""
    size = float(size_bytes)
    unit = "B"
    for larger in _BINARY_UNITS:
        if abs(size) < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"


def human_count(count: int) -> str:
    """A number with separators between thousands."""
    return f"{count:,}"


def print_tables(tables: Sequence[Table]) -> None:
    """Draw tables one below the other, with room between them."""
    for number, table in enumerate(tables):
        if number and not sys.stdout.isatty():  # rich leaves that room itself
            click.echo()
        print_table(table)


def print_table(table: Table) -> None:
    """Draw a rich table on a terminal, aligned plain text otherwise."""
    rows = [[cell(text) for text in row] for row in table.rows]
    if sys.stdout.isatty():
        _print_rich(table, rows)
        return
    if table.title:
        click.echo(table.title)
    header = [column.name for column in table.columns]
    widths = [max(len(row[index]) for row in [header, *rows]) for index in range(len(header))]
    for row in [header, *rows]:
        aligned = (
            text.rjust(width) if column.justify == "right" else text.ljust(width)
            for text, width, column in zip(row, widths, table.columns, strict=True)
        )
        click.echo("  ".join(aligned).rstrip())


def _print_rich(table: Table, rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(
        title=table.title or None, box=box.SIMPLE_HEAD, title_justify="left", padding=(0, 1, 0, 0), pad_edge=False
    )
    for column in table.columns:
        # Folded, not cut: at the end of a path stand the file and the line.
        drawn.add_column(column.name, justify=column.justify, overflow="fold")
    for row in rows:
        # Text, not str: square brackets of a transcript are no markup.
        drawn.add_row(*(Text(text) for text in row))
    Console().print(drawn)


class Advance(Protocol):
    """Moves a progress bar to `done`; `total` may become known, or grow, on the way."""

    def __call__(self, done: int, total: int | None = None) -> None: ...


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Advance]:
    """Yield a function that moves a progress bar on; the bar is drawn only where stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done, total=None: bar.update(task, completed=done, total=total)
