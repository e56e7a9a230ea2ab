"""Executions are read whatever their fields are called, and linked by reference before anything is inferred."""

import pytest

from helix_assets.kaizen.executions import GRACE_US, Execution, SessionSpan, correlate, read_execution

HOUR = 3_600_000_000
T = 1_780_000_000_000_000
LATEST = 253_402_343_999_000_000  # no year of ours, and no trouble either


def execution(
    uid: str | None = None, start: int | None = T, end: int | None = T + HOUR, repo: str = "shop"
) -> Execution:
    return Execution("shop", "coder", "f:1", uid, repo, start, end, True, None)


def span(uid: str, start: int | None = T, end: int | None = T + HOUR, repo: str | None = "shop") -> SessionSpan:
    return SessionSpan(uid, repo, start, end)


@pytest.mark.parametrize(
    ("record", "start", "end"),
    [
        ({"started_at": "2026-05-28T20:26:40Z", "ended_at": "2026-05-28T21:26:40Z"}, T, T + HOUR),
        ({"start_time": 1_780_000_000, "duration_s": 3600}, T, T + HOUR),
        ({"timestamp": "2026-05-28T23:26:40+02:00", "execution_time": 3600.0}, T, T + HOUR),
        ({"timestamp": 1_780_003_600_000, "duration_ms": 3_600_000}, T, T + HOUR),
        ({"timestamp": "2026-05-28T20:26:40"}, T, T),
        ({"started_at": "yesterday", "duration_s": -3, "timestamp": True}, None, None),
        ({"timestamp": "9999-12-31T23:59:59-12:00", "duration_s": 1e300}, LATEST, LATEST),
    ],
)
def test_times_have_many_names(record: dict[str, object], start: int | None, end: int | None) -> None:
    found = read_execution(record, "shop", "coder", "f:1")
    assert (found.start_us, found.end_us) == (start, end)


@pytest.mark.parametrize(
    ("record", "success"),
    [({"success": False}, False), ({"outcome": "Success"}, True), ({"status": "failed"}, False), ({"result": 3}, None)],
)
def test_verdicts_have_many_names(record: dict[str, object], success: bool | None) -> None:
    assert read_execution(record, "shop", "coder", "f:1").success is success


def test_malformed_fields_count_as_missing() -> None:
    found = read_execution({"helix_session_uid": 7, "tokens": "many", "repo": []}, "shop", "coder", "f:1")
    assert (found.session_uid, found.tokens, found.repo) == (None, None, "shop")


def test_a_reference_wins_over_time_and_repository() -> None:
    found = correlate([execution("claude:b", repo="elsewhere")], [span("claude:a"), span("claude:b", T + 9 * HOUR)])
    assert [(link.uid, link.by) for link in found.links] == [("claude:b", "reference")]


def test_a_reference_to_nothing_is_not_replaced_by_a_guess() -> None:
    found = correlate([execution("claude:gone")], [span("claude:a")])
    assert [(link.uid, link.by) for link in found.links] == [(None, None)]
    assert found.unmatched_sessions == ("claude:a",)
    assert found.rate == 0


def test_without_one_the_session_that_shares_most_time_is_inferred() -> None:
    sessions = [span("claude:a", T - HOUR, T + 10), span("claude:b", T + 20, T + HOUR), span("claude:c", repo="other")]
    found = correlate([execution()], sessions)
    assert [(link.uid, link.by) for link in found.links] == [("claude:b", "inferred")]
    assert found.unmatched_sessions == ("claude:a",)


@pytest.mark.parametrize(("late", "linked"), [(GRACE_US, "claude:a"), (GRACE_US + 1, None)])
def test_a_record_written_at_the_close_still_belongs(late: int, linked: str | None) -> None:
    at = T + HOUR + late
    assert correlate([execution(start=at, end=at)], [span("claude:a")]).links[0].uid == linked


def test_without_times_nothing_is_inferred() -> None:
    assert correlate([execution(start=None, end=None)], [span("claude:a")]).links[0].uid is None
    assert correlate([execution()], [span("claude:a", None, None)]).links[0].uid is None


def test_without_executions_there_is_no_rate() -> None:
    found = correlate([], [span("claude:a")])
    assert (found.rate, found.unmatched_sessions) == (None, ())
