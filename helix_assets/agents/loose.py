"""Reading decoded JSON whose types are not guaranteed: wrong ones become empty, never an error.

Belongs here: reading a value as text, as an object or as an id, for several adapters. Not here: any format.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import orjson

from helix_assets.agents.spec import JsonObject

_NAME = re.compile(r"[\w.:/|@+-]{1,200}\Z")


def as_object(value: Any) -> JsonObject:
    """The value if it is an object, else an empty one."""
    return value if type(value) is dict else {}


def as_text(value: Any) -> str:
    """The value if it is text, else an empty text."""
    return value if type(value) is str else ""


def as_count(value: Any) -> int | None:
    """The value if it is a whole number, else None, also for true and false."""
    return value if type(value) is int and abs(value) < 1 << 53 else None


def as_name(value: Any) -> str | None:
    """The value if it has the form of an id or a tool's name, else None, such as for a blanked value."""
    return value if type(value) is str and _NAME.match(value) else None


def texts_of(content: Any, deep: int = 4) -> str:
    """All text of a message: plain, one block, or a list of blocks; text nested deeper than `deep` is ignored."""
    if type(content) is str:
        return content
    if type(content) is dict and deep:
        return texts_of(content.get("text") or content.get("content"), deep - 1)
    if type(content) is list and deep:
        parts = [texts_of(block, deep - 1) for block in content]
        return "\n".join(part for part in parts if part)
    return ""


def packed(values: JsonObject) -> str | None:
    """The values that are not None as the JSON text of an event's `detail`, None if there are none."""
    kept = {k: v for k, v in values.items() if v is not None}
    return dumped(kept).decode() if kept else None


def dumped(value: Any) -> bytes:
    """The value as JSON; what orjson refuses (a lone surrogate, deep nesting) as its Python text."""
    try:
        return orjson.dumps(value)
    except TypeError:
        pass
    try:
        return orjson.dumps(ascii(value))
    except RecursionError:
        return b'"(nested too deeply)"'


def input_hash(hash64: Callable[[bytes], int], tool: str | None, arguments: Any) -> int:
    """A hash that distinguishes calls of one tool without keeping their input."""
    return hash64(dumped([tool, arguments]))


def minted_us(value: Any) -> int | None:
    """When a version 7 UUID was created, in microseconds since 1970; None for any other value."""
    if type(value) is not str or len(value) != 36 or value[14] != "7":
        return None
    try:
        return (UUID(value).int >> 80) * 1000
    except ValueError:
        return None


def line_count(text: str) -> int:
    """The number of lines as in an editor: only a line feed ends a line, and the last one may lack it."""
    return text.count("\n") + (bool(text) and not text.endswith("\n"))
