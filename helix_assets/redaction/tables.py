"""Tables with a column of secrets, as in Markdown, database consoles and CSV files.

Belongs here: which cells are below the name of a secret. Not here: which names these are (`names.py`).
"""

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from helix_assets.redaction.judge import is_name, is_placeholder, is_reference, looks_chosen, looks_generated
from helix_assets.redaction.names import Standard, kind_of, name_standard
from helix_assets.redaction.view import Places

_ONE = r"(?i:pass(?:word|wd|wort|phrase|code)?|pwd|secret|token|api[ _-]?key)"
_NAME = rf"{_ONE}s?"
_BARS = r"(?:\||│|\\+u2502)"
_MARKS = r"[ *_`]*"
_SEPARATOR = r"(?:[,;\t]|\\+t)"
_LINE_ENDS = r"(?:\r|\n|\\+[nr])"
TRIGGERS = (
    rf"{_NAME}{_MARKS}{_BARS}",
    rf"\|{_MARKS}{_NAME}{_MARKS}(?:{_LINE_ENDS}|$)",
    rf"{_SEPARATOR}[\\\" ]*[\w -]*{_ONE}[\\\"]*(?:{_SEPARATOR}[\w\\\" ,;.-]*)?{_LINE_ENDS}",
    rf"{_ONE}[\\\"]*{_SEPARATOR}[\w\\\" ,;.-]*{_LINE_ENDS}",
    rf"Key  +Value *{_LINE_ENDS}",
)
_BAR = re.compile("\\||│".encode())
_SEPARATORS = tuple(map(re.compile, (b",", b";", b"\t")))
_LONGEST_HEADER = 400
_NAMES_ONLY = re.compile(rb"[\w\",;\t .-]{8,400}\r?\Z")
_NAMES_BEFORE = re.compile(rb"[\w\",;\t .-]*\Z")  # after what JSON has before a text
_HEADER = re.compile(rf"[\w -]{{0,24}}{_NAME}\Z".encode())
_BORDER = re.compile(rb"[ \t\d|:=+>-]*(?:\xe2(?:\x86\x92|[\x94\x95].)[ \t|:=+-]*)*\r?\Z")
_ARGUMENTS = re.compile(rb"[ \t]*(?:\d{1,6}(?:\xe2\x86\x92|[:\t]))?[ \t]*[A-Za-z_][\w.]*(?:, [A-Za-z_][\w.]*)+,?\r?\Z")
# A line of a program, whatever stands between its commas.
_STATEMENT = re.compile(rb"[ \t]*(?:case|return|if|for|let|var|const|def|func|fn|import|from|assert)[ (]")
# What Vault prints: `Key  Value` and a line below; below `= Data =` all values are secrets.
_LEAD = rb"[ \t]*(?:[0-9]{1,6}(?:\xe2\x86\x92|[:\t]))?[ \t]*"
_LISTING = re.compile(rb"Key  +Value[ \t]*\n" + _LEAD + rb"---  +-----[ \t]*\n")
_OF_DATA = re.compile(rb"= Data =+[ \t]*\n" + _LEAD + rb"\Z")
_BEFORE_LISTING = 128
_LISTED = re.compile(_LEAD + rb"([\w.@/-]{1,128})[ \t]{2,}(\S(?:[^\n\"]*\S)?)[ \t]*(?:\n|\Z|(?=\"))")
_SECRET = re.compile(rb"(?i)pass|pwd|secret|token|key|credential")
_NO_VALUE = re.compile(rb"(?:n/a|<nil>|map\[.*|\[.*\]|[0-9]{1,5}|[0-9hms]{2,12}|true|false|[\w-]{0,8})\Z")
_LONGEST_LINE = 4_096
_SHORTEST = 6
_NEWLINE = ord("\n")


def cells_below(places: Places, heads: Iterable[int]) -> Iterator[tuple[int, int, str]]:
    """Yield the span and the kind of each cell that contains a secret. `heads` are places where a header may be."""
    view, at = places.text, 0
    for head in heads:
        if head < at:
            continue
        line = _line(view, view.rfind(b"\n", 0, head) + 1)
        if places.row_end(head, line.stop) < line.stop:
            continue  # the line break is in another JSON string
        before = _NAMES_BEFORE.search(view[max(line.start, head - _LONGEST_HEADER) : head])
        names = view[head - len(before.group()) if before else head : line.stop]
        header = names if _NAMES_ONLY.match(names) else view[line.start : line.stop]
        # The rows of a CSV file come right below its header, others below a line.
        is_csv = header is names and _BAR.search(view, line.start, line.stop) is None
        bar = next((mark for mark in _SEPARATORS if is_csv and mark.search(header)), _BAR)
        cells = _cells(header, bar)
        columns = {} if is_csv and _STATEMENT.match(header) else _columns(header, cells)
        is_below = is_csv and not header.rstrip(b" \r").endswith(b",")  # a list of names in code
        at = line.stop + 1
        while columns and at < len(view) and view[at - 1] == _NEWLINE:  # not where the JSON around the table goes on
            row_end = places.row_end(at, at - 1)
            text = view[at:row_end]
            row = _cells(text, bar) if len(text) < _LONGEST_LINE else []
            if is_below and len(row) == len(cells) and not (is_csv and _ARGUMENTS.match(text)):
                for column, standard in columns.items():
                    start, end = row[column]
                    if _is_secret(text[start:end], standard):
                        yield at + start, at + end, "password" if standard == "password" else "token"
            elif _BORDER.match(text):
                is_below = True
            else:
                break
            at = row_end + 1


def listed_values(view: bytes) -> Iterator[tuple[int, int, str]]:
    """Yield the span and the kind of each secret that Vault lists by name."""
    at = 0
    while listing := _LISTING.search(view, at):
        before = view[max(0, listing.start() - _BEFORE_LISTING) : listing.start()]
        is_data, at = _OF_DATA.search(before) is not None, listing.end()
        while row := _LISTED.match(view, at):
            name, value = row.groups()
            standard = name_standard(name) if _SECRET.search(name) else None
            judged = is_data or (standard and (standard == "password" or not _NO_VALUE.match(value)))
            if judged and not is_placeholder(value):
                yield *row.span(2), kind_of(name) if standard else "secret"
            at = row.end()


def _line(view: bytes, start: int) -> range:
    end = view.find(b"\n", start)
    return range(start, len(view) if end < 0 else end)


def _cells(line: bytes, bar: re.Pattern[bytes]) -> list[tuple[int, int]]:
    """Return the spans of the texts between a line's bars; none if it has no bar."""
    bars = [found.span() for found in bar.finditer(line)]
    edges = [(0, 0), *bars, (len(line), len(line))] if bars else []
    cells = []
    for (_, start), (end, _) in pairwise(edges):
        text = line[start:end].lstrip(b' \t*`"')
        cells.append((end - len(text), end - len(text) + len(text.rstrip(b' \t\r*`"'))))
    return cells


def _columns(line: bytes, cells: list[tuple[int, int]]) -> dict[int, Standard]:
    """Return which cells of a header name secrets, and by which standard these are judged."""
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
    return looks_generated(text, 16) and not is_name(text)
