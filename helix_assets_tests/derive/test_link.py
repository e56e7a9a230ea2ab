"""What the linker derives of calls and their results: test runs and retries."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest

from helix_assets.derive.link import Linker
from helix_assets.model.event import EventKind, Record, Row, SessionEvent
from helix_assets_tests.agents.reading import WORDS, Told

TWO_RUNS = "12 passed in 0.31s\n1 failed, 2 passed in 2.04s"


def record(line: int) -> Record:
    return Record(line, 0, line, 0, line, None, None, line, "x", b"{}")


def called(call_id: str, *, command: str = "pytest", test: str | None = "pytest", **more: Any) -> SessionEvent:
    detail = json.dumps({"program": command, "test": test} if test else {"program": command})
    return SessionEvent(
        EventKind.TOOL_CALL, tool="Bash", call_id=call_id, detail=detail, input_hash=hash(command), **more
    )


def gave(call_id: str, text: str | None, status: str = "ok", **more: Any) -> SessionEvent:
    return SessionEvent(EventKind.TOOL_RESULT, call_id=call_id, status=status, text=text, **more)


def linked(*events: SessionEvent, resume_before: int | None = None) -> list[Row]:
    """The rows of events that stand one to a record; at `resume_before` another linker takes over."""
    linker, rows = Linker(WORDS), list[Row]()
    for line, event in enumerate(events):
        if line == resume_before:
            linker = Linker(WORDS)
            linker.resume(rows)
        rows += linker.rows(record(line), [event])
    return rows


def kinds(rows: list[Row]) -> list[str | None]:
    return [row.kind for row in rows]


def test_every_run_of_a_result_follows_it():
    rows = linked(called("a"), gave("a", TWO_RUNS, "error", exit_code=1))
    assert kinds(rows) == ["tool_call", "tool_result", "test_run", "test_run", "error"]
    assert [(row.status, row.summary, row.call_id) for row in rows[2:4]] == [
        ("ok", "pytest: 12 passed", "a"),
        ("error", "pytest: 2 passed, 1 failed", "a"),
    ]


def test_run_tells_its_counts_in_its_detail():
    (run,) = (row for row in linked(called("a"), gave("a", "5 passed in 0.50s")) if row.kind == "test_run")
    assert json.loads(run.detail or "") == {
        "framework": "pytest", "passed": 5, "failed": 0, "skipped": 0, "total": 5, "duration_s": 0.5, "success": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    "result",
    [gave("a", "5 passed in 0.5s", "denied"), gave("a", "5 passed in 0.5s", "cancelled"), gave("a", None)],
    ids=["denied", "cancelled", "in the background"],
)
def test_call_that_was_not_carried_out_ran_no_tests(result: SessionEvent):
    assert "test_run" not in kinds(linked(called("a"), result))


def begun(text: str | None = None) -> list[SessionEvent]:
    """Tests that go on in the background, and a call that looks at them."""
    look = SessionEvent(EventKind.TOOL_CALL, tool="BashOutput", call_id="b", detail='{"polls":"bash_1"}')
    return [called("a"), gave("a", None, detail='{"background":"bash_1"}'), look, gave("b", text)]


def test_look_at_tests_in_the_background_tells_their_run():
    rows = linked(*begun("<status>completed</status>\n<stdout>\n5 passed in 0.5s\n</stdout>"))
    assert [row.call_id for row in rows if row.kind == "test_run"] == ["b"]


def test_look_at_unfinished_or_other_commands_tells_no_run():
    other = [event._replace(detail=event.detail and event.detail.replace("_1", "_2")) for event in begun()[2:]]
    rows = linked(*begun("collecting ..."), *(event._replace(call_id="c") for event in other))
    assert "test_run" not in kinds(rows)


@pytest.mark.parametrize("place", range(1, 6))
def test_summary_that_is_told_again_counts_once(place: int):
    again = [event._replace(call_id="c") for event in begun("5 passed in 0.5s")[2:]]
    rows = linked(*begun("5 passed in 0.5s"), *again, resume_before=place)
    assert kinds(rows).count("test_run") == 1


def test_output_of_another_command_is_no_run():
    assert "test_run" not in kinds(linked(called("a", command="cat log", test=None), gave("a", "5 passed in 0.5s")))


def test_failure_without_a_summary_or_an_exit_code_is_a_failed_run():
    (run,) = (row for row in linked(called("a"), gave("a", "boom", "error")) if row.kind == "test_run")
    assert (run.status, run.summary) == ("error", "pytest: no counts")


@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_linker_that_takes_over_goes_on_as_if_nothing_had_happened(place: int):
    events = [called("a"), gave("a", TWO_RUNS, "error"), called("b"), gave("b", "5 passed in 0.5s"), called("c")]
    assert linked(*events, resume_before=place) == linked(*events)


def test_same_call_right_after_its_failure_is_a_retry():
    rows = linked(called("a"), gave("a", "boom", "error"), called("b"), gave("b", "fine"), called("c"))
    assert kinds(rows).count("retry") == 1


def test_same_call_after_other_work_is_no_retry():
    rows = linked(called("a"), gave("a", "boom", "error"), called("b", command="sed"), gave("b", ""), called("c"))
    assert "retry" not in kinds(rows)


def test_call_of_another_thread_does_not_come_between():
    other = called("b", command="ls", is_sidechain=True, agent_id="x")
    assert "retry" in kinds(linked(called("a"), gave("a", "boom", "error"), other, called("c")))


def test_two_calls_that_failed_side_by_side_are_two_retries():
    first = [called("a"), called("b", command="tox"), gave("a", "boom", "error"), gave("b", "boom", "error")]
    rows = linked(*first, called("c"), called("d", command="tox"))
    assert kinds(rows).count("retry") == 2


def test_digest_tallies_runs_and_the_last_of_them():
    told = Told(rows=linked(called("a"), gave("a", TWO_RUNS, "error"), called("b"), gave("b", "?", "ok")))
    assert asdict(told.digest().tests) == {
        "runs": 3, "passed": 1, "failed": 1, "last": None, "by_framework": {"pytest": 3},
    }  # fmt: skip
