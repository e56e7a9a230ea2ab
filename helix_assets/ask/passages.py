"""The passages of one row group that hold a term: lines found by their bytes, then looked at value by value.

Belongs here: reading a row group for a search, and which text of a line is shown. Not here: which row groups are read
(`ask.search`).
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
from helix_assets.agents import all_pieces, pieces_of
from helix_assets.agents.jsonl import decode
from helix_assets.ask.query import Term, clean
from helix_assets.model.errors import StoreError
from helix_assets.model.event import ROW_FIELDS
from helix_assets.redaction import Redactor
from helix_assets.redaction.again import line_again, text_again
from helix_assets.store.parquet import joined, text_column

ENOUGH = 3
MOST = 12
"""So many lines with a term are looked at in a row group, those of structure counted: a few of them are shown."""
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


class _Told(NamedTuple):
    """A row of a line without its texts; `place` is where in the row group it is."""

    place: int
    seq: int
    ts_us: int | None
    kind: str | None
    role: str | None
    tool: str | None
    record_key: int


class Passage(NamedTuple):
    """One text of a stored line that holds a term, and the event that the line tells.

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


_TEXTS = [field.name for field in ROW_FIELDS if field.is_text and field.name in Passage._fields]


def passages_of(
    path: Path,
    group: int,
    terms: Sequence[Term],
    is_wanted: Callable[[str | None, str | None], bool],
    redactor: Redactor | None,
) -> list[Passage]:
    """Passages with any of the terms, enough of each; events' plain texts first, ids and the like last.

    `is_wanted` tells by kind and role whether an event is looked for, `redactor` has the rules in force where the file
    was written by others.
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
    told: dict[int, tuple[bool, Passage] | None] = {}

    def tellers(place: int, said: str | None) -> Sequence[_Told]:
        told_by = list(map(_Told._make, rows[place]))
        return _tellers(table, told_by, said, said_by) if column == "raw" else told_by

    for term in terms:
        good = some = 0
        for place in _lines_with(lower, starts, _needles(term)):
            if place not in told:
                line = text[starts[place] : starts[place + 1]]
                line = line if redactor is None else _again(redactor, line, column)
                told[place] = _passage(_SOURCES[column], line, partial(tellers, place), terms, is_wanted)
            if (one := told[place]) and term.search(one[1].text):
                good, some = good + (not one[0]), some + 1
                if good == ENOUGH or some == MOST:
                    break
    found = sorted((one for one in told.values() if one), key=lambda one: (one[0], one[1].kind is None))
    return [passage if redactor is None else _named_again(redactor, passage) for _, passage in found]


def _named_again(redactor: Redactor, passage: Passage) -> Passage:
    """The passage with what its event is called by the rules in force; its text is already."""
    texts: dict[str, Any] = {name: text_again(redactor, text) for name in _TEXTS if (text := getattr(passage, name))}
    return passage._replace(**texts)


def _passage(
    source: str,
    line: bytes,
    tellers: Callable[[str | None], Sequence[_Told]],
    terms: Sequence[Term],
    is_wanted: Callable[[str | None, str | None], bool],
) -> tuple[bool, Passage] | None:
    """The best text of a line whose event is wanted, by the first such event, and whether it is structure."""
    if _wanted(tellers(None), is_wanted) is None:
        return None
    for is_structure, text in _texts_with(line, terms):
        if row := _wanted(tellers(text), is_wanted):
            seq = row.seq if row.seq >= 0 else None
            return is_structure, Passage(source, seq, row.kind, row.role, row.tool, row.ts_us, row.record_key, text)
    return None


def _wanted(rows: Sequence[_Told], is_wanted: Callable[[str | None, str | None], bool]) -> _Told | None:
    row = next((row for row in rows if row.kind is not None and is_wanted(row.kind, row.role)), None)
    return rows[0] if row is None and is_wanted(None, None) else row


def _tellers(table: pa.Table, rows: Sequence[_Told], said: str | None, said_by: _SaidBy | None) -> Sequence[_Told]:
    """The rows of a line that may tell a text of it; of all its texts where none is given.

    A line can hold several messages and calls, and the event of one that came in pieces stands with a later line.
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


def _begins(table: pa.Table, row: _Told, line: str) -> bool:
    """Whether a text is the message of a row, by how its summary begins; a long one may have a tag before it."""
    begin = (table["summary"][row.place].as_py() or "").removesuffix("…")[:_BEGINNING]
    return bool(begin) and (line.startswith(begin) or (len(begin) == _BEGINNING and begin in line))


def _again(redactor: Redactor, line: bytes, column: str) -> bytes:
    if column == "raw":
        return line_again(redactor, line, all_pieces())
    return text_again(redactor, line.decode()).encode()


def _rows_of_lines(table: pa.Table, column: str) -> list[list[tuple[Any, ...]]]:
    """The rows of each line, without their text, as `_Told` has them."""
    columns = [table[name].to_pylist() for name in _COLUMNS]
    has_line = table[column].is_valid().to_pylist()
    lines: list[list[tuple[Any, ...]]] = []
    for row, is_first in zip(zip(range(table.num_rows), *columns, strict=True), has_line, strict=True):
        if is_first:
            lines.append([])
        if lines:  # else the rest of a line that began in the row group before
            lines[-1].append(row)
    return lines


def _lines_with(lower: bytes, starts: Sequence[int], needles: Sequence[bytes]) -> Iterator[int]:
    """Lines whose bytes hold one of these, but for names of JSON's values and true, false and null."""
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
    r"""What the bytes of a line hold if it holds the term; letters beyond ASCII may be written as \uXXXX."""
    word = term.longest
    if word.isascii():
        return [word.lower().encode()]
    return [one.encode().lower() for one in (word, word.lower(), word.upper(), word.capitalize())] + [b"\\u"]


def _texts_with(line: bytes, terms: Sequence[Term]) -> list[tuple[bool, str]]:
    """The texts of a line that hold a term and whether each is structure, such as an id: such come last, else those
    with most terms first, the longest of such."""
    value = decode(line)
    texts = _texts(value, "", _NESTED) if isinstance(value, dict) else [("", clean(line.decode("utf-8", "replace")))]
    found = [(key in _STRUCTURE, met, text) for key, text in texts if (met := sum(bool(t.search(text)) for t in terms))]
    found.sort(key=lambda one: (one[0], -one[1], -len(one[2])))
    return [(is_structure, text) for is_structure, _, text in found]


def _texts(value: Any, key: str, nested: int) -> Iterator[tuple[str, str]]:
    """Every text of a decoded line with the name it goes by; JSON inside of a text is taken apart."""
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
