"""The labelled groups of texts: what is told as a pattern is one, and the labels of the real errors are whole."""

from __future__ import annotations

import json

from bench.patterns import FIXTURES, hand_made, interval


def test_four_in_five_of_what_is_told_is_a_pattern() -> None:
    right, wrong, _ = hand_made()
    assert len(right) >= 10
    assert len(right) / (len(right) + len(wrong)) >= 0.8


def test_every_real_error_is_labelled_once_by_both_readers() -> None:
    rows = json.loads((FIXTURES / "real_labels.json").read_text(encoding="utf-8"))
    assert len({row["id"] for row in rows}) == len(rows)
    assert all(set(row) == {"id", "a", "b"} for row in rows)


def test_an_interval_is_wilsons() -> None:
    assert interval(9, 10) == "9 of 10: 0.90 (95 %: 0.60 to 0.98)"
