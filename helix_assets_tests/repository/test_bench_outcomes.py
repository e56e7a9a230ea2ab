"""The measure of outcomes: its arithmetic, and the peer's rules as they are published."""

from __future__ import annotations

from typing import Any

import pytest

from bench.outcomes import peer_outcome, score, wilson
from helix_assets.model.event import EventKind, Row

LABELS = {"a": "success", "b": "success", "c": "fail", "d": "abandoned"}


def row(kind: EventKind, summary: str = "", **more: Any) -> Row:
    values: dict[str, Any] = dict.fromkeys(Row._fields)
    return Row(**{**values, "kind": kind.value, "summary": summary, "is_sidechain": False, **more})


def conversation(*parts: str) -> list[Row]:
    """Rows by short names: p(rompt), r(eply), f(ailed result), i(nterrupt) or a reply's text."""
    kinds = {
        "p": row(EventKind.USER_MSG, "do it"),
        "r": row(EventKind.ASSISTANT_MSG, "done"),
        "f": row(EventKind.TOOL_RESULT, status="error"),
        "i": row(EventKind.HUMAN_INTERVENTION, "[Request interrupted by user]", status="interrupt"),
    }
    return [kinds.get(part, row(EventKind.ASSISTANT_MSG, part))._replace(seq=place) for place, part in enumerate(parts)]


def test_interval_of_eight_in_ten() -> None:
    low, high = wilson(8, 10)
    assert (round(low, 3), round(high, 3)) == (0.490, 0.943)


def test_macro_f1_is_the_mean_over_labelled_classes() -> None:
    result = score(LABELS, {"a": "success", "b": "fail", "c": "fail", "d": "abandoned"})
    assert result.accuracy == 0.75
    assert result.macro_f1 == pytest.approx((2 / 3 + 2 / 3 + 1) / 3)


def test_a_session_without_an_outcome_is_unknown() -> None:
    assert score({"a": "unknown", "b": "fail"}, {}).recall("unknown") == (1, 1)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (("p", "r"), "success"),
        (("p",), "unknown"),
        (("p", "r", "p"), "abandoned"),
        (("p", "r", "i"), "abandoned"),
        (("p", "r", "p", "r"), "success"),
        (("p", "r", "p", "f", "f", "f", "r"), "fail"),
        (("p", "r", "p", "API Error: 529 overloaded"), "fail"),
    ],
)
def test_peers_rules_in_their_order(parts: tuple[str, ...], expected: str) -> None:
    assert peer_outcome(conversation(*parts)) == expected
