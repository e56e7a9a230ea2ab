"""Tables with a column of secrets, as Markdown and the consoles of databases write them.

Belongs here: which cells stand below the name of a secret. What such a name is, `names.py` says.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

from helix_assets.core.redaction.judge import is_placeholder, is_reference, looks_chosen, looks_generated
from helix_assets.core.redaction.names import Standard, name_standard

_NAME = r"(?i:pass(?:word|wd|phrase|code)?|pwd|secret|token|api[ _-]?key)s?"
_BARS = r"(?:\||│|\\u2502)"
_MARKS = r"[ *_`]*"
TRIGGER = rf"{_NAME}{_MARKS}{_BARS}|{_BARS}{_MARKS}{_NAME}{_MARKS}(?:[\\\"\r\n]|$)"
_BAR = re.compile("\\||│".encode())
_HEADER = re.compile(rf"[\w -]{{0,24}}{_NAME}\Z".encode())
_BORDER = re.compile(rb"[ \t\d|:=+>-]*(?:\xe2(?:\x86\x92|[\x94\x95].)[ \t|:=+-]*)*\r?\Z")
_LONGEST_LINE = 4_096
_SHORTEST = 6


def cells_below(view: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield the spans of the cells that hold a secret, and what each is, line by line."""
    columns: dict[int, Standard] = {}
    width = at = 0
    is_below = False  # the line that parts the header from the rows
    for line in view.split(b"\n"):
        cells = _cells(line) if len(line) < _LONGEST_LINE else []
        if is_below and len(cells) == width:
            for column, standard in columns.items():
                start, end = cells[column]
                if _is_secret(line[start:end], standard):
                    yield at + start, at + end, "password" if standard == "password" else "token"
        elif columns and _BORDER.match(line):
            is_below = True
        else:
            columns, width, is_below = _columns(line, cells), len(cells), False
        at += len(line) + 1


def _cells(line: bytes) -> list[tuple[int, int]]:
    """Return the spans of the texts between a line's bars; none, if it has no bar."""
    bars = [bar.span() for bar in _BAR.finditer(line)]
    edges = [(0, 0), *bars, (len(line), len(line))] if bars else []
    cells = []
    for (_, start), (end, _) in pairwise(edges):
        text = line[start:end].lstrip(b" \t*`")
        cells.append((end - len(text), end - len(text) + len(text.rstrip(b" \t\r*`"))))
    return cells


def _columns(line: bytes, cells: list[tuple[int, int]]) -> dict[int, Standard]:
    """Return which cells of a header name secrets, and by which standard theirs are judged."""
    named = {}
    for column, (start, end) in enumerate(cells):
        name = line[start:end]
        if _HEADER.match(name) and (standard := name_standard(name.replace(b" ", b"_"))):
            named[column] = standard
    return named


def _is_secret(text: bytes, standard: Standard) -> bool:
    if len(text) < _SHORTEST or b" " in text or is_placeholder(text) or is_reference(text):
        return False
    if standard == "password":
        return looks_chosen(text) and text.translate(None, b"0123456789") != text
    return looks_generated(text, 16)
