"""A digest's text as data: the one place where digests are parsed and written.

Readers, proofs and whoever writes a digest again get it here. Whether the text is the one that was written is for
`store.proof` to say, before it is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

import orjson

if TYPE_CHECKING:
    from helix_assets.model.digest import Digest

T = TypeVar("T")
_Make = Callable[[Any], Any]


def parsed_digest(text: str | bytes) -> dict[str, Any]:
    """The content of a digest as it is written, for proofs and for whoever changes all texts."""
    digest: dict[str, Any] = orjson.loads(text)
    return digest


def whole_digest(text: str | bytes) -> Digest:
    """The digest with all fields of today. TypeError if one is missing that digests of all versions have."""
    from helix_assets.model.digest import Digest  # its classes take longer to make than a small answer

    return _made(Digest, parsed_digest(text))


def written_digest(digest: Digest) -> str:
    """The text of a digest, as it is stored."""
    return orjson.dumps(digest).decode()


def wrong_fields(text: str | bytes) -> Sequence[str]:
    """The fields of a digest's text that are missing or of another type, sorted."""
    from pydantic import TypeAdapter, ValidationError

    from helix_assets.model.digest import Digest

    try:
        TypeAdapter(Digest).validate_json(text)
    except ValidationError as exc:
        return sorted({str(one["loc"][0]) for one in exc.errors() if one["loc"]})
    return ()


def _made(kind: Callable[..., T], content: Mapping[str, Any]) -> T:
    """The dataclass with its fields of this content. A field that is not known is of a newer version, and left out."""
    fields = _fields(kind)
    # Python passes names that are the program's own much faster than equal ones of a parsed text.
    known = {name: content[name] for name in fields if name in content}
    for name, make in fields.items():
        if make is not None and name in known:
            known[name] = make(known[name])
    return kind(**known)


@cache
def _fields(kind: Callable[..., Any]) -> Mapping[str, _Make | None]:
    return {name: _make_of(hint) for name, hint in get_type_hints(kind).items()}


def _make_of(hint: Any) -> _Make | None:
    """What makes the value of a field: an object of the digest's, or tuples of a list; None if it is as in JSON."""
    if isinstance(hint, type) and is_dataclass(hint):
        return partial(_made, hint)
    if get_origin(hint) is tuple:
        make = _make_of(get_args(hint)[0])
        return tuple if make is None else lambda values: tuple(map(make, values))
    return None
