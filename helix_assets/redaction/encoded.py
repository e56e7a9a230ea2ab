"""Names of files and folders that spell another text: an agent may name a folder by a path, percent-encoded.

Belongs here: having the redaction rules read such a name as it is and as it reads decoded, alone or in what a reader
is about to show. Not here: the rules (`redaction`), or whose names these are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from typing import Any
from urllib.parse import quote, unquote

from helix_assets.redaction.redactor import Redactor

_MOST_PASSES = 4


def name_again(redactor: Redactor, path: str) -> str:
    """A path, or a part of one, by the rules in force; a name that spells a secret is written decoded, without it."""
    clean = redactor.text(path).text
    return "/".join(_part_again(redactor, part) for part in clean.split("/")) if "%" in clean else clean


def shown_by(redactor: Redactor, data: Any) -> Any:
    """Data without structure of its own, such as for JSON, with each text by the rules in force."""
    if isinstance(data, str):
        return name_again(redactor, data)
    if is_dataclass(data) and not isinstance(data, type):
        data = asdict(data)
    if isinstance(data, dict):
        return {shown_by(redactor, key): shown_by(redactor, value) for key, value in data.items()}
    return [shown_by(redactor, item) for item in data] if isinstance(data, list | tuple | set | frozenset) else data


def spelled(name: str) -> Iterator[str]:
    """What a name spells if it is decoded once, twice and so on, as long as that changes it."""
    while (told := unquote(name)) != name:
        yield told
        name = told


def _part_again(redactor: Redactor, part: str) -> str:
    """One name. Any layer may bring a secret to light, so what is left of a name is decoded again."""
    for _ in range(_MOST_PASSES):
        found = next((clean.text for told in spelled(part) if (clean := redactor.text(told)).hits), None)
        if found is None:
            break
        part = "".join(map(_plain, found))
    return part


def _plain(char: str) -> str:
    """A character as it may stand in a name and on a line, and decodes to itself."""
    return char if char.isprintable() and char not in "%/" else quote(char, safe="")
