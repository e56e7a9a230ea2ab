"""Which sessions are covered: their digest is made of all their stored rows, by the current rules.

Belongs here: the condition, as SQL for the questions about sessions. Not here: what the current versions are, which
the agents know (`ask.coverage`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Versions(NamedTuple):
    """The versions of the code: of each agent's parser, and of the digest."""

    parsers: Mapping[str, int]
    digest: int


def covered(versions: Versions) -> str:
    """The condition that a session is covered; the table `sessions` is not renamed in the statement."""
    return f"""(sessions.derived_generation IS NOT NULL AND sessions.derived_generation = sessions.generation
        AND sessions.derivation_version = {versions.digest} AND NOT {_by_another_parser(versions)}
        AND sessions.session_uid NOT IN (SELECT session_uid FROM retries))"""


def outdated(versions: Versions) -> str:
    """The condition that a session's digest is missing, or of older rows or rules."""
    return f"""({_by_another_parser(versions)} OR sessions.derived_generation IS NULL
        OR sessions.derived_generation != sessions.generation
        OR sessions.derivation_version != {versions.digest})"""


def _by_another_parser(versions: Versions) -> str:
    """Of an agent that this program does not know nothing is outdated."""
    known = " ".join(f"WHEN '{flavor}' THEN {int(version)}" for flavor, version in versions.parsers.items())
    return f"(sessions.parser_version != CASE sessions.flavor {known} ELSE sessions.parser_version END)"
