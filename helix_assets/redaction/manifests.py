"""Secrets of Kubernetes: the values of `data` and `stringData` of a manifest of the kind Secret, under any key.

Belongs here: which values of a manifest, YAML or JSON, are such. Not here: other places with passwords in manifests,
which are found as anywhere (`assignment.py`).
"""

import re
from collections import deque
from collections.abc import Iterator
from itertools import islice

from helix_assets.redaction.judge import is_placeholder, is_reference

TRIGGER = r"kind[\\\"']*:\s*[\\\"']*Secret(?:[^\w]|$)"
_KIND = re.compile(rb"\"kind\"\s{0,4}:\s{0,4}\"Secret\"|\bkind[\"']?:[ \t]{1,4}[\"']?Secret(?![\w.])")
# What listings and diffs put before a line, its own indentation, and the rest.
_ADDRESS = re.compile(rb"[a-z][a-z0-9+]{1,15}://[\w.-]+(?::[0-9]{1,5})?/?\Z")
_LINE = re.compile(
    rb"((?:[ \t]*[0-9]{1,6}(?:\xe2\x86\x92|[:\t|]))?(?:\+(?=[ \ta-z])|-(?=  |[a-z]))?)([ ]*)(-[ ]+)?([^\n]*)"
)
_DATA = re.compile(rb"[\"']?(?:data|stringData)[\"']?:[ \t]*(?:#[^\n]*)?\Z")
_PAIR = re.compile(rb"[\"']?[\w.~/ -]{1,253}[\"']?:[ \t]+")
_BLOCK = re.compile(rb"[|>][+-]?[0-9]?[ \t]*\Z")
_DOCUMENT = re.compile(rb"(?m)^[ \t0-9\xe2\x86\x92:|]{0,12}[+-]?---[ \t]*$")
_TOKEN = re.compile(rb"\"((?:[^\"\n])*)\"|[{}]")
_JSON_DATA = re.compile(rb"\"(?:data|stringData)\"\s{0,4}:\s{0,4}\{")
_JSON_PAIR = re.compile(rb"\s*,?\s*\"[\w.~/-]{1,253}\"\s{0,4}:\s{0,4}\"([^\"\n]*)\"")
_FAR = 65_536
# How many objects `data` on either side may be that of a Secret.
_NEAREST = 4
_QUOTE = ord('"')
_SHORTEST = 3
# Base64 of BEGIN CERTIFICATE and BEGIN PUBLIC.
_PUBLIC = re.compile(rb"LS0tLS1CRUdJTiBD|LS0tLS1CRUdJTiBQVUJ|-----BEGIN (?:CERT|PUBLIC)")


def manifest_secrets(view: bytes) -> Iterator[tuple[int, int]]:
    """Yield the spans of the values of all Secrets in a text."""
    kinds = list(_KIND.finditer(view))
    ends = [0, *(kind.end() for kind in kinds)]
    starts = [*(kind.start() for kind in kinds), len(view)]
    for which, at in enumerate(starts[:-1]):
        within = max(ends[which], at - _FAR), min(starts[which + 1], at + _FAR)
        yield from (_in_json if view[at] == _QUOTE else _in_yaml)(view, at, *within)


def _in_yaml(view: bytes, at: int, lowest: int, highest: int) -> Iterator[tuple[int, int]]:
    """The values below the keys `data` that have the indentation of this `kind`, in the same document."""
    start = max((found.end() for found in _DOCUMENT.finditer(view, lowest, at)), default=lowest)
    end = next((found.start() for found in _DOCUMENT.finditer(view, at, highest)), highest)
    kind_line = _LINE.match(view, view.rfind(b"\n", 0, at) + 1)
    own = _depth(kind_line)
    below = block = None
    values: list[tuple[int, int]] = []
    for line in _LINE.finditer(view, start, end):
        text = line.group(4)
        if not text.strip():
            continue
        depth = _depth(line)
        if depth < own or (depth == own and line.group(3)):  # another object of a list
            if line.start() > at:
                break
            values, below = [], None
        if below is not None and depth <= own:
            below = block = None
        if below is None:
            below = depth if depth == own and _DATA.match(text) else None
        elif block is not None and depth > block:
            values += _judged(view, line.start(4), line.end(4))
        elif pair := _PAIR.match(text):
            block = depth if _BLOCK.match(text, pair.end()) else None
            if block is None:
                values += _judged(view, line.start(4) + pair.end(), line.end(4))
    yield from values


def _depth(line: re.Match[bytes] | None) -> int:
    """The indentation of a line; that of the text behind the hyphen of a list."""
    return len(line.group(2)) + len(line.group(3) or b"") if line else 0


def _in_json(view: bytes, at: int, lowest: int, highest: int) -> Iterator[tuple[int, int]]:
    """The values of the objects `data` next to this `kind`."""
    before = deque(_JSON_DATA.finditer(view, lowest, at), maxlen=_NEAREST)
    for data in (*before, *islice(_JSON_DATA.finditer(view, at, highest), _NEAREST)):
        is_before = data.start() < at
        between = view[data.end() : at] if is_before else view[at : data.start()]
        if not _is_one_object(between, -1 if is_before else 0):
            continue
        place = data.end()
        while pair := _JSON_PAIR.match(view, place, highest):
            yield from _judged(view, *pair.span(1))
            place = pair.end()


def _is_one_object(text: bytes, level: int) -> bool:
    """Whether a text ends this many braces deep, and is nowhere less deep."""
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += (token.group() == b"{") - (token.group() == b"}")
        if depth < level:
            return False
    return depth == level


def _judged(view: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    text = view[start:end].split(b" #", 1)[0]
    bare = text.strip(b" \t\r\"',")
    start += text.find(bare)
    if len(bare) < _SHORTEST or _PUBLIC.match(bare) or _ADDRESS.match(bare) or bare in (b"null", b"{}"):
        return
    if not is_placeholder(bare) and not (is_reference(bare) and bare[:1] in b"$%{"):
        yield start, start + len(bare)
