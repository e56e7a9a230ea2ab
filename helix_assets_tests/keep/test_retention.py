"""Which raw bytes go: a table of policy x sessions -> plan, and what holds for every plan."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix_assets.keep.retention import EvictionPlan, RawUsage, Reason, RetentionPolicy, fewest_oldest, plan_eviction
from helix_assets.model.errors import SettingsError

NOW = datetime(2026, 3, 1, tzinfo=UTC)
YESTERDAY = NOW - timedelta(days=1)
POLICY = RetentionPolicy(soft_cap_bytes=100, hard_cap_bytes=150, max_age_days=45, distilled_cap_bytes=1000)


def raw(uid: str, size: int, order: int = 1, *, old: float = 1, **changes: Any) -> RawUsage:
    """A covered session of `size` bytes, analyzed at place `order`, that ended and came in `old` days ago."""
    at = NOW - timedelta(days=old)
    usage = RawUsage(uid, "claude", "2026-02-01", size, 3, 1, True, order, at, order, at, False, None)
    return replace(usage, **changes)


def uncovered(uid: str, size: int, order: int = 1, **changes: Any) -> RawUsage:
    return raw(uid, size, order, is_covered=False, analyzed_order=None, **changes)


def plan(*sessions: RawUsage, policy: RetentionPolicy = POLICY, **options: Any) -> EvictionPlan:
    return plan_eviction(sessions, policy, NOW, **({"last_sweep_at": YESTERDAY} | options))


def told(made: EvictionPlan) -> dict[str, str]:
    """What goes, in order, and why."""
    return {decision.session_uid: decision.reason.value for decision in made.goes}


AGED, SOFT, HARD, LOST = "older_than_max_age", "over_soft_cap", "over_hard_cap", "overflow"
RAW = "raw_over_soft_cap"
TABLE: dict[str, tuple[list[RawUsage], dict[str, str]]] = {
    "nothing there": ([], {}),
    "below the soft cap": ([raw("a", 99)], {}),
    "exactly the soft cap": ([raw("a", 50), raw("b", 50, 2)], {}),
    "one byte above the soft cap": ([raw("a", 50), raw("b", 51, 2)], {"a": SOFT}),
    "one session larger than all caps": ([raw("a", 500)], {"a": SOFT}),
    "oldest analysis first": ([raw("c", 60, 3), raw("a", 60, 1), raw("b", 60, 2)], {"a": SOFT, "b": SOFT}),
    "no more than needed": ([raw(uid, 30, n) for n, uid in enumerate("abcd")], {"a": SOFT}),
    "empty files go for nothing": ([raw("a", 0, 1), raw("b", 101, 2)], {"a": SOFT, "b": SOFT}),
    "same place: oldest end first": ([raw("a", 60, old=1), raw("b", 60, old=2)], {"b": SOFT}),
    "same place and end: by uid": ([raw("b", 60), raw("a", 60)], {"a": SOFT}),
    "place beats a clock that lied": (
        [raw("a", 60, 2, old=9000, counted_days=1), raw("b", 60, old=-9000)],
        {"b": SOFT},
    ),
    "no end known: intake counts": ([raw("a", 60, ended_at=None, old=1), raw("b", 60, old=2)], {"b": SOFT}),
    "exactly the greatest age": ([raw("a", 1, old=45)], {}),
    "older than the greatest age": ([raw("a", 1, old=45.1)], {"a": AGED}),
    "aged ones in order of analysis": ([raw("a", 1, 2, old=99), raw("b", 1, 1, old=50)], {"b": AGED, "a": AGED}),
    "texts before light rows": (
        [raw("a", 60, 1, text_bytes=50), raw("b", 60, 2, text_bytes=50)],
        {"a": RAW},
    ),
    "oldest texts first": (
        [raw("b", 60, 2, text_bytes=55), raw("a", 60, 1, text_bytes=55), raw("c", 60, 3, text_bytes=55)],
        {"a": RAW, "b": RAW},
    ),
    "light rows go where texts are not enough": (
        [raw("a", 120, 1, text_bytes=5), raw("b", 60, 2, text_bytes=50)],
        {"a": SOFT},
    ),
    "light rows may take a quarter of the cap": (
        [raw("a", 26, 1), raw("b", 40, 2, text_bytes=30), raw("c", 40, 3, text_bytes=30)],
        {"a": SOFT},
    ),
    "the texts of pinned sessions stay": (
        [raw("a", 60, 1, text_bytes=50, is_pinned=True), raw("b", 60, 2, text_bytes=50)],
        {"b": RAW},
    ),
    "no text of an uncovered session goes": ([uncovered("a", 120, text_bytes=110)], {}),
    "age first, then budget": ([raw("a", 101, 1), raw("b", 20, 2, old=60)], {"b": AGED, "a": SOFT}),
    "age may make room enough": ([raw("a", 60, 1), raw("b", 60, 2, old=60)], {"b": AGED}),
    "old end, young intake": ([raw("a", 1, old=90, ingested_at=YESTERDAY)], {}),
    "old intake, young end": ([raw("a", 1, old=90, ended_at=YESTERDAY)], {}),
    "end in the year 2100": ([raw("a", 1, old=90, ended_at=datetime(2100, 1, 1, tzinfo=UTC))], {}),
    "the clock says years, the store counted days": ([raw("a", 1, old=3650, counted_days=12)], {}),
    "the store counted long, the clock says a day": ([raw("a", 1, old=1, counted_days=99)], {}),
    "clock and store agree on great age": ([raw("a", 1, old=60, counted_days=46)], {"a": AGED}),
    "uncovered and old": ([uncovered("a", 1, old=400)], {}),
    "uncovered between the caps": ([uncovered("a", 120)], {}),
    "uncovered at exactly the hard cap": ([uncovered("a", 150)], {}),
    "covered ones go, the uncovered one stays": ([uncovered("a", 120, 1), raw("b", 20, 2)], {"b": SOFT}),
    "uncovered above the hard cap": ([uncovered("a", 151)], {}),
    "pinned above the soft cap": ([raw("a", 120, is_pinned=True)], {}),
    "pinned and old": ([raw("a", 1, old=400, is_pinned=True)], {}),
    "pinned one is passed over": ([raw("a", 90, 1, is_pinned=True), raw("b", 20, 2)], {"b": SOFT}),
    "pinned at exactly the hard cap": ([raw("a", 150, is_pinned=True)], {}),
    "pinned above the hard cap": ([raw("a", 80, 1, is_pinned=True), raw("b", 80, 2, is_pinned=True)], {"a": HARD}),
    "pinned waits for the analysis of others": ([raw("a", 80, is_pinned=True), uncovered("b", 80)], {}),
}


@pytest.mark.parametrize(("sessions", "goes"), TABLE.values(), ids=TABLE)
def test_what_goes_before_any_loss(sessions: list[RawUsage], goes: dict[str, str]) -> None:
    made = plan(*sessions)
    assert list(told(made).items()) == list(goes.items())
    assert made.losses == ()


LOSSES: dict[str, tuple[list[RawUsage], dict[str, str]]] = {
    "nothing there": ([], {}),
    "at exactly the hard cap": ([uncovered("a", 150)], {}),
    "one too many": ([uncovered("a", 80, 1), uncovered("b", 80, 2)], {"a": LOST}),
    "one larger than the cap": ([uncovered("a", 500)], {"a": LOST}),
    "fewest before oldest": ([uncovered("a", 10, 1), uncovered("b", 10, 2), uncovered("c", 150, 3)], {"c": LOST}),
    "oldest of those that suffice": ([uncovered(uid, 60, n) for n, uid in enumerate("cab")], {"c": LOST}),
    "covered go first": ([uncovered("a", 140, 1), raw("b", 140, 2)], {"b": SOFT}),
    "pinned covered go before a loss": ([uncovered("a", 140, 1), raw("b", 140, 2, is_pinned=True)], {"b": HARD}),
    "pinned uncovered stays longest": ([uncovered("a", 80, 1, is_pinned=True), uncovered("b", 80, 2)], {"b": LOST}),
    "pinned uncovered goes at last": ([uncovered("a", 160, 1, is_pinned=True), uncovered("b", 5, 2)],
                                      {"b": LOST, "a": LOST}),
    "age never loses": ([uncovered("a", 100, old=4000)], {}),
}  # fmt: skip


@pytest.mark.parametrize(("sessions", "goes"), LOSSES.values(), ids=LOSSES)
def test_what_goes_once_analysis_has_failed(sessions: list[RawUsage], goes: dict[str, str]) -> None:
    made = plan(*sessions, allow_loss=True)
    assert list(told(made).items()) == list(goes.items())
    assert {decision.session_uid for decision in made.losses} == {uid for uid in goes if goes[uid] == LOST}


def test_all_uncovered_are_analyzed_before_any_is_lost() -> None:
    made = plan(uncovered("b", 100, 2), uncovered("a", 100, 1), raw("c", 1, 3))
    assert made.must_analyze == ("a", "b")
    assert [decision.reason for decision in made.stays] == [Reason.TO_BE_ANALYZED] * 2


def test_nothing_has_to_be_analyzed_within_the_hard_cap() -> None:
    assert plan(uncovered("a", 150)).must_analyze == ()


def test_what_stays_says_why() -> None:
    made = plan(raw("a", 10), raw("b", 10, is_pinned=True), uncovered("c", 10))
    assert {d.session_uid: d.reason for d in made.stays} == {
        "a": Reason.WITHIN_BUDGET,
        "b": Reason.PINNED,
        "c": Reason.NOT_COVERED,
    }


@pytest.mark.parametrize(
    ("last_sweep_at", "doubt"),
    [
        (None, "no earlier day of work"),
        (NOW + timedelta(seconds=1), "already worked at 2026-03-01 00:00"),
        (NOW + timedelta(days=3650), "already worked at 2036"),
        (NOW - timedelta(days=7, seconds=1), "7 days past"),
        (NOW - timedelta(days=3650), "3650 days past"),
    ],
)
def test_age_evicts_nothing_while_the_clock_is_in_doubt(last_sweep_at: datetime | None, doubt: str) -> None:
    made = plan(raw("a", 10, old=400), last_sweep_at=last_sweep_at)
    assert made.goes == ()
    assert doubt in str(made.age_pass_off_because)


@pytest.mark.parametrize("last_sweep_at", [NOW, YESTERDAY, NOW - timedelta(days=7)])
def test_age_counts_while_sweeps_follow_each_other(last_sweep_at: datetime) -> None:
    made = plan(raw("a", 10, old=400), last_sweep_at=last_sweep_at)
    assert told(made) == {"a": AGED}
    assert made.age_pass_off_because is None


def test_budget_holds_whatever_the_clock_says() -> None:
    assert told(plan(raw("a", 60, 1), raw("b", 60, 2), last_sweep_at=NOW + timedelta(days=3650))) == {"a": SOFT}


def test_memory_over_its_cap_is_reported_and_drops_nothing() -> None:
    made = plan(raw("a", 10), memory_bytes=1001)
    assert made.memory_over_cap
    assert made.goes == ()
    assert not plan(memory_bytes=1000).memory_over_cap


def test_plan_is_plain_data() -> None:
    data = plan(raw("a", 60, 1), raw("b", 60, 2), uncovered("c", 10)).to_dict()
    assert [gone["session_uid"] for gone in data["goes"]] == ["a"]
    assert data["by_reason"]["over_soft_cap"] == {"sessions": 1, "bytes": 60}
    assert (data["usage_before"], data["usage_after"]) == (130, 70)


@pytest.mark.parametrize(
    "changes",
    [
        {"soft_cap_bytes": 0},
        {"soft_cap_bytes": -1},
        {"hard_cap_bytes": 0},
        {"hard_cap_bytes": 99},
        {"max_age_days": 0},
        {"max_age_days": -45},
        {"max_age_days": float("nan")},
        {"distilled_cap_bytes": 0},
    ],
)
def test_policy_that_would_evict_all_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="retention:"):
        replace(POLICY, **changes)


# -- what holds for every plan ---------------------------------------------------------------------------------------

CLOCK = st.datetimes(datetime(1970, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - aware by timezones


@st.composite
def usages(draw: st.DrawFn) -> list[RawUsage]:
    """Sessions of any size, age, cover and pin, with clocks that lie."""
    return [
        RawUsage(
            session_uid=f"s{number}",
            flavor="claude",
            day="2026-02-01",
            bytes=draw(st.integers(0, 80)),
            records=1,
            generation=1,
            is_covered=draw(st.booleans()),
            ingest_order=draw(st.integers(0, 5)),
            ingested_at=draw(CLOCK),
            analyzed_order=draw(st.none() | st.integers(0, 5)),
            ended_at=draw(st.none() | CLOCK),
            is_pinned=draw(st.booleans()),
            counted_days=draw(st.none() | st.floats(0, 100)),
        )
        for number in range(draw(st.integers(0, 9)))
    ]


POLICIES = st.builds(
    lambda soft, more, days: RetentionPolicy(soft, soft + more, days, 1),
    st.integers(1, 200),
    st.integers(0, 100),
    st.integers(1, 60),
)
SWEEPS = st.none() | CLOCK


@given(usages(), POLICIES, CLOCK, SWEEPS)
def test_nothing_goes_before_a_digest_covers_it(
    sessions: list[RawUsage], policy: RetentionPolicy, now: datetime, last: datetime | None
) -> None:
    covered = {session.session_uid for session in sessions if session.is_covered}
    for allow_loss in (False, True):
        made = plan_eviction(sessions, policy, now, last_sweep_at=last, allow_loss=allow_loss)
        assert {d.session_uid for d in made.goes if not d.is_loss} <= covered
        assert {d.session_uid for d in made.losses} == {d.session_uid for d in made.goes} - covered
        assert allow_loss or not made.losses


@given(usages(), POLICIES, CLOCK, SWEEPS, st.booleans())
def test_every_session_is_decided_once_and_the_sums_add_up(
    sessions: list[RawUsage], policy: RetentionPolicy, now: datetime, last: datetime | None, allow_loss: bool
) -> None:
    made = plan_eviction(sessions, policy, now, last_sweep_at=last, allow_loss=allow_loss)
    decided = [d.session_uid for d in (*made.goes, *made.stays)]
    assert sorted(decided) == sorted(s.session_uid for s in sessions)
    assert made.usage_after == sum(d.bytes for d in made.stays)
    assert made.usage_before - made.usage_after == sum(d.bytes for d in made.goes)


@given(usages(), POLICIES, CLOCK, SWEEPS)
def test_losses_end_below_the_hard_cap_and_none_is_spare(
    sessions: list[RawUsage], policy: RetentionPolicy, now: datetime, last: datetime | None
) -> None:
    unpinned = [replace(session, is_pinned=False) for session in sessions]
    made = plan_eviction(unpinned, policy, now, last_sweep_at=last, allow_loss=True)
    assert not made.is_over_hard_cap
    assert all(made.usage_after + loss.bytes > policy.hard_cap_bytes for loss in made.losses)


@given(usages(), POLICIES, CLOCK, SWEEPS, st.booleans())
def test_planning_again_after_applying_evicts_nothing_more(
    sessions: list[RawUsage], policy: RetentionPolicy, now: datetime, last: datetime | None, allow_loss: bool
) -> None:
    made = plan_eviction(sessions, policy, now, last_sweep_at=last, allow_loss=allow_loss)
    gone = {d.session_uid for d in made.goes}
    left = [session for session in sessions if session.session_uid not in gone]
    assert plan_eviction(left, policy, now, last_sweep_at=last, allow_loss=allow_loss).goes == ()


@given(usages(), POLICIES, CLOCK, CLOCK)
def test_without_age_the_clock_changes_nothing(
    sessions: list[RawUsage], policy: RetentionPolicy, now: datetime, other: datetime
) -> None:
    assert told(plan_eviction(sessions, policy, now)) == told(plan_eviction(sessions, policy, other))


@given(usages(), POLICIES, CLOCK, SWEEPS)
def test_no_covered_session_stays_above_the_soft_cap(
    sessions: list[RawUsage], policy: RetentionPolicy, now: datetime, last: datetime | None
) -> None:
    made = plan_eviction(sessions, policy, now, last_sweep_at=last)
    within = [d for d in made.stays if d.reason is Reason.WITHIN_BUDGET]
    assert not within or made.usage_after <= policy.soft_cap_bytes


@given(usages(), st.randoms(use_true_random=False))
def test_order_of_the_rows_does_not_matter(sessions: list[RawUsage], luck: Any) -> None:
    mixed = list(sessions)
    luck.shuffle(mixed)
    assert plan(*mixed, allow_loss=True) == plan(*sessions, allow_loss=True)


@given(st.lists(st.integers(0, 12), max_size=8), st.integers(-3, 60))
def test_fewest_and_of_those_the_oldest(sizes: list[int], excess: int) -> None:
    sessions = [uncovered(f"s{number}", size, number) for number, size in enumerate(sizes)]
    chosen = [int(session.session_uid[1:]) for session in fewest_oldest(sessions, excess)]
    enough = (
        list(choice)
        for count in range(len(sizes) + 1)
        for choice in combinations(range(len(sizes)), count)
        if sum(sizes[i] for i in choice) >= excess
    )
    assert chosen == next(enough, list(range(len(sizes))))


def test_dropping_texts_frees_their_bytes_alone() -> None:
    made = plan(raw("a", 60, 1, text_bytes=45), raw("b", 60, 2))
    (decision,) = made.goes
    assert (decision.keeps_rows, decision.bytes, made.usage_after) == (True, 45, 75)
    assert [one.session_uid for one in made.stays] == ["b"]


def test_search_index_counts_and_falls_with_what_it_is_made_of() -> None:
    sessions = [
        raw(uid, 20, n) for n, uid in enumerate("abcd")
    ]  # 80 bytes and an index of 40: 120, and 100 are allowed
    assert told(plan(*sessions, index_bytes=40)) == {"a": SOFT}
    assert told(plan(*sessions, index_bytes=20)) == {}


def test_index_that_fills_the_soft_cap_alone_is_reported_and_takes_all_that_is_covered() -> None:
    made = plan(raw("a", 1, 1), raw("b", 1, 2), index_bytes=50_000)
    assert made.index_over_soft_cap
    assert told(made) == {"a": SOFT, "b": SOFT}
    assert not plan(raw("a", 1, 1), index_bytes=99).index_over_soft_cap
