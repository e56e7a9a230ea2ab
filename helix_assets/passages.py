"""The passages of one row group that hold a term: lines found by their bytes, then looked at value by value.

Belongs here: reading a row group for a search, and which text of a line is shown. Not here: which row groups are read
(`search`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

import helix_assets.storage.arrow  # noqa: F401 - makes pyarrow do without pandas
from helix_assets.adapters.jsonl import decode
from helix_assets.core.errors import StoreError
from helix_assets.core.query import Term, clean
from helix_assets.core.redaction import Redactor
from helix_assets.core.redaction.again import text_again
from helix_assets.storage.parquet import joined, text_column

ENOUGH = 3
MOST = 12
"""So many lines with a term are looked at in a row group, those of structure counted: a few of them are shown."""
_COLUMNS = ["seq", "ts_us", "kind", "role", "tool", "record_key"]
_SOURCES = {"raw": "record", "summary": "event"}
_NESTED = 4
_WHOLE = "(JSON within JSON, as it is written)"
_STRUCTURE = frozenset({
    _WHOLE,
    "agentId", "call_id", "cwd", "cwd_path", "gitBranch", "id", "leafUuid", "level", "media_type", "messageId", "model",
    "name", "parentUuid", "parent_tool_use_id", "promptId", "requestId", "role", "sessionId", "session_id", "signature",
    "slug", "stop_reason", "subtype", "timestamp", "toolUseID", "tool_use_id", "type", "userType", "uuid", "version",
})  # fmt: skip


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
    try:
        with pa.OSFile(str(path)) as source, pq.ParquetFile(source) as file:
            table = file.read_row_group(group, [*_COLUMNS, "summary", "raw"], use_threads=False)
    except (OSError, IndexError, pa.ArrowInvalid) as exc:
        raise StoreError(f"{path.name} is missing or damaged: run `helix verify`") from exc
    column = text_column(table)
    text, starts = joined(table[column])
    rows = _rows_of_lines(table, column)
    lower = text.lower()
    told: dict[int, tuple[bool, Passage] | None] = {}
    for term in terms:
        good = some = 0
        for place in _lines_with(lower, starts, _needles(term)):
            if place not in told:
                line = text[starts[place] : starts[place + 1]]
                line = line if redactor is None else _again(redactor, line, column)
                told[place] = _passage(_SOURCES[column], line, rows[place], terms, is_wanted)
            if (one := told[place]) and term.search(one[1].text):
                good, some = good + (not one[0]), some + 1
                if good == ENOUGH or some == MOST:
                    break
    found = sorted((one for one in told.values() if one), key=lambda one: (one[0], one[1].kind is None))
    return [passage for _, passage in found]


def _passage(
    source: str,
    line: bytes,
    rows: Sequence[tuple[Any, ...]],
    terms: Sequence[Term],
    is_wanted: Callable[[str | None, str | None], bool],
) -> tuple[bool, Passage] | None:
    """What a line tells of the terms, by its first event that is wanted, and whether that is structure."""
    row = next((row for row in rows if row[2] is not None and is_wanted(row[2], row[3])), None)
    if row is None and is_wanted(None, None):
        row = rows[0]
    best = _best(line, terms) if row is not None else None
    if row is None or best is None:
        return None
    seq, ts_us, kind, role, tool, key = row
    return best[0], Passage(source, seq if seq >= 0 else None, kind, role, tool, ts_us, key, best[1])


def _again(redactor: Redactor, line: bytes, column: str) -> bytes:
    if column == "raw":
        return redactor.lines(line).data
    return text_again(redactor, line.decode()).encode()


def _rows_of_lines(table: pa.Table, column: str) -> list[list[tuple[Any, ...]]]:
    """The rows of each line, without their text."""
    columns = [table[name].to_pylist() for name in _COLUMNS]
    has_line = table[column].is_valid().to_pylist()
    lines: list[list[tuple[Any, ...]]] = []
    for row, is_first in zip(zip(*columns, strict=True), has_line, strict=True):
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


def _best(line: bytes, terms: Sequence[Term]) -> tuple[bool, str] | None:
    """The text of a line that holds most terms, the longest of such; structural values such as ids come last."""
    value = decode(line)
    texts = _texts(value, "", _NESTED) if isinstance(value, dict) else [("", clean(line.decode("utf-8", "replace")))]
    best: tuple[tuple[bool, int, int], str] | None = None
    for key, text in texts:
        met = sum(term.search(text) is not None for term in terms)
        if met:
            rank = (key not in _STRUCTURE, met, len(text))
            if best is None or rank > best[0]:
                best = rank, text
    return None if best is None else (not best[0][0], best[1])


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
