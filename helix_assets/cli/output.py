"""How commands print: JSON, tables, sizes, progress, and no control sequences for the terminal.

Transcript text is hostile until it has gone through `terminal_safe`. All that is written here has, and no command
writes in any other way. Nothing here knows what a session is.
"""

import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from datetime import date, datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, cast

import click

from helix_assets.model.terminal import cell, json_safe, terminal_safe

_BINARY_UNITS = ("KiB", "MiB", "GiB", "TiB")

Justify = Literal["left", "right"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; numbers are aligned to the right."""

    name: str
    justify: Justify = "left"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of formatted texts under named columns."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]] = field(default_factory=list)
    title: str = ""


def say(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a text for a person."""
    click.echo(terminal_safe(text), err=err, nl=nl)


def say_marked(pieces: Iterable[tuple[str, bool]]) -> None:
    """Print one line for a person, in which the marked pieces are bold on a terminal."""
    is_terminal = sys.stdout.isatty()
    click.echo("".join(click.style(cell(t), bold=True) if marked and is_terminal else cell(t) for t, marked in pieces))


def hand_over(data: bytes) -> None:
    """Write data for other programs unchanged; on a terminal, without control sequences."""
    if sys.stdout.isatty():
        data = terminal_safe(data.decode("utf-8", "replace")).encode()
    click.echo(data, nl=False)


@contextmanager
def handing_over() -> Iterator[BinaryIO]:
    """A file for data for other programs: see `hand_over`."""
    if sys.stdout.isatty():
        yield cast("BinaryIO", _HandsOver())
    else:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()


class _HandsOver(io.RawIOBase):
    def write(self, data: Any) -> int:
        hand_over(bytes(data))
        return len(data)


def emit(data: object, as_json: bool, table: Table | Sequence[Table] | None = None) -> None:
    """Write the answer of a command: as one JSON document, or as tables for a person."""
    if as_json:
        click.echo(to_json(data).encode())  # bytes, so that it is UTF-8 whatever the locale
        return
    print_tables([table] if isinstance(table, Table) else table or [])


def to_json(data: object) -> str:
    """Indented JSON in valid UTF-8; dataclasses, dates and paths are understood."""
    text = json.dumps(data, default=_plain, ensure_ascii=False, indent=2)
    # A lone surrogate, which a damaged log line may contain, cannot be encoded.
    return json_safe(text.encode("utf-8", "replace").decode("utf-8"))


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
    """Print tables one below the other, with an empty line between them."""
    for number, table in enumerate(tables):
        if number and not sys.stdout.isatty():  # rich adds that line itself
            say()
        print_table(table)


def print_table(table: Table) -> None:
    """Print a rich table on a terminal, aligned plain text otherwise."""
    rows = [[cell(text) for text in row] for row in table.rows]
    if sys.stdout.isatty():
        _print_rich(table, rows)
        return
    if table.title:
        say(cell(table.title))
    header = [cell(column.name) for column in table.columns]
    widths = [max(len(row[index]) for row in [header, *rows]) for index in range(len(header))]
    for row in [header, *rows]:
        aligned = (
            text.rjust(width) if column.justify == "right" else text.ljust(width)
            for text, width, column in zip(row, widths, table.columns, strict=True)
        )
        say("  ".join(aligned).rstrip())


def _print_rich(table: Table, rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(
        title=Text(cell(table.title)) if table.title else None, box=box.SIMPLE_HEAD, title_justify="left",
        padding=(0, 1, 0, 0), pad_edge=False,
    )  # fmt: skip
    # Text, not str: square brackets in a transcript are not markup.
    for column in table.columns:
        # Folded, not cut: the end of a path has the file and the line.
        drawn.add_column(Text(cell(column.name)), justify=column.justify, overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(text) for text in row))
    Console().print(drawn)


class Advance(Protocol):
    """Moves a progress bar to `done`. `total` may become known or grow meanwhile."""

    def __call__(self, done: int, total: int | None = None) -> None: ...


@contextmanager
def progress(label: str, total: int | None = None) -> Iterator[Advance]:
    """Yield a function that moves a progress bar. The bar is drawn only if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total=None: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done, total=None: bar.update(task, completed=done, total=total)
