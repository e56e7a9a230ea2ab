"""What changed since the last sweep: compares the files found with the files known. Pure, no disk."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

FileState = tuple[int, int, int, int]
"""The state of a file: device, inode, size, time of the last change in nanoseconds.

A plain tuple, because every look compares those of all files.
"""


@dataclass(frozen=True)
class Changes:
    """Path keys of files that are new or changed, and of files that are gone."""

    changed: tuple[str, ...]
    gone: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.changed or self.gone)


def changed_sources(
    found: Mapping[str, tuple[Any, ...]],
    known: Mapping[str, FileState],
    gone_before: Collection[str],
    unknown: Iterable[str],
) -> Changes:
    """Compare what was found with what is known. The last four values of a found file are its state.

    `gone_before` are already known to be gone. Nothing at or under a path of `unknown` counts as gone: a folder that
    cannot be read is not an empty one.
    """
    before = known.get
    changed = tuple([path for path, now in found.items() if now[-4:] != before(path)])
    places = set(unknown)
    hidden = tuple(place.rstrip("/") + "/" for place in places)
    missing = known.keys() - found.keys() - places - set(gone_before)
    gone = tuple(sorted(path for path in missing if not path.startswith(hidden))) if missing else ()
    return Changes(changed, gone)


def fingerprint(found: Mapping[str, tuple[Any, ...]], paths: Iterable[str]) -> str:
    """32 characters that identify this set of changes."""
    digest = blake2b(digest_size=16)
    for path in sorted(paths):
        now = found.get(path)
        state = ":".join(map(str, now[-4:])) if now else "gone"
        digest.update(f"{path}\0{state}\0".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()
