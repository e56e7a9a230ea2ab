"""What comes of asking whether a promise holds. Not here: the promises (`prove.promises`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from helix_assets.model.errors import DiskFullError, NoAccessError, StoreError
from helix_assets.store.store import Store


@dataclass(frozen=True)
class Violation:
    """Something that must never be: the name of the check, what was found, and where."""

    check: str
    what: str
    session_uid: str | None = None
    path: str | None = None


@dataclass(frozen=True)
class Answer:
    """Whether a promise holds, the figures behind it (counts and our own words only), and what breaks it by name."""

    holds: bool
    figures: Mapping[str, Any] = field(default_factory=dict)
    wrong: Sequence[Violation] = ()


def unless(store: Store, found: Iterable[Violation], figures: Mapping[str, Any] | None = None) -> Answer:
    """A promise that holds unless something is found. A catalog that cannot be read keeps what was found before."""
    wrong: list[Violation] = []
    try:
        wrong.extend(found)
    except (DiskFullError, NoAccessError):
        raise
    except StoreError as exc:
        wrong.append(Violation("catalog_readable", str(exc), path=str(store.catalog.path)))
    counts = {f"wrong_{check}": count for check, count in Counter(one.check for one in wrong).items()}
    return Answer(not wrong, {**(figures or {}), **counts}, wrong)
