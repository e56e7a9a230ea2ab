"""Redacting once more what was stored by older rules, where the source line is not at hand: digests, facts, events.

Belongs here: text by text, so that numbers and shapes stay as they are. Source lines themselves go through
`Redactor.lines`.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from helix_assets.core.redaction.redactor import Redactor
from helix_assets.core.schema import Row

_CUT = "…"
_EDGE = re.compile(r"[ /\\]")
_TEXTS = ("role", "tool", "summary", "status", "agent_id", "call_id", "message_id", "model", "file_path",
          "native_type", "record_id", "parent_id")  # fmt: skip


def text_again(redactor: Redactor, text: str) -> str:
    """The text by the rules in force. A word that a cut has torn goes: it may be a part of a secret."""
    if text.startswith(_CUT) and (edge := _EDGE.search(text)):
        text = _CUT + text[edge.start() :]
    if text.endswith(_CUT) and not text.endswith(" " + _CUT):
        kept = text.rpartition(" ")[0]
        text = f"{kept} {_CUT}" if kept else _CUT
    return redactor.text(text).text


def value_again(redactor: Redactor, value: Any) -> Any:
    """A decoded JSON value with each of its texts, keys too, by the rules in force."""
    if isinstance(value, str):
        return text_again(redactor, value)
    if isinstance(value, dict):
        return {text_again(redactor, key): value_again(redactor, item) for key, item in value.items()}
    if isinstance(value, list):
        return [value_again(redactor, item) for item in value]
    return value


def json_again(redactor: Redactor, text: str) -> str:
    """JSON text with each of its texts by the rules in force."""
    return orjson.dumps(value_again(redactor, orjson.loads(text))).decode()


def row_again(redactor: Redactor, row: Row) -> Row:
    """A stored row as it would read by the rules in force, as far as its own texts tell."""
    texts: dict[str, Any] = {name: text_again(redactor, text) for name in _TEXTS if (text := getattr(row, name))}
    detail = json_again(redactor, row.detail) if row.detail else row.detail
    raw = redactor.lines(row.raw).data if row.raw else row.raw
    return row._replace(**texts, detail=detail, raw=raw)
