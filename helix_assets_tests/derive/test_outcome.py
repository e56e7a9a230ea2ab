"""How sessions ended: the hand-made ones through the real engine, and single rules by rows."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from helix_assets.derive.outcome.ending import RULES, Ending, Verdict, judge
from helix_assets.model.event import EventKind, Row
from helix_assets_tests.agents.reading import WORDS
from helix_assets_tests.home import Memory
from helix_assets_tests.outcomes.all_sessions import HAND_MADE
from helix_assets_tests.outcomes.steps import HandMade
from helix_assets_tests.outcomes.writers import uid, write

DOCS = Path(__file__).parents[2] / "docs" / "outcome.md"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The outcome of every hand-made session, swept like any other."""
    memory = Memory(tmp_path_factory.mktemp("hand-made"))
    for session in HAND_MADE:
        write(session, memory.folder / "home")
    memory.sweep()
    found = {uid(session): memory.digest(uid(session))["outcome"] for session in HAND_MADE}
    memory.close()
    return found


@pytest.mark.parametrize("session", HAND_MADE, ids=lambda session: f"{session.flavor}: {session.name}")
def test_hand_made_session_ends_as_a_reader_says(session: HandMade, outcomes: dict[str, str]) -> None:
    assert outcomes[uid(session)] == session.label


def test_documents_state_every_rule_in_order() -> None:
    assert re.findall(r"^\| `(\w+)` \|", DOCS.read_text("utf-8"), re.M) == [rule.name for rule in RULES]


# -- single rules --------------------------------------------------------------------------------------------------


def row(kind: EventKind, summary: str = "", *, text: str | None = None, does: str | None = None, **more: Any) -> Row:
    """A light row of the main thread."""
    detail = {"text": text} if text else {"does": [does]} if does else None
    values: dict[str, Any] = dict.fromkeys(Row._fields)
    values |= {"kind": kind.value, "summary": summary, "is_sidechain": False, "native_type": "test"}
    return Row(**{**values, "detail": orjson.dumps(detail).decode() if detail else None, **more})


def prompt(text: str, **more: Any) -> list[Row]:
    return [row(EventKind.USER_MSG, text, **more)]


def reply(summary: str, **more: Any) -> list[Row]:
    return [row(EventKind.ASSISTANT_MSG, summary, **more)]


_numbers = itertools.count()


def ran(status: str = "ok", does: str | None = None, **more: Any) -> Iterator[Row]:
    """A call with its result."""
    call_id = f"c{next(_numbers)}"
    yield row(EventKind.TOOL_CALL, "Bash", tool="Bash", call_id=call_id, does=does)
    yield row(EventKind.TOOL_RESULT, call_id=call_id, status=status, **more)


def run_tests(status: str | None) -> Iterator[Row]:
    """A command that runs tests."""
    for each in ran(status or "ok"):
        yield each
        if each.kind == EventKind.TOOL_RESULT:
            yield row(EventKind.TEST_RUN, call_id=each.call_id, status=status)


def edited(path: str = "/w/a.py", status: str = "ok") -> Iterator[Row]:
    call_id = f"c{next(_numbers)}"
    yield row(EventKind.TOOL_CALL, "Edit", tool="Edit", call_id=call_id, file_path=path)
    yield row(EventKind.TOOL_RESULT, call_id=call_id, status=status)


def verdict(*parts: Any, overruled: dict[str, str] | None = None) -> Verdict:
    ending = Ending(WORDS)
    for part in parts:
        for each in part:
            ending.add(each)
    return judge(ending, overruled or {})


def test_an_empty_session_asks_nothing() -> None:
    assert verdict() == Verdict("unknown", "nothing_was_asked", "high")


def test_a_red_run_that_was_edited_after_no_longer_counts_against_it() -> None:
    assert verdict(prompt("fix it"), run_tests("error"), edited(), reply("Fixed the parser.")) == Verdict(
        "success", "done_but_not_tested_again", "low"
    )


def test_red_tests_of_an_earlier_turn_are_left_behind() -> None:
    found = verdict(
        prompt("run them"), run_tests("error"), reply("One fails."), prompt("add b"), edited(), reply("Added b.")
    )
    assert found.reason == "says_done_after_edits"


def test_green_tests_without_a_word_prove_nothing() -> None:
    assert verdict(prompt("go on"), run_tests("ok"), reply("The queue drains in order")).outcome == "unknown"


def test_a_run_whose_output_tells_nothing_ends_as_its_command() -> None:
    rows = list(run_tests(None))
    overruled = {str(rows[0].call_id): "error"}
    assert verdict(prompt("go on"), rows, reply("Done."), overruled=overruled).reason == "last_tests_failed"


def test_one_red_run_of_a_command_outweighs_its_green_ones() -> None:
    rows = list(run_tests("error"))
    rows.append(rows[-1]._replace(status="ok"))
    assert verdict(prompt("go on"), rows, reply("Done.")).reason == "last_tests_failed"


def test_nothing_to_commit_is_no_refusal() -> None:
    commit = ran("error", "commit", summary="On branch main nothing to commit, working tree clean")
    assert verdict(prompt("commit"), commit, reply("Everything is committed already. Done.")).outcome == "success"


def test_a_later_commit_makes_good_for_a_refused_one() -> None:
    found = verdict(prompt("commit"), ran("error", "commit"), ran("ok", "commit"), reply("Committed as 1a2b3c4."))
    assert found == Verdict("success", "committed", "high")


def test_all_of_a_long_reply_counts() -> None:
    around = "The module has three parts and each of them needs attention for different reasons. " * 12
    middle = reply(around[:199] + "…", text=f"{around}\nAll tests pass: 51 passed.\n{around}")
    assert verdict(prompt("tidy up"), edited(), middle).reason == "says_done_after_edits"
    end = reply(around[:199] + "…", text=f"{around} so I could not finish the third one.")
    assert verdict(prompt("tidy up"), edited(), end).reason == "agent_says_it_failed"


def test_rows_of_earlier_versions_have_only_the_end_of_a_long_reply() -> None:
    long = reply("The module has three parts…")[0]._replace(detail='{"end": "so I could not finish the third one."}')
    assert verdict(prompt("tidy up"), edited(), [long]).reason == "agent_says_it_failed"


WORDLESS = "The header keeps its height while the list below it scrolls."


@pytest.mark.parametrize(
    ("proof", "expected"),
    [
        ([edited(), run_tests("ok")], ("success", "proven_without_a_word", "medium")),
        ([edited(), ran("ok", "build")], ("success", "proven_without_a_word", "medium")),
        ([edited(), ran("ok", "commit")], ("success", "proven_without_a_word", "medium")),
        ([ran("ok", "push")], ("success", "proven_without_a_word", "medium")),
        ([run_tests("ok")], ("unknown", "nothing_tells", "low")),  # green, but nothing was made
        ([run_tests("ok"), edited()], ("unknown", "nothing_tells", "low")),  # older than what was made
        ([ran("ok", "commit"), edited()], ("unknown", "nothing_tells", "low")),
        ([edited(), ran("ok", "build"), ran("error", "lint")], ("fail", "last_build_failed", "medium")),
        ([edited(), run_tests("error")], ("fail", "last_tests_failed", "high")),
    ],
)
def test_facts_decide_where_the_reply_says_nothing(proof: list[Iterator[Row]], expected: tuple[str, str, str]) -> None:
    rows = [list(part) for part in proof]
    assert verdict(prompt("make the header sticky"), *rows, reply(WORDLESS)) == Verdict(*expected)


@pytest.mark.parametrize(
    "last",
    [
        "The build of the old branch still fails.",
        "I couldn't get the emulator to start.",
        "Two warnings remain.",
        "Should I also update the changelog?",
    ],
)
def test_facts_outweigh_the_wording_of_the_last_sentence(last: str) -> None:
    found = verdict(prompt("fix the parser"), edited(), run_tests("ok"), reply(f"{WORDLESS} {last}"))
    assert found.outcome == "success"


def test_lint_errors_beside_work_that_is_called_done_raise_no_alarm() -> None:
    found = verdict(prompt("add the flag"), edited(), ran("error", "lint"), reply("Added the flag and its docs."))
    assert found.outcome == "success"


def test_failure_of_somebody_else_that_is_explained_raises_no_alarm() -> None:
    said = reply("The deployment failed because the project is on the free plan.")
    assert verdict(prompt("here is the log of the pipeline"), ran("ok"), said).outcome == "unknown"
    assert verdict(prompt("deploy it"), ran("error"), said).outcome == "fail"


def test_next_step_after_a_result_means_that_more_was_to_come() -> None:
    said = reply("The types are fixed. Now let me run the whole suite:")
    assert verdict(prompt("go on"), edited(), said).reason == "announced_and_stopped"


def test_an_answer_about_failures_is_no_failure() -> None:
    found = verdict(prompt("why did the deploy fail?"), ran(), reply("The push was rejected by the registry."))
    assert found == Verdict("success", "question_answered", "medium")


def test_what_an_aborted_turn_flushes_late_does_not_undo_the_interrupt() -> None:
    stop = [row(EventKind.HUMAN_INTERVENTION, status="interrupt")]
    assert verdict(prompt("go on"), stop, ran()).reason == "ended_on_interrupt"


def test_a_prompt_after_an_api_error_that_nothing_answers_is_the_errors_fault() -> None:
    error = [row(EventKind.ERROR, "limit reached", role="assistant")]
    assert verdict(prompt("go on"), error, prompt("continue")).reason == "ended_on_api_error"


def test_a_made_up_reply_of_the_program_is_none() -> None:
    found = verdict(prompt("go on"), ran(), reply("No response requested.", model="<synthetic>"))
    assert found.reason == "ended_on_a_result"


def test_naming_the_edited_file_is_an_answer() -> None:
    found = verdict(prompt("speed it up"), edited("/w/fast.py"), reply("`fast.py` reads in blocks of 1 MB."))
    assert found == Verdict("success", "names_what_it_edited", "low")


def test_a_refusal_found_out_later_counts() -> None:
    rows = list(ran("error"))
    assert verdict(prompt("x"), rows, overruled={str(rows[0].call_id): "denied"}).reason == "ended_on_a_refusal"


def test_a_subagents_life_is_left_out_by_the_caller_and_unknown_kinds_do_no_harm() -> None:
    assert verdict(prompt("what is it?"), [row(EventKind.DECISION)], reply("A cache.")).outcome == "success"
