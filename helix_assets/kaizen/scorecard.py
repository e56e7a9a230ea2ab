"""The scores of agents: per agent, repository and week, from digests alone.

Belongs here: the figures and how they are added up. Pure. Not here: how they are shown (`kaizen.derived`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from helix_assets.derive.overhead import is_infra
from helix_assets.model.digest import Digest

_Z = 1.96
TREND_WEEKS = 4
JUDGED = ("success", "fail", "abandoned")
"""Outcomes that say how a session ended; those of unknown outcome are counted, but in no rate."""


@dataclass(frozen=True)
class Score:
    """One agent in one repository in one week, which begins on a Monday. Rates are None if nothing is known.

    `success_low` and `success_high` are Wilson's interval at 95 %. `trend` is the rate minus that of the four weeks
    before. `cost_per_success` is the total cost divided by the successes, of sessions with a known cost.
    """

    agent: str
    repo: str
    week: str
    sessions: int
    judged: int
    successes: int
    success_rate: float | None
    success_low: float | None
    success_high: float | None
    trend: float | None
    cost_usd: float | None
    cost_per_success: float | None
    retries: int
    interventions: int
    test_runs_passed: int
    test_runs_failed: int
    test_pass_rate: float | None
    infra_overhead_share: float | None


@dataclass
class _Sums:
    sessions: int = 0
    judged: int = 0
    successes: int = 0
    priced: int = 0
    priced_successes: int = 0
    cost_usd: float = 0.0
    retries: int = 0
    interventions: int = 0
    passed: int = 0
    failed: int = 0
    calls: int = 0
    infra: int = 0

    def add(self, digest: Digest, infra_tools: Sequence[str]) -> None:
        success = digest.outcome == "success"
        self.sessions += 1
        self.judged += digest.outcome in JUDGED
        self.successes += success
        if digest.cost_usd is not None:
            self.priced += 1
            self.priced_successes += success
            self.cost_usd += digest.cost_usd
        self.retries += digest.cost.retries
        self.interventions += digest.interventions
        self.passed += digest.tests.passed
        self.failed += digest.tests.failed
        for tool, count in digest.tool_histogram.items():
            self.calls += count
            self.infra += count if is_infra(tool, infra_tools) else 0


def week_of(digest: Digest) -> str | None:
    """The Monday of the week in which the session began; None if its time is not known."""
    if not digest.started_at:
        return None
    day = date.fromisoformat(digest.started_at[:10])
    return (day - timedelta(days=day.weekday())).isoformat()


def scores(digests: Iterable[Digest], infra_tools: Sequence[str]) -> list[Score]:
    """All scores, by agent, repository and week; sessions without a time are in none."""
    sums: dict[tuple[str, str, str], _Sums] = defaultdict(_Sums)
    for digest in digests:
        week = week_of(digest)
        if week is not None:
            sums[digest.flavor, digest.repo or "", week].add(digest, infra_tools)
    return [_score(*key, sums[key], _before(sums, key)) for key in sorted(sums)]


def wilson(successes: int, of: int) -> tuple[float, float] | None:
    """Wilson's interval of a rate at 95 %; None without sessions."""
    if not of:
        return None
    rate, square = successes / of, _Z * _Z / of
    middle = (rate + square / 2) / (1 + square)
    half = _Z * ((rate * (1 - rate) + square / 4) / of) ** 0.5 / (1 + square)
    return max(0.0, middle - half), min(1.0, middle + half)


def _score(agent: str, repo: str, week: str, own: _Sums, before: _Sums) -> Score:
    rate, earlier = _rate(own.successes, own.judged), _rate(before.successes, before.judged)
    low, high = wilson(own.successes, own.judged) or (None, None)
    return Score(
        agent=agent,
        repo=repo,
        week=week,
        sessions=own.sessions,
        judged=own.judged,
        successes=own.successes,
        success_rate=rate,
        success_low=_rounded(low),
        success_high=_rounded(high),
        trend=None if rate is None or earlier is None else _rounded(rate - earlier),
        cost_usd=round(own.cost_usd, 6) if own.priced else None,
        cost_per_success=round(own.cost_usd / own.priced_successes, 6) if own.priced_successes else None,
        retries=own.retries,
        interventions=own.interventions,
        test_runs_passed=own.passed,
        test_runs_failed=own.failed,
        test_pass_rate=_rate(own.passed, own.passed + own.failed),
        infra_overhead_share=_rate(own.infra, own.calls),
    )


def _before(sums: Mapping[tuple[str, str, str], _Sums], key: tuple[str, str, str]) -> _Sums:
    """The sums of the four weeks before, of the same agent and repository."""
    agent, repo, week = key
    total = _Sums()
    for weeks in range(1, TREND_WEEKS + 1):
        earlier = (date.fromisoformat(week) - timedelta(weeks=weeks)).isoformat()
        if (one := sums.get((agent, repo, earlier))) is not None:
            total.successes += one.successes
            total.judged += one.judged
    return total


def _rate(part: int, of: int) -> float | None:
    return round(part / of, 3) if of else None


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def rates_by_week(found: Iterable[Score]) -> dict[str, dict[str, float]]:
    """The success rate of each agent by week, over all repositories."""
    sums: dict[str, dict[str, _Sums]] = defaultdict(lambda: defaultdict(_Sums))
    for score in found:
        total = sums[score.agent][score.week]
        total.successes += score.successes
        total.judged += score.judged
    return {
        agent: {week: total.successes / total.judged for week, total in weeks.items() if total.judged}
        for agent, weeks in sums.items()
    }
