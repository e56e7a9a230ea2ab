"""Texts of errors without what varies, so that errors of one kind have the same text. Pure."""

from __future__ import annotations

import re

SAMPLE_CHARS = 120


_VARYING = re.compile(
    r"\[redacted:[a-z0-9_]+:?[a-z2-7]*\]?|0x[0-9a-f]+|\b[0-9a-f]{7,}\b|\d+|(?:/[\w.@+-]+)+|\"[^\"]*\"|'[^']*'"
)


def fingerprint(text: str) -> str:
    """The error without what varies from run to run."""
    return " ".join(_VARYING.sub("#", text.lower()).split())[:SAMPLE_CHARS]
