"""Costs are exact in any order, cliffs are cliffs, and what nobody knows has no price."""

from __future__ import annotations

from helix_assets.derive.prices import (
    Band,
    Period,
    PriceTable,
    Rates,
    Spent,
    cost_pico,
    dollars,
    own_rates,
    picodollars,
)

FLAT = (Period((Band(0, Rates(3_000_000, 15_000_000, 300_000, 3_750_000, 6_000_000)),)),)
HOUR = 3_600_000_000


def test_each_kind_has_its_rate() -> None:
    assert dollars(cost_pico(FLAT, Spent(1_000_000, 0, 0, 0, 0), 0)) == 3.0
    assert dollars(cost_pico(FLAT, Spent(0, 1_000_000, 0, 0, 0), 0)) == 15.0
    assert dollars(cost_pico(FLAT, Spent(0, 0, 1_000_000, 1_000_000, 1_000_000), 0)) == 0.3 + 3.75 + 6


def test_a_long_context_costs_more_for_all_of_its_tokens() -> None:
    banded = (Period((Band(0, Rates(1, 1, 1, 1, 1)), Band(200_000, Rates(2, 2, 2, 2, 2)))),)
    assert cost_pico(banded, Spent(100_000, 5, 100_000, 0, 0), 0) == 200_005
    assert cost_pico(banded, Spent(100_001, 5, 100_000, 0, 0), 0) == 2 * 200_006


def test_the_band_of_a_sum_of_requests_is_the_lowest() -> None:
    banded = (Period((Band(0, Rates(1, 1, 1, 1, 1)), Band(10, Rates(2, 2, 2, 2, 2)))),)
    assert cost_pico(banded, Spent(100, 0, 0, 0, 0), 0, is_one_request=False) == 100


def test_a_price_holds_from_its_day_on() -> None:
    cheaper = Period((Band(0, Rates(1, 1, 1, 1, 1)),), since_us=1000)
    assert cost_pico((*FLAT, cheaper), Spent(1, 0, 0, 0, 0), 999) == 3_000_000
    assert cost_pico((*FLAT, cheaper), Spent(1, 0, 0, 0, 0), 1000) == 1


def test_a_price_of_the_night_holds_over_midnight() -> None:
    night = Period((Band(0, Rates(1, 1, 1, 1, 1)),), None, 22 * HOUR, 6 * HOUR)
    costs = [cost_pico((*FLAT, night), Spent(1, 0, 0, 0, 0), hour * HOUR) for hour in (21, 22, 23, 24, 29, 30)]
    assert costs == [3_000_000, 1, 1, 1, 1, 3_000_000]


def test_own_prices_come_first_and_unknown_models_have_none() -> None:
    own = (("local-*", own_rates({"input": 1, "output": 2})),)
    table = PriceTable("t", {"local-7b": None, "m": FLAT}, own)
    assert table.prices_of("Local-7B") == own[0][1]
    assert table.prices_of("m") == FLAT
    assert table.prices_of("other") is None


def test_an_hour_of_cache_costs_twice_the_input() -> None:
    (period,) = own_rates({"input": 5, "output": 25})
    assert period.bands[0].rates == Rates(5_000_000, 25_000_000, 500_000, 6_250_000, 10_000_000)


def test_dollars_give_their_picodollars_back() -> None:
    assert all(picodollars(dollars(n)) == n for n in (0, 1, 84_868_000, 10**12 + 1, 8_999 * 10**12 + 7))
