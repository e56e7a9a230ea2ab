"""Texts of errors with all that varies taken out, so that two of one kind are known as such. Pure."""

from __future__ import annotations

import re

SAMPLE_CHARS = 120


_VARYING = re.compile(
    r"\[redacted:[a-z0-9_]+:?[a-z2-7]*\]?|0x[0-9a-f]+|\b[0-9a-f]{7,}\b|\d+|(?:/[\w.@+-]+)+|\"[^\"]*\"|'[^']*'"
)


def fingerprint(text: str) -> str:
    """The error with all that varies from run to run taken out."""
    return " ".join(_VARYING.sub("#", text.lower()).split())[:SAMPLE_CHARS]
