"""What a process that stays remembers of sessions that grow, so that a turn costs what the turn costs.

An append continues linker, digest and facts where the stored rows end. Without this all stored rows are read for it.
What is remembered counts only if the catalog says exactly what it said after the commit that it is from; whatever else
happened to the session drops it. It is taken out while it is used, and returned only after the next commit, so a sweep
that fails or is killed loses it. Belongs here: holding and dropping it. Not here: deriving (`sweep.session_run`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from helix_assets.derive.digest_builder import DigestBuilder
    from helix_assets.derive.fact_builder import FactBuilder
    from helix_assets.derive.link import Linker
    from helix_assets.store.fact_merge import WrittenFacts
    from helix_assets.sweep.plan import SessionState

ROW_BYTES = 1_500
"""About so much memory is held for each stored row."""


@dataclass
class Derived:
    """What was derived of a session, up to the end of its stored rows. It can be used once: using it changes it.

    `keys` are the keys of the stored rows; `records` and `bad_lines` those that the digest counts; `facts` are the
    facts as they were written.
    """

    linker: Linker
    digests: DigestBuilder
    fact_builder: FactBuilder
    keys: set[int]
    records: set[int]
    bad_lines: set[int]
    facts: WrittenFacts | None = None
    is_used: bool = False

    @property
    def bytes(self) -> int:
        """How much memory this takes, about."""
        return self.digests.rows * ROW_BYTES

    def use(self) -> bool:
        """Claim it. False if it was used before."""
        was_used, self.is_used = self.is_used, True
        return not was_used

    def __reduce__(self) -> tuple[object, tuple[()]]:
        """It stays in its process: to send it to a worker costs as much as to derive it there."""
        return _nothing, ()


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class _Held:
    derived: Derived
    state: SessionState
    rules: Hashable


class Warm:
    """The sessions that were appended to last, within a limit of their number and of the memory that they take."""

    def __init__(self, *, sessions: int = 24, bytes_: int = 128 << 20) -> None:
        self.sessions = sessions
        self._bytes = bytes_
        self._held: OrderedDict[str, _Held] = OrderedDict()

    def __len__(self) -> int:
        return len(self._held)

    @property
    def bytes(self) -> int:
        """How much memory all of it takes, about."""
        return sum(held.derived.bytes for held in self._held.values())

    def take(self, state: SessionState, rules: Hashable) -> Derived | None:
        """Take out what continues this session; None if the catalog says anything else than when it was put here."""
        held = self._held.pop(state.uid, None)
        return held.derived if held is not None and (held.state, held.rules) == (state, rules) else None

    def put(self, state: SessionState, rules: Hashable, derived: Derived) -> None:
        """Remember what was derived of a session whose state in the catalog is this, and forget the oldest others."""
        self._held.pop(state.uid, None)
        self._held[state.uid] = _Held(derived, state, rules)
        while self._held and (len(self._held) > self.sessions or self.bytes > self._bytes):
            self._held.popitem(last=False)
