"""Grok sessions: the table of fixtures/grok/README.md, and the rules that no single fixture shows."""

from pathlib import Path

import pytest

from helix_assets.agents.grok.adapter import GrokAdapter
from helix_assets.agents.spec import SessionFacts
from helix_assets.model.event import EventKind
from helix_assets_tests.agents.reading import FIXTURES, feed_all, hash64, read, read_one, record_of

GROK = GrokAdapter()


def update(kind: str, ms: int = 0, meta: dict[str, object] | None = None, **fields: object) -> dict[str, object]:
    params = {"sessionId": "s", "update": {"sessionUpdate": kind, **fields}}
    return {"params": {**params, "_meta": {"agentTimestampMs": 1_787_950_800_000 + ms, **(meta or {})}}}


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("whole-turn", (1000, 300, 3000, 100)),
        ("cancelled", (600, 30, 900, 0)),
        ("refused", (0, 0, 0, None)),
        ("odd-tools", (0, 0, 0, None)),
        ("subagent", (100, 5, 0, 0)),
        ("fork", (30, 7, 20, 0)),
        ("chat-v1", (0, 0, 0, None)),
        ("chat-v0", (0, 0, 0, None)),
    ],
)
def test_tokens_are_those_of_the_table(case: str, expected: tuple[int, ...]) -> None:
    spent = read_one(GROK, case).digest().tokens
    assert (spent.input, spent.output, spent.cache_read, spent.reasoning) == expected


@pytest.mark.parametrize(
    ("case", "tools", "expected"),  # errors, prompts, answers, interrupts, compactions
    [
        ("whole-turn", {"read_file": 1, "run_terminal_command": 1, "search_replace": 1}, (2, 1, 2, 0, 1)),
        ("cancelled", {"run_terminal_command": 1}, (0, 2, 1, 1, 0)),
        ("refused", {}, (0, 0, 0, 0, 0)),
        ("odd-tools", {None: 2, "run_terminal_command": 1, "search_replace": 1}, (2, 1, 0, 0, 0)),
        ("subagent", {}, (0, 0, 1, 0, 0)),
        ("fork", {}, (0, 1, 1, 0, 0)),
        ("chat-v1", {"read_file": 1, "web_search": 1}, (0, 2, 2, 1, 0)),
        ("chat-v0", {"read_file": 1}, (1, 1, 2, 0, 0)),
    ],
)
def test_counts_are_those_of_the_table(case: str, tools: dict[str | None, int], expected: tuple[int, ...]) -> None:
    told = read_one(GROK, case)
    digest = told.digest()
    names = [row.tool for row in told.rows_of(EventKind.TOOL_CALL)]
    counts = (digest.tool_errors, digest.user_prompts, digest.assistant_messages, digest.interrupts, digest.compactions)
    assert {name: names.count(name) for name in names} == tools
    assert counts == expected


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("whole-turn", ("/private/repo", "main", None, "grok-4.6", "Fix the login test")),
        ("subagent", ("/repo", None, "01a04a00-0000-7000-8000-000000000001", "grok-4.6", None)),
        ("chat-v1", ("/repo", None, None, "grok-4.5", "Read it")),
    ],
)
def test_summary_tells_the_session_facts(case: str, expected: tuple[str | None, ...]) -> None:
    facts = read_one(GROK, case).facts
    assert (facts.cwd, facts.git_branch, facts.parent_native_id, facts.model, facts.title) == expected


def test_unknown_updates_are_counted_by_name() -> None:
    assert read_one(GROK, "odd-tools").facts.unknown_types == {"brand_new_thing": 1}


# -- conversation ------------------------------------------------------------------------------------------------------


def test_chunks_are_joined_in_the_order_of_their_event_ids() -> None:
    told = read_one(GROK, "whole-turn")
    assert [event.summary for event in told.of(EventKind.USER_MSG)] == ["fix the login test"]
    assert [event.summary for event in told.of(EventKind.THINKING)] == ["Look at it."]
    assert [event.summary for event in told.of(EventKind.ASSISTANT_MSG)] == ["I'll look first.", "One test fails."]


def test_chunk_that_was_withheld_says_nothing_and_does_not_end_its_message() -> None:
    first, second = (update("agent_message_chunk", content=text(words)) for words in ("one ", "two"))
    facts = SessionFacts()
    parser = GROK.parser("main", facts, hash64)
    for obj in (first, {"type": "helix_withheld", "reason": "redaction_failed", "bytes": 9}, second):
        parser.feed(obj, record_of(GROK, first))
    (said,) = parser.finish()
    assert said.summary == "one two"


def test_message_bears_the_time_of_its_first_chunk() -> None:
    (thought,) = read_one(GROK, "whole-turn").of(EventKind.THINKING)
    assert thought.ts_us == 1_787_950_800_500_000


def test_run_is_not_split_by_a_tool_that_reports_progress() -> None:
    told = feed_all(
        GROK,
        [
            update("agent_message_chunk", content=text("one ")),
            update("tool_call_update", toolCallId="c", status="in_progress"),
            update("hook_execution"),
            update("agent_message_chunk", content=text("message")),
        ],
    )
    assert [event.summary for event in told.of(EventKind.ASSISTANT_MSG)] == ["one message"]


def test_two_prompts_in_a_row_are_two() -> None:
    prompts = [
        update("user_message_chunk", content=text(words), _meta={"promptIndex": index})
        for index, words in enumerate(("first", "second"))
    ]
    assert [event.summary for event in feed_all(GROK, prompts).of(EventKind.USER_MSG)] == ["first", "second"]


def test_open_run_leaves_no_state_to_go_on_from() -> None:
    parser = GROK.parser("main", SessionFacts(), hash64)
    chunk = update("agent_message_chunk", content=text("hal"))
    parser.feed(chunk, record_of(GROK, chunk))
    assert parser.state() is None
    assert [event.summary for event in parser.finish()] == ["hal"]


def test_interjection_in_the_chat_is_an_intervention_not_a_prompt() -> None:
    told = read_one(GROK, "chat-v1")
    assert [event.summary for event in told.of(EventKind.USER_MSG)] == ["read it", "and now?"]
    assert [event.status for event in told.of(EventKind.HUMAN_INTERVENTION)] == ["interjection", "interrupt"]


# -- tools -------------------------------------------------------------------------------------------------------------


def test_exit_code_counts_only_at_the_end_of_a_call() -> None:
    results = {event.call_id: event for event in read_one(GROK, "whole-turn").of(EventKind.TOOL_RESULT)}
    assert (results["c3"].status, results["c3"].exit_code) == ("error", 1)
    assert (results["c2"].status, results["c2"].exit_code) == ("ok", None)


def test_events_are_believed_where_they_contradict_a_completed_update() -> None:
    told = read_one(GROK, "whole-turn")
    said = {event.call_id: event.status for event in told.of(EventKind.TOOL_RESULT)}
    overruled = {event.call_id: event.status for event in told.of(EventKind.LIFECYCLE) if event.call_id}
    assert (said["c1"], overruled["c1"]) == ("ok", "error")
    assert overruled["c3"] is None  # the tool worked; that its command failed is the exit code's to say


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        ("success", None),
        ("error", "error"),
        ("invalid_tool", "error"),
        ("permission_rejected", "denied"),
        ("hook_denied", "denied"),
        ("permission_cancelled", "cancelled"),
        ("cancelled", "cancelled"),
    ],
)
def test_tool_outcomes_have_our_names(outcome: str, status: str | None) -> None:
    row = {"ts": "2026-08-28T22:30:22.790Z", "type": "tool_completed", "tool_call_id": "c", "outcome": outcome}
    (event,) = feed_all(GROK, [row], "events").events
    assert (event.call_id, event.status) == ("c", status)


def test_call_and_edit_carry_what_the_input_says() -> None:
    told = read_one(GROK, "whole-turn")
    (edit,) = told.rows_of(EventKind.EDIT)
    assert (edit.file_path, edit.lines_added, edit.lines_removed) == ("/repo/login.py", 3, 2)
    assert len(told.rows_of(EventKind.TEST_RUN)) == 1


@pytest.mark.parametrize(
    ("old", "new", "added", "removed"),
    [
        ("x", "y", 1, 1),
        ("x", "y\nz", 2, 1),
        ("x\n", "y\nz\n", 2, 1),
        ("x\n", "", 0, 1),
        ("x", "", 1, 1),  # an empty line stays
        ("", "new\nfile\n", 2, 0),
        ("", "new\nbegin of a line", 2, 1),
    ],
)
def test_lines_of_an_edit_are_those_of_its_strings(old: str, new: str, added: int, removed: int) -> None:
    given = {"file_path": "a", "old_string": old, "new_string": new}
    (call,) = feed_all(GROK, [update("tool_call", toolCallId="c", title="search_replace", rawInput=given)]).events
    assert (call.lines_added, call.lines_removed) == (added, removed)


def test_input_that_comes_with_a_later_update_belongs_to_the_call() -> None:
    calls = {event.call_id: event for event in read_one(GROK, "odd-tools").of(EventKind.TOOL_CALL)}
    assert (calls["late"].tool, calls["late"].file_path, calls["late"].lines_added) == ("search_replace", "a.ts", 1)


def test_id_used_again_after_its_result_is_another_call() -> None:
    calls = [(event.call_id, event.tool) for event in read_one(GROK, "odd-tools").of(EventKind.TOOL_CALL)]
    assert calls[:2] == [("same", None), ("same+", "run_terminal_command")]


def test_call_without_input_is_told_at_the_end_of_the_file() -> None:
    parser = GROK.parser("main", SessionFacts(), hash64)
    call = update("tool_call", toolCallId="c", title="list_dir")
    assert parser.feed(call, record_of(GROK, call)) == []
    assert parser.state() is None
    assert [event.tool for event in parser.finish()] == ["list_dir"]


# -- turns -------------------------------------------------------------------------------------------------------------


def test_turn_told_twice_counts_once() -> None:
    told = read_one(GROK, "whole-turn")
    usages = [event for event in told.events if event.usage]
    assert [usage.message_id for usage in usages] == ["11111111-1111-4111-8111-111111111111"] * 2
    assert len(told.of(EventKind.COMPLETION)) == 1


def test_ticks_are_ten_billionths_of_a_dollar() -> None:
    costs = {event.cost_usd for event in read_one(GROK, "whole-turn").events if event.usage}
    assert costs == {0.0084868}


def test_refused_turn_is_one_api_error_after_a_retry() -> None:
    told = read_one(GROK, "refused")
    assert [(event.summary, event.model) for event in told.of(EventKind.ERROR)] == [
        ("API error (status 402)", "grok-4.6")
    ]
    assert len(told.of(EventKind.RETRY)) == 1


def test_blanked_prompt_id_is_not_matched_across_sessions() -> None:
    told = feed_all(GROK, [update("turn_completed", prompt_id="P", usage={"inputTokens": 1})])
    assert [event.message_id for event in told.events] == ["turn:P"]


# -- files -------------------------------------------------------------------------------------------------------------


def test_discovery_yields_the_five_files_of_a_session_and_nothing_else(tmp_path: Path) -> None:
    session = tmp_path / "sessions" / "%2Frepo" / "id-1"
    (session / "subagents" / "x").mkdir(parents=True)
    wanted = {"summary.json": "about", "signals.json": "about", "events.jsonl": "events"}
    wanted |= {"updates.jsonl": "main", "chat_history.jsonl": "fallback"}
    for name in [*wanted, "source-v1.jsonl", "usage.json", "subagents/x/meta.json"]:
        (session / name).write_text("{}")
    (tmp_path / "auth.json").write_text("{}")
    (session.parent / "prompt_history.jsonl").write_text("{}")
    found = list(GROK.discover(str(tmp_path), []))
    assert {(Path(file.path).name, file.role, file.native_id) for file in found} == {
        (name, role, "id-1") for name, role in wanted.items()
    }


def test_chat_history_is_left_aside_where_updates_exist() -> None:
    answers = [event.summary for event in read_one(GROK, "whole-turn").of(EventKind.ASSISTANT_MSG)]
    assert "twice told" not in answers


def test_folder_names_the_working_folder() -> None:
    path = "/home/u/.grok/sessions/%2Fhome%2Fu%2Fmy%20app/id-1/updates.jsonl"
    assert GROK.cwd_from_head(path, b"") == "/home/u/my app"


def test_working_folder_too_long_for_a_name_lies_in_a_file(tmp_path: Path) -> None:
    place = tmp_path / "a-slug-0123456789abcdef"
    place.mkdir()
    (place / ".cwd").write_text("/very/long/path\n")
    assert GROK.cwd_from_head(str(place / "id-1" / "updates.jsonl"), b"") == "/very/long/path"
    assert GROK.cwd_from_head(str(tmp_path / "none" / "id-1" / "updates.jsonl"), b"") is None


def test_chat_history_beside_updates_names_models_and_nothing_else() -> None:
    rows = [{"type": "user", "content": "hi"}, {"type": "assistant", "content": "ho", "model_id": "grok-4.6"}]
    assert [(event.kind, event.model) for event in feed_all(GROK, rows, "aside").events] == [(None, "grok-4.6")]


def test_times_of_a_session_without_dated_lines_are_its_summarys() -> None:
    facts = read_one(GROK, "chat-v1").facts
    assert (facts.said_start_us, facts.said_end_us) == (1_787_950_800_000_000, 1_787_950_808_000_000)


@pytest.mark.parametrize(
    ("obj", "ts_us"),
    [
        ({"timestamp": 1787956222, "params": {"_meta": {"agentTimestampMs": 1787956221679}}}, 1787956221679000),
        ({"timestamp": 1787956222, "params": {}}, 1787956222000000),
        ({"ts": "2026-08-28T22:30:20.714Z", "type": "phase_changed"}, 1787956220714000),
        ({"ts": 1787956220714, "type": "phase_changed"}, 1787956220714000),
        ({"timestamp": "soon", "params": {}}, None),
    ],
)
def test_lines_are_dated_by_the_finest_clock_they_bear(obj: dict[str, object], ts_us: int | None) -> None:
    assert GROK.identify(obj).ts_us == ts_us


def test_every_fixture_is_one_session() -> None:
    cases = [path for path in (FIXTURES / "grok").iterdir() if path.is_dir()]
    assert [len(read(GROK, case)) for case in cases] == [1] * len(cases)
