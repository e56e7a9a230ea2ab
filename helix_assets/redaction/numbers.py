"""Bytes that a log writes as an array of numbers: some agents' output of commands, Node's buffers.

Belongs here: reading such arrays as text, and writing the redacted text back as numbers. The caller decides what is a
secret in it.
"""

import re
from collections.abc import Callable

import orjson

# As in a record, and as in JSON inside one. Written out, because the engine looks for words first.
_FIELDS = tuple(
    f"{name}{quote}:{space}["
    for quote in ('"', r"\"")
    for space in ("", " ")
    for name in ("output", "_delta", f"Buffer{quote},{space}{quote}data")
)
TRIGGERS = tuple(rf"{re.escape(field)}\d" for field in _FIELDS)
_BEGINNINGS = tuple(field.encode() for field in _FIELDS)
_ARRAY = re.compile(rf"({'|'.join(map(re.escape, _FIELDS))})([0-9, ]+)(?=\])".encode())


def redacted_arrays(raw: bytes, redacted: Callable[[bytes], tuple[bytes, int]]) -> tuple[bytes, int]:
    """Redact the text in the arrays of a line. Returns the line and how many secrets they had."""
    hits = 0

    def again(array: re.Match[bytes]) -> bytes:
        nonlocal hits
        try:
            plain = bytes(orjson.loads(b"[%s]" % array.group(2)))
        except ValueError:  # not bytes, or not an array
            return array.group()
        text, found = redacted(plain)
        hits += found
        return array.group(1) + b",".join(b"%d" % byte for byte in text) if found else array.group()

    if not any(beginning in raw for beginning in _BEGINNINGS):
        return raw, 0
    return _ARRAY.sub(again, raw), hits
