"""Names of files and folders that encode another text: an agent may name a folder by a percent-encoded path.

Belongs here: redacting such a name both as it is and decoded, alone or in data that a reader is about to show.
Not here: the rules (`redaction.rules`), or whose names these are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, is_dataclass
from typing import Any
from urllib.parse import quote, unquote

from helix_assets.redaction.redactor import Redactor, Texts

_MOST_PASSES = 4


def name_again(redactor: Texts, path: str) -> str:
    """Redact a path or a part of one by the rules in force. A name that encodes a secret is decoded, without it."""
    clean = redactor.text(path).text
    return "/".join(_part_again(redactor, part) for part in clean.split("/")) if "%" in clean else clean


def shown_by(redactor: Redactor, data: Any) -> Any:
    """Plain data, such as for JSON, with each text redacted by the rules in force."""
    if isinstance(data, str):
        return name_again(redactor, data)
    if is_dataclass(data) and not isinstance(data, type):
        data = asdict(data)
    if isinstance(data, dict):
        return {shown_by(redactor, key): shown_by(redactor, value) for key, value in data.items()}
    return [shown_by(redactor, item) for item in data] if isinstance(data, list | tuple | set | frozenset) else data


def spelled(name: str) -> Iterator[str]:
    """A name decoded once, twice and so on, as long as that changes it."""
    while (decoded := unquote(name)) != name:
        yield decoded
        name = decoded


def _part_again(redactor: Texts, part: str) -> str:
    """Redact one name. Any layer may contain a secret, so the rest of the name is decoded again."""
    for _ in range(_MOST_PASSES):
        found = next((clean.text for decoded in spelled(part) if (clean := redactor.text(decoded)).hits), None)
        if found is None:
            break
        part = "".join(map(_plain, found))
    return part


def _plain(char: str) -> str:
    """A character in a form that may be part of a name and of a line, and that decodes to itself."""
    return char if char.isprintable() and char not in "%/" else quote(char, safe="")
