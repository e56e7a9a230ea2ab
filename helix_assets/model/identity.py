"""Names and ids: paths as text, and which ids mean the same in every session."""

from __future__ import annotations


def utf8_name(path: str) -> str:
    """A path or a part of one as valid UTF-8 text; other bytes are written as \\xNN."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


WORLDWIDE_CHARS = 16
"""Ids of at least this length mean the same in every session; a shorter one, such as u1, only in its own."""


def is_worldwide(native_id: str | None) -> bool:
    """Whether records of two sessions that have this id are the same record."""
    return native_id is not None and len(native_id) >= WORLDWIDE_CHARS
