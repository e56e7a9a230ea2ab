"""The scorecard adds up digests by agent, repository and week."""

from dataclasses import replace
from typing import Any

import pytest

from helix_assets.derive.digest_builder import DigestBuilder
from helix_assets.kaizen.scorecard import rates_by_week, scores, week_of, wilson
from helix_assets.model.digest import Digest, RunTally
from helix_assets_tests.agents.reading import WORDS
from helix_assets_tests.derive.test_digest_size import HEAD

INFRA = ("mcp__*",)


EMPTY = DigestBuilder(WORDS).finish(HEAD)


def digest(outcome: str = "success", at: str | None = "2026-06-03T10:00:00.000Z", **more: Any) -> Digest:
    known = {
        "flavor": "claude",
        "repo": "shop",
        "started_at": at,
        "outcome": outcome,
        "cost": replace(EMPTY.cost, retries=1),
        "cost_usd": 0.5,
        "interventions": 2,
        "tests": RunTally(passed=3, failed=1),
        "tool_histogram": {"Bash": 3, "mcp__a__b": 1},
    }
    return replace(EMPTY, **(known | more))


def test_a_week_begins_on_its_monday() -> None:
    weeks = [week_of(digest(at=f"2026-{day}T23:59:59.999Z")) for day in ("05-31", "06-01", "06-07", "06-08")]
    assert weeks == ["2026-05-25", "2026-06-01", "2026-06-01", "2026-06-08"]


def test_figures_of_a_week() -> None:
    (score,) = scores([digest(), digest(), digest("fail"), digest("unknown", cost_usd=None)], INFRA)
    assert (score.agent, score.repo, score.week, score.sessions) == ("claude", "shop", "2026-06-01", 4)
    assert (score.judged, score.successes, score.success_rate) == (3, 2, 0.667)
    assert (score.success_low, score.success_high) == (0.208, 0.939)
    assert (score.cost_usd, score.cost_per_success) == (1.5, 0.75)
    assert (score.retries, score.interventions, score.test_pass_rate) == (4, 8, 0.75)
    assert score.infra_overhead_share == 0.25


def test_trend_is_against_the_four_weeks_before() -> None:
    days = ("2026-04-27", "2026-05-06", "2026-05-13", "2026-06-03")  # the first is five weeks before the last
    outcomes = ("fail", "success", "fail", "success")
    found = scores([digest(o, f"{day}T10:00:00Z") for o, day in zip(outcomes, days, strict=True)], INFRA)
    assert [score.trend for score in found] == [None, 1.0, -0.5, 0.5]


def test_agents_and_repositories_are_kept_apart() -> None:
    found = scores([digest(), digest(repo=None), digest(flavor="codex")], INFRA)
    assert [(score.agent, score.repo) for score in found] == [("claude", ""), ("claude", "shop"), ("codex", "shop")]


def test_rates_by_week_are_over_all_repositories() -> None:
    later = [digest("success", "2026-06-16T10:00:00Z"), digest("unknown", "2026-06-23T10:00:00Z")]
    found = scores([digest(), digest("fail", repo="mill"), digest("success", repo="mill"), *later], INFRA)
    first = found[0].week
    assert rates_by_week(found) == {found[0].agent: {first: 2 / 3, "2026-06-15": 1.0}}


def test_a_session_without_a_time_is_in_no_week() -> None:
    assert scores([digest(at=None)], INFRA) == []


def test_what_is_not_known_is_no_rate() -> None:
    (score,) = scores([digest("unknown", cost_usd=None, tests=RunTally(), tool_histogram={})], INFRA)
    assert score.success_rate is score.success_low is score.trend is score.cost_usd is score.cost_per_success is None
    assert score.test_pass_rate is score.infra_overhead_share is None


@pytest.mark.parametrize(
    ("successes", "of", "low", "high"), [(0, 1, 0.0, 0.793), (1, 1, 0.207, 1.0), (50, 100, 0.404, 0.596)]
)
def test_interval_is_wilsons(successes: int, of: int, low: float, high: float) -> None:
    found = wilson(successes, of)
    assert found is not None
    assert [round(edge, 3) for edge in found] == [low, high]
