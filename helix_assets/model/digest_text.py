"""A digest's text as data: the one place where digests are parsed.

Readers, proofs and whoever writes a digest again get it here. Whether the text is the one that was written is for
`store.proof` to say, before it is parsed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from helix_assets.model.digest import Digest


def parsed_digest(text: str | bytes) -> dict[str, Any]:
    """The content of a digest, as it is written."""
    digest: dict[str, Any] = orjson.loads(text)
    return digest


def whole_digest(text: str | bytes) -> Digest:
    """The digest with all fields of today, to be changed and written again. pydantic.ValidationError if it is none."""
    from helix_assets.model.digest import Digest  # loads pydantic: not for those who only read

    return Digest.model_validate_json(text)
