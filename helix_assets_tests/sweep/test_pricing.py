"""Sessions are priced offline by the package or by the person; an unknown model is null, never nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from genai_prices import Usage, calc_price

from helix_assets.ask.export import session_figures
from helix_assets.derive.prices import Spent, cost_pico, dollars
from helix_assets.keep.evict import apply
from helix_assets.keep.retention import RetentionPolicy
from helix_assets.model.time import microseconds
from helix_assets.prove.verify import verify
from helix_assets.sweep import pricing
from helix_assets.sweep.pricing import look_up
from helix_assets_tests.home import Memory, answer, prompt

UID = "claude:s1"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    made = Memory(tmp_path)
    yield made
    made.close()


def write(memory: Memory, *, model: str = "claude-opus-4-5", name: str = "s1", **more: Any) -> None:
    said = answer(f"a{name}", "10:00:09", "yes", message=f"m{name}", output=1_000_000, **more)
    memory.write(name, prompt(f"p{name}", "10:00:00", "go"), said.replace(b"claude-opus-4-5", model.encode()))


@pytest.mark.parametrize(
    "model", ["claude-opus-4-5-20251101", "claude-sonnet-4-5", "gpt-5-codex", "grok-4.5", "o4-mini"]
)
@pytest.mark.parametrize("plain", [10, 199_000, 260_000])
def test_costs_are_those_of_the_package(model: str, plain: int) -> None:
    at = datetime(2026, 1, 5, 12, tzinfo=UTC)
    known = look_up(model)
    assert known is not None
    usage = Usage(input_tokens=plain + 700, cache_read_tokens=700, output_tokens=90)
    theirs = calc_price(usage, model, genai_request_timestamp=at).total_price
    assert dollars(cost_pico(known, Spent(plain, 90, 700, 0, 0), microseconds(at))) == pytest.approx(
        float(theirs), abs=0
    )


def test_cache_writes_cost_by_how_long_they_are_kept() -> None:
    known = look_up("claude-opus-4-5")
    assert known is not None
    rates = known[0].bands[0].rates
    assert (rates.cache_write_5m, rates.cache_write_1h) == (6_250_000, 2 * rates.input)


def test_a_providers_name_before_the_model_is_passed_over() -> None:
    assert look_up("some-gateway/claude-opus-4-5") == look_up("claude-opus-4-5")


def test_pricing_asks_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert look_up("claude-haiku-4-5") is not None


def test_a_session_tells_its_cost_and_the_table(memory: Memory) -> None:
    write(memory)
    memory.sweep()
    digest = memory.digest(UID)
    assert (digest["cost_usd"], digest["cost_usd_main"], digest["cost_usd_subagent"]) == (25.000015, 25.000015, 0.0)
    assert digest["price_table"] == f"genai-prices {version('genai-prices')}"


def test_export_tells_the_cost(memory: Memory) -> None:
    write(memory)
    memory.sweep()
    digest = session_figures(memory.store)[UID].digest
    assert (digest.cost_usd, digest.cost_usd_subagent) == (25.000015, 0.0)
    assert (digest.price_table or "").startswith("genai-prices ")


def test_unknown_model_has_no_cost_and_is_named(memory: Memory) -> None:
    write(memory, model="homemade-9")
    memory.sweep()
    digest = memory.digest(UID)
    assert (digest["cost_usd"], digest["unpriced_models"]) == (None, ["homemade-9"])


def test_model_that_the_package_trips_over_costs_a_price_and_no_session(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pricing, "look_up", lambda _: 1 / 0)
    write(memory)
    assert memory.sweep().problems == []
    digest = memory.digest(UID)
    assert (digest["cost_usd"], digest["unpriced_models"]) == (None, ["claude-opus-4-5"])


def test_fault_in_pricing_again_stops_no_sweep_and_is_tried_on_another_day(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(memory)
    memory.sweep()
    before = memory.digest(UID)["cost_usd"]
    own = {"claude-*": {"input": 0.0, "output": 1.0}}
    memory.store = replace(memory.store, settings=replace(memory.store.settings, prices=own))
    with monkeypatch.context() as failing:
        failing.setattr(pricing, "price_rows", lambda *_: 1 / 0)
        memory.sweep()
    assert (memory.digest(UID)["cost_usd"], verify(memory.store)) == (before, [])
    memory.now += timedelta(days=1)
    assert memory.sweep().digests_repriced == 1
    assert memory.digest(UID)["cost_usd"] == 1.0


def test_own_price_wins(tmp_path: Path) -> None:
    memory = Memory(tmp_path, {"HELIX_PRICES": '{"homemade-*" = {input = 1, output = 2}}'})
    write(memory, model="homemade-9")
    memory.sweep()
    assert memory.digest(UID)["cost_usd"] == 2.000003
    assert " + own " in memory.digest(UID)["price_table"]
    memory.close()


def test_known_models_need_no_package(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    write(memory)
    memory.sweep()
    monkeypatch.setattr(pricing, "look_up", lambda model: pytest.fail(f"{model} was looked up again"))
    monkeypatch.setattr(pricing, "_package_version", lambda: pytest.fail("the package was asked again"))
    write(memory, name="s2")
    memory.sweep()
    assert memory.digest("claude:s2")["cost_usd"] == 25.000015


def test_new_prices_reach_evicted_sessions_too(memory: Memory) -> None:
    write(memory)
    memory.sweep()
    policy = RetentionPolicy(soft_cap_bytes=1, hard_cap_bytes=1 << 40, max_age_days=400, distilled_cap_bytes=1 << 40)
    apply(memory.store, clock=lambda: memory.now, policy=policy)
    own = {"claude-*": {"input": 0.0, "output": 1.0}}
    memory.store = replace(memory.store, settings=replace(memory.store.settings, prices=own))
    memory.sweep()
    assert memory.digest(UID)["cost_usd"] == 1.0
    assert verify(memory.store) == []


def test_sweep_without_news_loads_no_price(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    write(memory)
    memory.sweep()
    monkeypatch.setattr(pricing, "load_table", lambda *_: pytest.fail("prices were loaded"))
    memory.sweep()
