"""What names and ids are worth: paths as text, ids that mean the same everywhere."""

from __future__ import annotations


def utf8_name(path: str) -> str:
    """A path or a part of one as valid UTF-8 text; bytes that are none are spelled \\xNN."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


WORLDWIDE_CHARS = 16
"""Ids of this length and more mean the same thing in every session; a shorter one, such as u1, only in its own."""


def is_worldwide(native_id: str | None) -> bool:
    """Whether an id may tell that a record of another session is the same one."""
    return native_id is not None and len(native_id) >= WORLDWIDE_CHARS
