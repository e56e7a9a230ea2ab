"""A report as Markdown, for people: figures, notes, links to pictures, the head of every table.

Belongs here: putting the text together, and escaping cells so that they are only text. Not here: CSV (`files`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from helix_assets.ask.reports.frame import SHOWN_ROWS, Report, ReportTable

_SPECIAL = re.compile(r"([\\`*{}\[\]()<>#|!~$&]|(?<!\w)_|_(?!\w))")
_CELL_CHARS = 160
_NAMED = 5


def as_markdown(report: Report, pictures: Mapping[str, str] | None = None) -> str:
    """The report; `pictures` are the files of its charts by name, in the same folder."""
    parts = [f"# {report.title}", f"{report.span}, UTC.", *report.notes]
    if report.left_out:
        named = ", ".join(map(plain, report.left_out[:_NAMED]))
        more = f" and {len(report.left_out) - _NAMED} more" if len(report.left_out) > _NAMED else ""
        parts.append(f"**Left out, because damaged:** {named}{more}. Run `helix verify`.")
    parts.append(_lines(("figure", "value"), ((name, value) for name, value in report.figures.items())))
    parts += [f"![{report.charts[name].title}]({file})" for name, file in (pictures or {}).items()]
    for table in report.tables:
        parts += [f"## {table.title}", as_table(table)]
    return "\n\n".join(parts) + "\n"


def as_table(table: ReportTable) -> str:
    """The head of a table, and how many more rows there are."""
    if not table.data.num_rows:
        return "Nothing."
    head = table.data.slice(0, SHOWN_ROWS).to_pylist()
    lines = _lines(table.columns, (row.values() for row in head))
    more = table.data.num_rows - SHOWN_ROWS
    return f"{lines}\n\n{more} more in `{table.name}.csv`." if more > 0 else lines


def _lines(columns: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    names = list(columns)
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    lines += ["| " + " | ".join(map(_cell, row)) + " |" for row in rows]
    return "\n".join(lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.4f}".rstrip("0").rstrip(".")
    if isinstance(value, date):
        return value.isoformat()
    return plain(str(value))


def plain(text: str) -> str:
    """A text on one line, escaped so that Markdown makes no picture, link or tag of it."""
    line = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return _SPECIAL.sub(r"\\\1", line if len(line) <= _CELL_CHARS else line[: _CELL_CHARS - 1] + "…")
