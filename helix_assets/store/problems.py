"""Problems of logs as rows of the catalog."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from helix_assets.model.errors import Problem
from helix_assets.store.store import Store


def problem_rows(
    store: Store, flavor: str, found: Collection[Problem], keys: Mapping[str, str], at: str
) -> list[dict[str, Any]]:
    """Problems as rows of the catalog, their paths made safe to show."""
    rows = []
    for problem in found:
        shown = store.shown_path(problem.path)
        rows.append(
            {
                "path_key": keys.get(problem.path, shown),
                "path": shown,
                "flavor": flavor,
                "line": problem.line or 0,
                "offset": problem.offset,
                "reason": problem.reason[:300],
                "seen_at": at,
            }
        )
    return rows
