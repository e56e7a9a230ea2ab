"""Redacting again what older rules redacted, if the source line is not available: digests, facts, events.

Belongs here: redacting text by text, so that numbers and shapes stay as they are. Not here: source lines themselves
(`Redactor.lines`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

import orjson

from helix_assets.model.event import ROW_FIELDS, Pieces, Row, shorten
from helix_assets.model.fields import JSON, LINES, TEXT
from helix_assets.model.fingerprint import SAMPLE_CHARS, fingerprint
from helix_assets.redaction.encoded import name_again
from helix_assets.redaction.joined import Joiner
from helix_assets.redaction.redactor import Redactor, Texts

OUR_WORDS = frozenset({"flavor", "outcome", "outcome_reason", "outcome_confidence", "started_at", "ended_at", "last",
                       "price_table", "discovered_at", "kind_counts", "markers", "by_framework", "error_class", "name",
                       "evidence", "facts"})  # fmt: skip
"""Fields of digests and of a session's facts that contain nothing from a log."""
NAMED_BY_LOGS = frozenset({"tool_histogram", "unknown_types"})
"""Those whose keys are names from a log; all other keys are names of fields."""
_CUT = "…"
_EDGE = re.compile(r"[ /\\]")
_REMEMBERED = 1 << 16


class Remembering:
    """The rules for a walk over many texts, of which most occur again and again."""

    def __init__(self, redactor: Redactor) -> None:
        self.text = lru_cache(_REMEMBERED)(redactor.text)


def text_again(redactor: Texts, text: str) -> str:
    """Redact a text by the rules in force. A word that was cut off is dropped: it may be a part of a secret."""
    if text.startswith(_CUT) and (edge := _EDGE.search(text)):
        text = _CUT + text[edge.start() :]
    if text.endswith(_CUT) and not text.endswith(" " + _CUT):
        kept = text.rpartition(" ")[0]
        text = f"{kept} {_CUT}" if kept else _CUT
    return redactor.text(text).text


def value_again(redactor: Texts, value: Any) -> Any:
    """Redact each text of a decoded JSON value, keys too, by the rules in force."""
    if isinstance(value, str):
        return text_again(redactor, value)
    if isinstance(value, dict):
        return {text_again(redactor, key): value_again(redactor, item) for key, item in value.items()}
    if isinstance(value, list):
        return [value_again(redactor, item) for item in value]
    return value


def fields_again(redactor: Texts, value: Any) -> Any:
    """Redact the texts of a digest or of a session's facts. Names of fields and words of our own stay as they are."""
    if isinstance(value, dict):
        return {key: _field_again(redactor, key, item) for key, item in value.items()}
    if isinstance(value, list):
        return [fields_again(redactor, item) for item in value]
    return value_again(redactor, value)


def _field_again(redactor: Texts, name: str, value: Any) -> Any:
    if name in OUR_WORDS:
        return value
    if name == "source_path" and value:
        return name_again(redactor, value)
    return value_again(redactor, value) if name in NAMED_BY_LOGS else fields_again(redactor, value)


def json_again(redactor: Texts, text: str) -> str:
    """Redact a JSON value that is stored as text, by the rules in force."""
    return orjson.dumps(value_again(redactor, orjson.loads(text))).decode()


def digest_again(redactor: Texts, digest: dict[str, Any]) -> dict[str, Any]:
    """Redact a digest by the rules in force. Fingerprints of errors are derived from a text, so they are made again."""
    clean: dict[str, Any] = fields_again(redactor, digest)
    marks = {}
    for old, snippet in zip(digest["error_snippets"], clean["error_snippets"], strict=True):
        if snippet["sample"] != old["sample"]:
            snippet["fingerprint"] = fingerprint(snippet["sample"])
        marks[old["fingerprint"]] = snippet["fingerprint"]
    for old, signal in zip(digest.get("signals", ()), clean.get("signals", ()), strict=True):
        if old["name"] == "error":
            kind, _, body = old["sample"].removesuffix(_CUT).partition(": ")
            mark = next((new for before, new in marks.items() if before.startswith(body)), None)
            signal["sample"] = shorten(f"{kind}: {mark}", SAMPLE_CHARS) if mark else kind
    return clean


def rows_again(redactor: Redactor, rows: Iterable[Row], pieces: Pieces | None) -> Iterator[Row]:
    """Redact stored rows of a session by the rules in force; `pieces` says which rows belong to one message."""
    again = (row_again(redactor, row) for row in rows)
    if pieces is None:
        return again
    joiner = Joiner(redactor, pieces, lambda row, raw, _: row._replace(raw=raw), heals=True)
    return joined_rows(joiner, again)


def joined_rows(joiner: Joiner[Row], rows: Iterable[Row]) -> Iterator[Row]:
    """Stored rows; those with pieces of a message follow once the pieces were redacted together."""
    for row in rows:
        yield from joiner.take(row, row.file, row.native_type, _piece_of(joiner, row))
    yield from joiner.close()


def _piece_of(joiner: Joiner[Row], row: Row) -> dict[str, Any] | None:
    if not row.raw or not joiner.is_piece(row.native_type):
        return None
    try:
        obj = orjson.loads(row.raw)
    except orjson.JSONDecodeError:
        return None
    return obj if isinstance(obj, dict) else None


def row_again(redactor: Redactor, row: Row) -> Row:
    """Redact a stored row by the rules in force, as far as its own texts show secrets."""
    texts = {name: again(redactor, text) for name, again in _TEXTS if (text := getattr(row, name))}
    return row._replace(**texts)


_AGAIN: dict[str, Callable[[Redactor, Any], Any]] = {
    TEXT: text_again,
    JSON: json_again,
    LINES: lambda redactor, line: redactor.lines(line).data,
}
_TEXTS = [(field.name, _AGAIN[field.text]) for field in ROW_FIELDS if field.text]
