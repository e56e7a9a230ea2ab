"""Which raw bytes go and which stay, and why each: the plan of an eviction.

Belongs here: the decision alone, made from numbers. Pure: no disk, no clock. The plan serves as dry run, as metadata of
the asset check and as report. `keep.evict` collects its input and applies it.

Neither order nor age depends on the wall clock alone. Older and newer follow the order of work; age is the smaller of
the clock's answer and the days that the store itself has counted (`model.days`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from heapq import heapify, heappop, heappush, nlargest
from typing import Any

from helix_assets.model.days import clock_doubt
from helix_assets.model.errors import SettingsError

LIGHT_SHARE = 0.25
"""How much of the soft cap light rows without texts may take before the oldest of them go."""
_DAY = timedelta(days=1)


class Reason(StrEnum):
    """Why a session goes (the first five; by the first of them its texts alone) or stays (the others)."""

    RAW_OVER_SOFT_CAP = "raw_over_soft_cap"
    OLDER_THAN_MAX_AGE = "older_than_max_age"
    OVER_SOFT_CAP = "over_soft_cap"
    OVER_HARD_CAP = "over_hard_cap"
    OVERFLOW = "overflow"
    WITHIN_BUDGET = "within_budget"
    PINNED = "pinned"
    NOT_COVERED = "not_covered"
    TO_BE_ANALYZED = "to_be_analyzed"


@dataclass(frozen=True)
class RetentionPolicy:
    """The caps. A cap that is zero, negative or inverted is refused: no policy ever means "evict all"."""

    soft_cap_bytes: int
    hard_cap_bytes: int
    max_age_days: float
    distilled_cap_bytes: int

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not value > 0:
                raise SettingsError(f"retention: {name} is {value}: give a number above zero")
        if self.hard_cap_bytes < self.soft_cap_bytes:
            raise SettingsError(
                f"retention: hard_cap_bytes ({self.hard_cap_bytes}) is below soft_cap_bytes ({self.soft_cap_bytes}): "
                "raise the hard cap, or lower the soft one"
            )


@dataclass(frozen=True)
class RawUsage:
    """One session's raw bytes on disk, and all that decides whether they may go.

    `counted_days` is `days_since` its `ingest_order`, None if days were not counted. Dropping the texts of its records
    while the light rows of its events stay frees at least `text_bytes`.
    """

    session_uid: str
    flavor: str
    day: str
    bytes: int
    records: int
    generation: int
    is_covered: bool
    ingest_order: int
    ingested_at: datetime
    analyzed_order: int | None = None
    ended_at: datetime | None = None
    is_pinned: bool = False
    counted_days: float | None = None
    text_bytes: int = 0

    def age_days(self, now: datetime) -> float:
        """Days since the later of its end and its intake, but no more than the store has counted."""
        since = max(self.ended_at or self.ingested_at, self.ingested_at)
        by_the_clock = (now - since) / _DAY
        return by_the_clock if self.counted_days is None else min(by_the_clock, self.counted_days)


@dataclass(frozen=True)
class Decision:
    """What happens to one session's raw bytes. A loss is a session that goes without a digest that covers it.

    With `keeps_rows` only the texts of its records go, and `bytes` are theirs.
    """

    session_uid: str
    flavor: str
    day: str
    bytes: int
    records: int
    generation: int
    reason: Reason
    goes: bool
    is_loss: bool
    age_days: float
    keeps_rows: bool = False


@dataclass(frozen=True)
class EvictionPlan:
    """What goes, in order, and what stays. `must_analyze` sessions have to be tried before anything may be lost.

    Usage counts part files; the search index comes on top.
    """

    goes: tuple[Decision, ...]
    stays: tuple[Decision, ...]
    usage_before: int
    usage_after: int
    soft_cap: int
    hard_cap: int
    must_analyze: tuple[str, ...]
    age_pass_off_because: str | None
    memory_bytes: int
    memory_cap: int
    index_bytes: int = 0

    @property
    def losses(self) -> tuple[Decision, ...]:
        return tuple(decision for decision in self.goes if decision.is_loss)

    @property
    def is_over_hard_cap(self) -> bool:
        """Whether the raw cache is above its ceiling even after this plan."""
        return self.usage_after > self.hard_cap

    @property
    def index_over_soft_cap(self) -> bool:
        """Whether the search index alone is above the soft cap. If it stays so, all covered raw bytes go."""
        return self.index_bytes > self.soft_cap

    @property
    def memory_over_cap(self) -> bool:
        """Whether Tier 2 is above its cap: reported, never acted on."""
        return self.memory_bytes > self.memory_cap

    def figures(self) -> dict[str, Any]:
        """The plan in numbers and reasons, without a line per session."""
        return {
            "usage_before": self.usage_before,
            "usage_after": self.usage_after,
            "index_bytes": self.index_bytes,
            "index_over_soft_cap": self.index_over_soft_cap,
            "soft_cap": self.soft_cap,
            "hard_cap": self.hard_cap,
            "is_over_hard_cap": self.is_over_hard_cap,
            "sessions_to_go": len(self.goes),
            "sessions_to_stay": len(self.stays),
            "losses": len(self.losses),
            "must_analyze": len(self.must_analyze),
            "by_reason": by_reason([*self.goes, *self.stays]),
            "age_pass_off_because": self.age_pass_off_because,
            "memory_bytes": self.memory_bytes,
            "memory_cap": self.memory_cap,
            "memory_over_cap": self.memory_over_cap,
        }

    def to_dict(self) -> dict[str, Any]:
        """The whole plan as plain data."""
        return self.figures() | {
            "must_analyze": list(self.must_analyze),
            "goes": [asdict(decision) for decision in self.goes],
            "stays": [asdict(decision) for decision in self.stays],
        }


def by_reason(decisions: Iterable[Decision]) -> dict[str, dict[str, int]]:
    """Sessions and bytes by reason."""
    found: dict[str, dict[str, int]] = {}
    for decision in decisions:
        total = found.setdefault(decision.reason.value, {"sessions": 0, "bytes": 0})
        total["sessions"] += 1
        total["bytes"] += decision.bytes
    return found


def plan_eviction(  # noqa: PLR0913 - three facts and three options, these named at the call
    sessions: Sequence[RawUsage],
    policy: RetentionPolicy,
    now: datetime,
    *,
    last_sweep_at: datetime | None = None,
    allow_loss: bool = False,
    memory_bytes: int = 0,
    index_bytes: int = 0,
) -> EvictionPlan:
    """Choose the raw sessions that go. Deletes nothing.

    Without `last_sweep_at` the clock cannot be checked, and age evicts nothing. `allow_loss` says that analysis was
    tried: only then may sessions go that no digest covers. The search index counts against the soft cap, but nothing
    is lost to make room for it.
    """
    draft = _Draft(sessions, policy, now, index_bytes)  # step 1: usage is the sum of bytes on disk
    doubt = clock_doubt(now, last_sweep_at)
    if doubt is None:
        draft.evict_aged()  # step 2
    draft.evict_covered()  # step 3
    uncovered = draft.uncovered() if draft.usage > policy.hard_cap_bytes else []
    if allow_loss or not uncovered:
        draft.evict_pinned()  # step 4: what a digest covers goes before anything is lost
    if allow_loss:
        draft.evict_fewest_uncovered()
    return EvictionPlan(
        goes=tuple(draft.goes),
        stays=draft.stays(() if allow_loss else uncovered),
        usage_before=sum(session.bytes for session in sessions),
        usage_after=draft.usage,
        soft_cap=policy.soft_cap_bytes,
        hard_cap=policy.hard_cap_bytes,
        must_analyze=() if allow_loss else tuple(session.session_uid for session in uncovered),
        age_pass_off_because=doubt,
        memory_bytes=memory_bytes,  # step 5: compared with its cap, never dropped
        memory_cap=policy.distilled_cap_bytes,
        index_bytes=index_bytes,
    )


class _Draft:
    """A plan in the making: what is left, and what goes so far."""

    def __init__(self, sessions: Sequence[RawUsage], policy: RetentionPolicy, now: datetime, index_bytes: int) -> None:
        self._policy, self._now, self._index_bytes = policy, now, index_bytes
        self._left = {session.session_uid: session for session in sessions}
        self.goes: list[Decision] = []
        self.usage = self._usage_before = sum(session.bytes for session in sessions)

    def _index_left(self) -> int:
        """The search index shrinks with its sources. The next plan corrects a wrong estimate."""
        return self._index_bytes * self.usage // self._usage_before if self._usage_before else self._index_bytes

    def evict_aged(self) -> None:
        for session in self._covered(is_pinned=False):
            if session.age_days(self._now) > self._policy.max_age_days:
                self._evict(session, Reason.OLDER_THAN_MAX_AGE)

    def evict_covered(self) -> None:
        """The oldest texts first; light rows once there are no texts left, or when they take too much of the cap."""
        covered = self._covered(is_pinned=False)
        heavy = deque(session for session in covered if session.text_bytes)
        light = [(_by_analysis(session), session) for session in covered if not session.text_bytes]
        lightened: dict[str, RawUsage] = {}
        light_bytes = sum(session.bytes for _, session in light)
        while self.usage + self._index_left() > self._policy.soft_cap_bytes and (heavy or light):
            is_room = light_bytes <= LIGHT_SHARE * self._policy.soft_cap_bytes
            if heavy and (is_room or not light or _by_analysis(heavy[0]) < light[0][0]):
                session = heavy.popleft()
                rest = replace(session, bytes=session.bytes - session.text_bytes, text_bytes=0)
                lightened[session.session_uid] = session
                self.usage -= session.text_bytes
                light_bytes += rest.bytes
                heappush(light, (_by_analysis(rest), rest))
            else:
                _, session = heappop(light)
                light_bytes -= session.bytes
                self.usage -= session.bytes
                self._goes(lightened.pop(session.session_uid, session), Reason.OVER_SOFT_CAP)
        for session in lightened.values():
            self._goes(session, Reason.RAW_OVER_SOFT_CAP)

    def evict_pinned(self) -> None:
        for session in self._covered(is_pinned=True):
            if self.usage <= self._policy.hard_cap_bytes:
                return
            self._evict(session, Reason.OVER_HARD_CAP)

    def evict_fewest_uncovered(self) -> None:
        for is_pinned in (False, True):
            excess = self.usage - self._policy.hard_cap_bytes
            waiting = [session for session in self.uncovered() if session.is_pinned == is_pinned]
            for session in fewest_oldest(waiting, excess):
                self._evict(session, Reason.OVERFLOW)

    def uncovered(self) -> list[RawUsage]:
        return sorted((s for s in self._left.values() if not s.is_covered), key=_by_intake)

    def stays(self, to_be_analyzed: Collection[RawUsage]) -> tuple[Decision, ...]:
        def why(session: RawUsage) -> Reason:
            if not session.is_covered:
                return Reason.TO_BE_ANALYZED if to_be_analyzed else Reason.NOT_COVERED
            return Reason.PINNED if session.is_pinned else Reason.WITHIN_BUDGET

        return tuple(self._decision(s, why(s), goes=False) for s in sorted(self._left.values(), key=_by_analysis))

    def _covered(self, *, is_pinned: bool) -> list[RawUsage]:
        left = (s for s in self._left.values() if s.is_covered and s.is_pinned == is_pinned)
        return sorted(left, key=_by_analysis)

    def _evict(self, session: RawUsage, reason: Reason) -> None:
        self.usage -= session.bytes
        self._goes(session, reason)

    def _goes(self, session: RawUsage, reason: Reason) -> None:
        del self._left[session.session_uid]
        self.goes.append(self._decision(session, reason, goes=True))

    def _decision(self, session: RawUsage, reason: Reason, *, goes: bool) -> Decision:
        keeps_rows = reason is Reason.RAW_OVER_SOFT_CAP
        return Decision(
            session_uid=session.session_uid,
            flavor=session.flavor,
            day=session.day,
            bytes=session.text_bytes if keeps_rows else session.bytes,
            records=session.records,
            generation=session.generation,
            reason=reason,
            goes=goes,
            is_loss=goes and not session.is_covered,
            age_days=round(session.age_days(self._now), 2),
            keeps_rows=keeps_rows,
        )


def _by_analysis(session: RawUsage) -> tuple[int, datetime, str]:
    """Oldest analysis first; ties by oldest end, then uid."""
    order = -1 if session.analyzed_order is None else session.analyzed_order
    return order, session.ended_at or session.ingested_at, session.session_uid


def _by_intake(session: RawUsage) -> tuple[int, datetime, str]:
    return session.ingest_order, session.ended_at or session.ingested_at, session.session_uid


def fewest_oldest(sessions: Sequence[RawUsage], excess_bytes: int) -> list[RawUsage]:
    """The fewest sessions that free `excess_bytes`. Of all such choices the one with the oldest session, then the next.

    `sessions` come oldest first. All of them when they are not enough; none when there is no excess.
    """
    count, freed = 0, 0
    largest = nlargest(len(sessions), range(len(sessions)), key=lambda i: sessions[i].bytes)
    while freed < excess_bytes and count < len(largest):
        freed += sessions[largest[count]].bytes
        count += 1
    return _oldest_choice(sessions, set(largest[:count]), freed - excess_bytes)


def _oldest_choice(sessions: Sequence[RawUsage], chosen: set[int], spare_bytes: int) -> list[RawUsage]:
    """Swap the largest for older ones as long as what is freed suffices.

    Going from the oldest on, the chosen sessions ahead are always the largest ones ahead. An older session therefore
    fits in if and only if it fits in place of the smallest of them.
    """
    least = [(sessions[i].bytes, i) for i in chosen]
    heapify(least)
    passed: set[int] = set()
    for i, session in enumerate(sessions):
        if i in chosen:
            passed.add(i)
            continue
        while least and least[0][1] in passed:
            heappop(least)
        if least and least[0][0] - session.bytes <= spare_bytes:
            size, out = heappop(least)
            spare_bytes -= size - session.bytes
            chosen.remove(out)
            chosen.add(i)
    return [sessions[i] for i in sorted(chosen)]
