"""Reading helix.toml so that an error message can name the line.

tomllib reports no positions, so a second, simple pass over the text notes the line of each key. Not here: what the keys
mean.
"""

import re
import tomllib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from helix_assets.model.errors import SettingsError

_HEADER = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?")
_ASSIGNMENT = re.compile(r"\s*([^#=\[\]]+?)\s*=")
_POSITION = re.compile(r" \(at line (\d+), column \d+\)$")

KeyPath = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TomlFile:
    """A parsed file and the line on which each key was first seen."""

    path: Path
    values: dict[str, object]
    lines: dict[KeyPath, int]

    def where(self, key: KeyPath) -> str:
        """`file:line` of a key: its own line, else its first key's, else that of the table that contains it."""
        own = [line for other, line in self.lines.items() if other[: len(key)] == key]
        around = [self.lines[key[:length]] for length in range(1, len(key)) if key[:length] in self.lines]
        if own or around:
            return f"{self.path}:{min(own) if own else around[-1]}"
        return str(self.path)


def read_toml(path: Path) -> TomlFile:
    """Read and parse one file; a SettingsError names the line of a syntax error."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as exc:
        raise SettingsError(f"{path}: there is no such file") from exc
    except (OSError, UnicodeDecodeError) as exc:
        raise SettingsError(f"{path}: cannot be read: {exc}") from exc
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise SettingsError(_syntax_error(path, str(exc))) from exc
    return TomlFile(path, values, _key_lines(text))


def _syntax_error(path: Path, message: str) -> str:
    found = _POSITION.search(message)
    if found is None:
        return f"{path}: {message}"
    return f"{path}:{found[1]}: {message[: found.start()]}"


def _key_lines(text: str) -> dict[KeyPath, int]:
    """The line of each key; in a list of tables, written `[[name]]`, they are numbered: `name`, `0`, key."""
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    tables: Counter[KeyPath] = Counter()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.fullmatch(line):
            table = _key_path(header[1])
            lines.setdefault(table, number)
            if line.lstrip().startswith("[["):
                tables[table] += 1
                table = (*table, str(tables[table] - 1))
                lines[table] = number
        elif assignment := _ASSIGNMENT.match(line):
            lines.setdefault(table + _key_path(assignment[1]), number)
    return lines


def _key_path(text: str) -> KeyPath:
    """The parts of a dotted key; empty for text that only looks like one, as inside a multi-line array."""
    try:
        value: object = tomllib.loads(f"{text} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    parts: list[str] = []
    while isinstance(value, dict):
        key, value = next(iter(value.items()))
        parts.append(key)
    return tuple(parts)
