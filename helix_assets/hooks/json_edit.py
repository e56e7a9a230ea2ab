"""Editing a person's JSON file in place: all that is not edited keeps its bytes, comments and order.

Belongs here: finding a value's position in the text, adding a member or an item, removing one. Line and block comments
are allowed, nothing else that is not JSON. Not here: what is edited and why (`hooks.install`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

_STRING_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_REMARK = re.compile(r"[ \t]*(?:/\*.*?\*/[ \t]*)*(?://[^\r\n]*)?(?=\r?\n|$)", re.DOTALL)
_SPACE = re.compile(r"\s*")
_DECODER = json.JSONDecoder()

Path = tuple[str | int, ...]
"""Keys and indexes that lead from the whole document to a value."""


class _Part(NamedTuple):
    """A member or an item: from `start`, the position of its key if it has one, to `end`. Its value is at `value`."""

    name: str | int
    start: int
    value: int
    end: int


def parse(text: str) -> Any:
    """The document; ValueError names line and column of what is not JSON."""
    try:
        return json.loads(_plain(text)) if text.strip() else {}
    except RecursionError as exc:
        raise ValueError("nested too deeply") from exc


def has_comment(text: str, path: Path) -> bool:
    """Whether the value at `path` contains a comment."""
    plain = _plain(text)
    start, end = _find(plain, path)
    return plain[start:end] != text[start:end]


def add(text: str, path: Path, name: str | None, value: Any) -> str:
    """The text with a member of that name, or an item, added at the end of the container at `path`."""
    if not text.strip():
        text = "{}\n"
    plain = _plain(text)
    start, end = _find(plain, path)
    parts = list(_parts(plain, start))
    step = _indent_of(plain)
    outer = _margin(text, start)
    inner = outer + step
    body = json.dumps(value, indent=step, ensure_ascii=False).replace("\n", "\n" + inner)
    part = body if name is None else f"{json.dumps(name, ensure_ascii=False)}: {body}"
    line = "\r\n" if "\r\n" in plain else "\n"
    added = f"\n{inner}{part}".replace("\n", line)
    if parts:
        last = parts[-1].end
        remark = last + len(_remark(text, last))
        return f"{text[:last]},{text[last:remark]}{added}{text[remark:]}"
    return f"{text[: end - 1].rstrip()}{added}{line}{outer}{text[end - 1 :]}"


def remove(text: str, path: Path) -> str:
    """The text without the member or item at `path` and its comma. Comments stay."""
    plain = _plain(text)
    start, end = _find(plain, path[:-1])
    parts = list(_parts(plain, start))
    place = max(number for number, part in enumerate(parts) if part.name == path[-1])
    part = parts[place]
    if place + 1 < len(parts):
        comma, following = plain.index(",", part.end), parts[place + 1].start
        between = text[part.end : comma] + text[comma + 1 : following]
        return text[: part.start] + between.lstrip() + text[following:]
    if not place:
        kept = text[start + 1 : part.start].rstrip() + text[part.end : end - 1].rstrip()
        # A remaining comment ends its line.
        return text[: start + 1] + kept + (f"\n{_margin(text, start)}" if kept else "") + text[end - 1 :]
    before = parts[place - 1].end
    comma = plain.index(",", before)
    kept, after = (text[before:comma] + text[comma + 1 : part.start]).rstrip(), text[part.end :]
    ends_line = not kept or after.lstrip(" \t\r").startswith("\n")
    return text[:before] + kept + ("" if ends_line else f"\n{_margin(text, start)}") + after


def _remark(text: str, at: int) -> str:
    """The comments after a value up to the end of its line; empty if the line contains anything else."""
    found = _REMARK.match(text, at)
    return found[0] if found else ""


def _plain(text: str) -> str:
    """The text with blanks instead of comments, so that every position stays the same."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])

    return _STRING_OR_COMMENT.sub(blank, text)


def _find(plain: str, path: Path) -> tuple[int, int]:
    """Where the value at `path` begins and ends."""
    start = _skip(plain, 0)
    end = _DECODER.raw_decode(plain, start)[1]
    for name in path:
        *_, part = (part for part in _parts(plain, start) if part.name == name)  # the last of several counts
        start, end = part.value, part.end
    return start, end


def _parts(plain: str, start: int) -> Iterator[_Part]:
    """The members of the object, or the items of the list, that begins at `start`."""
    is_object = plain[start] == "{"
    at, number = _skip(plain, start + 1), 0
    while plain[at] not in "}]":
        first, name = at, number
        if is_object:
            key, at = _DECODER.raw_decode(plain, at)
            name = key
            at = _skip(plain, _skip(plain, at) + 1)  # past the colon
        value = at
        _, at = _DECODER.raw_decode(plain, at)
        yield _Part(name, first, value, at)
        at, number = _skip(plain, at), number + 1
        if plain[at] == ",":
            at = _skip(plain, at + 1)


def _skip(plain: str, at: int) -> int:
    found = _SPACE.match(plain, at)
    return found.end() if found else at


def _indent_of(plain: str) -> str:
    """The first indentation in the text, or two blanks."""
    found = re.search(r"\n([ \t]+)\S", plain)
    return found[1] if found else "  "


def _margin(text: str, at: int) -> str:
    """The indentation of the line with this position."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]
