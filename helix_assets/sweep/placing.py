"""Repositories, domains and tasks of stored sessions, when the person's map in helix.toml has changed.

Evicted sessions too: all that a place depends on is in the catalog and the digest. Belongs here: which sessions have
another place now, and changing their rows. Not here: the rules (`derive.places`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b

import orjson

from helix_assets.derive.places import Place, PlaceRules, place_of
from helix_assets.model.digest_text import parsed_digest
from helix_assets.store.catalog import digests, meta, sessions
from helix_assets.store.key import text_hash
from helix_assets.store.proof import is_proven
from helix_assets.store.store import Store

PLACED_WITH = "placed_with"
_AT_ONCE = 500


def places_mark(rules: PlaceRules) -> str:
    """A text that changes with the map. Its order counts: of two patterns the first that fits wins."""
    rows = [[*rules.paths.items()], [*rules.domains.items()], rules.task_patterns, [w.pattern for w in rules.worktrees]]
    return blake2b(json.dumps(rows).encode(), digest_size=8).hexdigest()


def is_placed(store: Store, known: Mapping[str, str]) -> bool:
    """Whether all that is stored has its place by the map in force. `known` is the table meta."""
    return meta.ORDER not in known or known.get(PLACED_WITH) == places_mark(store.settings.places)


def place_again(store: Store) -> int:
    """Change the places of the sessions that have another one now, and nothing else. Returns how many sessions."""
    moved, at = _moved(store), 0
    while batch := moved[at : at + _AT_ONCE]:
        _put(store, batch)
        at += _AT_ONCE
    return len(moved)


def _moved(store: Store) -> list[tuple[int, str, Place]]:
    """The sessions that have another place by the map in force. One whose digest is damaged stays as it is."""
    rules, moved = store.settings.places, []
    with store.catalog.reading() as connection:
        for row in sessions.with_digests(connection):
            if not is_proven(row, store.key):
                continue
            facts, digest = row.facts, parsed_digest(row.digest)
            texts = facts.get("git_branch"), facts.get("title"), digest.get("first_prompt")
            place = place_of(rules, facts.get("cwd"), facts.get("repo_root"), *texts)
            if place != Place(row.repo, row.domain, row.task_ref):
                moved.append((row.id, row.session_uid, place))
    return moved


def _put(store: Store, moved: Sequence[tuple[int, str, Place]]) -> None:
    """Change these sessions in one step."""
    with store.catalog.writing() as connection:
        kept = digests.by_uid(connection, [uid for _, uid, _ in moved])
        for number, uid, place in moved:
            text = orjson.dumps(parsed_digest(kept[uid].digest) | place._asdict()).decode()
            named = {"repo": place.repo, "domain": place.domain}
            digests.change(connection, uid, digest=text, hash=text_hash(store.key, text.encode()), **named)
            sessions.change(connection, number, **place._asdict())
