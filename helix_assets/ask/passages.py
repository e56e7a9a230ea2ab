"""The passages of one row group that contain a term: finds lines by their bytes, then checks them value by value.

Belongs here: reading a row group for a search, and choosing which text of a line is shown. Not here: which row groups
are read (`ask.search`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

import helix_assets.store.arrow  # noqa: F401 - makes pyarrow do without pandas
from helix_assets.agents import pieces_of
from helix_assets.agents.jsonl import decode
from helix_assets.ask.query import Term, clean
from helix_assets.model.errors import StoreError
from helix_assets.store.parquet import joined, text_column

ENOUGH = 3
MOST = 12
"""The most lines with a term to read in a row group, including those of structure; only a few are shown."""
_COLUMNS = ["seq", "ts_us", "kind", "role", "tool", "record_key"]
_SOURCES = {"raw": "record", "summary": "event"}
_MESSAGES = frozenset({"user_msg", "assistant_msg", "thinking"})
_BEGINNING = 40
_NESTED = 4
_FLAVOR = "flavor="
_WHOLE = "(JSON within JSON, as it is written)"
_STRUCTURE = frozenset({
    _WHOLE,
    "agentId", "call_id", "cwd", "cwd_path", "gitBranch", "id", "leafUuid", "level", "media_type", "messageId", "model",
    "name", "parentUuid", "parent_tool_use_id", "promptId", "requestId", "role", "sessionId", "session_id", "signature",
    "slug", "stop_reason", "subtype", "timestamp", "toolUseID", "tool_use_id", "type", "userType", "uuid", "version",
})  # fmt: skip


_SaidBy = Callable[[str, str | None], tuple[str, str] | None]


class _LineRow(NamedTuple):
    """A row of a line without its texts; `place` is its position in the row group."""

    place: int
    seq: int
    ts_us: int | None
    kind: str | None
    role: str | None
    tool: str | None
    record_key: int


class Passage(NamedTuple):
    """One text of a stored line that contains a term, and the text's event.

    `source`: a whole `record`, the `event` left of one, or a `digest`.
    """

    source: str
    seq: int | None
    kind: str | None
    role: str | None
    tool: str | None
    ts_us: int | None
    record_key: int | None
    text: str


def passages_of(
    path: Path,
    group: int,
    terms: Sequence[Term],
    is_wanted: Callable[[str | None, str | None], bool],
) -> Sequence[Passage]:
    """Passages with any of the terms, enough of each: first the plain texts of events, last ids and the like.

    `is_wanted` says by kind and role whether an event is searched for.
    """
    flavor = next((part.removeprefix(_FLAVOR) for part in path.parts if part.startswith(_FLAVOR)), "")
    said_by: _SaidBy | None = getattr(pieces_of(flavor), "said_by", None)
    more = ["native_type"] if said_by else []
    try:
        with pa.OSFile(str(path)) as source, pq.ParquetFile(source) as file:
            table = file.read_row_group(group, [*_COLUMNS, *more, "summary", "raw"], use_threads=False)
    except (OSError, IndexError, pa.ArrowInvalid) as exc:
        raise StoreError(f"{path.name} is missing or damaged: run `helix verify`") from exc
    column = text_column(table)
    text, starts = joined(table[column])
    rows = _rows_of_lines(table, column)
    lower = text.lower()
    passages: dict[int, tuple[bool, Passage] | None] = {}

    def rows_with(place: int, said: str | None) -> Sequence[_LineRow]:
        of_line = list(map(_LineRow._make, rows[place]))
        return _rows_with(table, of_line, said, said_by) if column == "raw" else of_line

    for term in terms:
        good = some = 0
        for place in _lines_with(lower, starts, _needles(term)):
            if place not in passages:
                line = text[starts[place] : starts[place + 1]]
                passages[place] = _passage(_SOURCES[column], line, partial(rows_with, place), terms, is_wanted)
            if (one := passages[place]) and term.search(one[1].text):
                good, some = good + (not one[0]), some + 1
                if good == ENOUGH or some == MOST:
                    break
    found = sorted((one for one in passages.values() if one), key=lambda one: (one[0], one[1].kind is None))
    return [passage for _, passage in found]


def _passage(
    source: str,
    line: bytes,
    rows_with: Callable[[str | None], Sequence[_LineRow]],
    terms: Sequence[Term],
    is_wanted: Callable[[str | None, str | None], bool],
) -> tuple[bool, Passage] | None:
    """The best text of a line whose event is wanted, with the first such event, and whether it is structure."""
    if _wanted(rows_with(None), is_wanted) is None:
        return None
    for is_structure, text in _texts_with(line, terms):
        if row := _wanted(rows_with(text), is_wanted):
            seq = row.seq if row.seq >= 0 else None
            return is_structure, Passage(source, seq, row.kind, row.role, row.tool, row.ts_us, row.record_key, text)
    return None


def _wanted(rows: Sequence[_LineRow], is_wanted: Callable[[str | None, str | None], bool]) -> _LineRow | None:
    row = next((row for row in rows if row.kind is not None and is_wanted(row.kind, row.role)), None)
    return rows[0] if row is None and is_wanted(None, None) else row


def _rows_with(
    table: pa.Table, rows: Sequence[_LineRow], said: str | None, said_by: _SaidBy | None
) -> Sequence[_LineRow]:
    """The rows of a line whose event may contain this text, or any text of the line if none is given.

    A line can contain several messages and calls. The event of a message in pieces is with a later line.
    """
    if said_by is not None:
        known = said_by(table["native_type"][rows[0].place].as_py(), said)
        if known is not None:
            return [rows[0]._replace(kind=known[0], role=known[1], tool=None)]
    if said is None or len(rows) == 1 or _MESSAGES.isdisjoint(row.kind for row in rows):
        return rows
    line = " ".join(said.split())
    spoken = [row for row in rows if row.kind in _MESSAGES and _begins(table, row, line)]
    others = [row for row in rows if row.kind not in _MESSAGES and not (spoken and row.kind == "tool_call")]
    return spoken + others or rows


def _begins(table: pa.Table, row: _LineRow, line: str) -> bool:
    """Whether a text is the message of a row, by the beginning of its summary. A long one may have a tag before it."""
    begin = (table["summary"][row.place].as_py() or "").removesuffix("…")[:_BEGINNING]
    return bool(begin) and (line.startswith(begin) or (len(begin) == _BEGINNING and begin in line))


def _rows_of_lines(table: pa.Table, column: str) -> list[list[tuple[Any, ...]]]:
    """The rows of each line, without their text, with the fields of `_LineRow`."""
    columns = [table[name].to_pylist() for name in _COLUMNS]
    has_line = table[column].is_valid().to_pylist()
    lines: list[list[tuple[Any, ...]]] = []
    for row, is_first in zip(zip(range(table.num_rows), *columns, strict=True), has_line, strict=True):
        if is_first:
            lines.append([])
        if lines:  # else the rest of a line from the row group before
            lines[-1].append(row)
    return lines


def _lines_with(lower: bytes, starts: Sequence[int], needles: Sequence[bytes]) -> Iterator[int]:
    """Lines whose bytes contain one of these, except as JSON keys or unquoted values such as true, false and null."""
    for needle in needles:
        at = lower.find(needle)
        while at >= 0:
            end = at + len(needle)
            if lower[at - 2 : at] == b'":' or (lower[at - 1 : at] == b'"' and lower[end : end + 2] == b'":'):
                at = lower.find(needle, end)
                continue
            place = bisect_right(starts, at) - 1
            yield place
            at = lower.find(needle, starts[place + 1])


def _needles(term: Term) -> list[bytes]:
    r"""What the bytes of a line contain if it contains the term; non-ASCII letters may be written as \uXXXX."""
    begins = term.begins
    if all(map(str.isascii, begins)):
        return [begin.lower().encode() for begin in begins]
    cases = {case for word in begins for case in (word, word.lower(), word.upper(), word.capitalize())}
    return [*sorted(case.encode().lower() for case in cases), b"\\u"]


def _texts_with(line: bytes, terms: Sequence[Term]) -> list[tuple[bool, str]]:
    """The texts of a line that contain a term, and whether each is structure, such as an id. Structure comes last, else
    texts with most terms come first, then the longest."""
    value = decode(line)
    texts = _texts(value, "", _NESTED) if isinstance(value, dict) else [("", clean(line.decode("utf-8", "replace")))]
    found = [(key in _STRUCTURE, met, text) for key, text in texts if (met := sum(bool(t.search(text)) for t in terms))]
    found.sort(key=lambda one: (one[0], -one[1], -len(one[2])))
    return [(is_structure, text) for is_structure, _, text in found]


def _texts(value: Any, key: str, nested: int) -> Iterator[tuple[str, str]]:
    """Every text of a decoded line with its key; JSON inside a text is parsed, too."""
    if isinstance(value, str):
        inner = _decoded(value) if nested else None
        if inner is None:
            yield key, clean(value)
        else:
            yield from _texts(inner, key, nested - 1)
            yield _WHOLE, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _texts(item, name, nested)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, key, nested)


def _decoded(text: str) -> Any:
    if text[:1] not in ("{", "["):
        return None
    try:
        inner = orjson.loads(text)
    except ValueError:
        return None
    return inner if isinstance(inner, dict | list) else None
