"""Days as the store counts them, with clocks that jump, stop and run back."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix_assets.model.days import DayMark, days_since, next_mark

START = datetime(2026, 1, 1, tzinfo=UTC)


def marks_of(*clock_days: float) -> list[DayMark]:
    """The marks of a store at work when its clock says so many days after the start; one session comes in each time."""
    marks: list[DayMark] = []
    for order, days in enumerate(clock_days):
        mark = next_mark(marks[-1] if marks else None, order, START + timedelta(days=days))
        marks += [mark] if mark else []
    return marks


@pytest.mark.parametrize(
    ("clock_days", "counted"),
    [
        ((0,), [0]),
        ((0, 0.5), [0]),
        ((0, 0.5, 1), [0, 1]),
        ((0, 1, 2, 4), [0, 1, 2, 4]),
        ((0, 7), [0, 7]),
        ((0, 7.01), [0, 0]),
        ((0, 1, 3650, 3651), [0, 1, 1, 2]),
        ((0, 1, 3650, 2, 3), [0, 1, 1, 1, 2]),
        ((0, -3650, -3649, 1), [0, 0, 1, 1]),
    ],
)
def test_days_counted(clock_days: tuple[float, ...], counted: list[float]) -> None:
    assert [mark.days for mark in marks_of(*clock_days)] == counted


def test_days_since_intake_count_from_the_next_mark() -> None:
    marks = marks_of(0, 1, 2, 3)
    assert days_since(marks, 1, START + timedelta(days=4)) == 3
    assert days_since(marks, 3, START + timedelta(days=4)) == 1


def test_session_taken_in_after_the_last_mark_is_new() -> None:
    assert days_since(marks_of(0, 1), 2, START + timedelta(days=5)) == 0


def test_nothing_is_counted_without_marks() -> None:
    assert days_since([], 1, START) == 0


@given(st.lists(st.floats(0.1, 30), min_size=2, max_size=20), st.data())
def test_jumping_clock_never_counts_more_than_passed(gaps: list[float], data: st.DataObject) -> None:
    passed, lie, shown = 0.0, 0.0, []
    for gap in gaps:
        passed += gap
        lie = data.draw(st.sampled_from([lie, 0.0, 3650.0, -3650.0]))
        shown.append(passed + lie)
    marks = marks_of(*shown)
    # A gap of more than a week that looks shorter would need a clock that lies by just that much.
    assert marks[-1].days <= passed - gaps[0] + 1e-6
