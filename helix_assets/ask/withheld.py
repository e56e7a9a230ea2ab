"""What readers withhold because no sweep has redacted it by the rules in force yet.

The first sweep after the rules changed begins with the catalog and the facts. Before that, readers refuse everything.
Then it redacts the texts of sessions, and readers leave out, count or refuse the texts that it has not come to.
Not here: how a sweep redacts (`sweep.rescan`).
"""

from __future__ import annotations

from dataclasses import dataclass

from helix_assets.model.errors import WithheldError
from helix_assets.store.catalog import sessions
from helix_assets.store.catalog.connection import Connection
from helix_assets.store.store import Store

_WHY = "withheld, because the redaction rules changed: run `helix sweep`"


@dataclass(frozen=True)
class Withheld:
    """How many sessions are withheld: only their `texts`, or also their `digests` and facts."""

    digests: int
    texts: int
    sessions: int


def refuse_unredacted(store: Store) -> None:
    """WithheldError unless the catalog and the facts are redacted by the rules in force."""
    if not store.is_memory_redacted():
        raise WithheldError(f"the memory is {_WHY}")


def has_withheld_texts(store: Store, redaction_version: str) -> bool:
    """Whether the texts of a session with this redaction version are withheld."""
    return redaction_version != store.rules_version


def refuse_withheld_texts(store: Store, session_uid: str, redaction_version: str) -> None:
    """WithheldError if the texts of this session are withheld."""
    if has_withheld_texts(store, redaction_version):
        raise WithheldError(f"the texts of {session_uid} are {_WHY}")


def count_withheld(store: Store, connection: Connection) -> Withheld:
    """How many sessions are withheld now."""
    texts, total = sessions.count_redacted_otherwise(connection, store.rules_version)
    return Withheld(0, texts, total) if store.is_memory_redacted() else Withheld(total, total, total)


def note_on_texts(count: int) -> str:
    """What an answer says of the sessions whose texts it leaves out."""
    return f"Sessions whose texts are withheld, because the redaction rules changed: {count:,}. Run `helix sweep`."
