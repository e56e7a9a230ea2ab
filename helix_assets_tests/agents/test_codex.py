"""Codex rollouts: the table of fixtures/codex/README.md, and the rules that no single fixture shows."""

import json
from pathlib import Path

import pytest

from helix_assets.agents.codex.adapter import CodexAdapter
from helix_assets.model.digest import Digest
from helix_assets.model.errors import Problem
from helix_assets.model.event import EventKind
from helix_assets_tests.agents.reading import feed_all, read_one

CODEX = CodexAdapter()
THREAD = "01998000-0000-7000-8000-000000000040"


def tokens(digest: Digest) -> tuple[int, int, int, int, int | None]:
    spent = digest.tokens
    return spent.input, spent.output, spent.cache_read, spent.cache_write, spent.reasoning


def line(kind: str, second: float = 0, **payload: object) -> dict[str, object]:
    outer, _, inner = kind.partition("/")
    body = {"type": inner, **payload} if inner else payload
    return {"timestamp": f"2026-01-01T00:00:{second:06.3f}Z", "type": outer, "payload": body}


def count(total: tuple[int, int, int], last: tuple[int, int, int] | None, second: float = 0) -> dict[str, object]:
    def usage(figures: tuple[int, int, int]) -> dict[str, int]:
        return dict(zip(("input_tokens", "cached_input_tokens", "output_tokens"), figures, strict=True))

    info = {"total_token_usage": usage(total)} | ({"last_token_usage": usage(last)} if last else {})
    return line("event_msg/token_count", second, info=info)


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("bare-2025", (0, 0, 0, 0, None)),
        ("shell-0.40", (1600, 90, 1600, 0, 20)),
        ("resume-0.36", (200, 30, 400, 0, 0)),
        ("fork-restamped", (300, 40, 500, 0, 10)),
        ("fork-kept-times", (100, 15, 300, 0, 0)),
        ("subagent-history", (1000, 100, 29000, 0, 60)),
        ("paginated-0.152", (1700, 310, 4500, 300, 40)),
        ("unified-exec-0.142", (900, 40, 0, 0, 0)),
    ],
)
def test_tokens_are_those_of_the_table(case: str, expected: tuple[int, ...]) -> None:
    assert tokens(read_one(CODEX, case).digest()) == expected


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("bare-2025", {"local_shell": 1, "shell": 1}),
        ("shell-0.40", {"shell": 5}),
        ("resume-0.36", {}),
        ("fork-restamped", {}),
        ("fork-kept-times", {}),
        ("subagent-history", {}),
        ("paginated-0.152", {"apply_patch": 1, "exec_command": 1}),
        ("unified-exec-0.142", {"create_issue": 1, "exec_command": 1, "web_search": 1, "write_stdin": 2}),
    ],
)
def test_tools_are_those_of_the_table(case: str, expected: dict[str, int]) -> None:
    assert read_one(CODEX, case).digest().tool_histogram == expected


@pytest.mark.parametrize(
    ("case", "expected"),  # prompts, answers, interrupts, errors, denied, compactions
    [
        ("bare-2025", (1, 1, 0, 1, 0, 0)),
        ("shell-0.40", (2, 1, 1, 3, 1, 0)),
        ("resume-0.36", (1, 1, 0, 0, 0, 0)),
        ("fork-restamped", (1, 1, 0, 0, 0, 0)),
        ("fork-kept-times", (1, 1, 0, 0, 0, 0)),
        ("subagent-history", (0, 1, 0, 0, 0, 0)),
        ("paginated-0.152", (1, 1, 0, 1, 0, 1)),
        ("unified-exec-0.142", (2, 0, 1, 2, 0, 0)),
    ],
)
def test_counts_are_those_of_the_table(case: str, expected: tuple[int, ...]) -> None:
    told = read_one(CODEX, case).digest()
    conversation = (told.user_prompts, told.assistant_messages, told.interrupts)
    assert (*conversation, told.tool_errors, told.tool_denied, told.compactions) == expected


@pytest.mark.parametrize(
    ("case", "expected"),
    [
        ("bare-2025", ("/repo", "trunk", None, None)),
        ("shell-0.40", ("/repo", "main", None, "gpt-5-codex")),
        ("resume-0.36", ("/repo", "main", "bbbbbbbb-0000-4000-8000-000000000035", "gpt-5")),
        ("fork-restamped", ("/repo", "fork", "019ee40b-3400-7000-8000-000000000200", "gpt-5.5")),
        ("subagent-history", ("/repo", None, "019f2000-0000-7000-8000-000000000060", "gpt-5.6-sol")),
    ],
)
def test_session_facts_are_those_of_the_first_meta(case: str, expected: tuple[str | None, ...]) -> None:
    facts = read_one(CODEX, case).facts
    assert (facts.cwd, facts.git_branch, facts.parent_native_id, facts.model) == expected


def test_no_fixture_holds_an_unknown_type() -> None:
    cases = [path.name for path in Path(__file__).parents[1].joinpath("fixtures/codex").iterdir() if path.is_dir()]
    assert {case: read_one(CODEX, case).facts.unknown_types for case in cases} == {case: {} for case in cases}


# -- copied history ----------------------------------------------------------------------------------------------------


def test_prompt_that_follows_the_copied_history_at_once_is_the_forks_own() -> None:
    prompts = [event.summary for event in read_one(CODEX, "fork-restamped").of(EventKind.USER_MSG)]
    assert prompts == ["the fork's question"]


def test_copied_lines_do_not_date_the_session() -> None:
    assert read_one(CODEX, "fork-kept-times").facts.own_since_us == 1_772_442_000_000_000  # 2026-03-02T09:00Z


def test_prompt_given_with_a_resume_counts_though_the_answer_ends_the_copying() -> None:
    told = feed_all(
        CODEX,
        [
            line("session_meta", id="own", timestamp="2026-01-01T00:00:00Z", cli_version="0.36.0"),
            line("session_meta", id="source", timestamp="2025-12-31T00:00:00Z"),
            line("event_msg/user_message", 0.01, message="old prompt"),
            line("event_msg/agent_message", 0.01, message="old answer"),
            line("event_msg/user_message", 0.02, message="own prompt"),
            line("response_item/message", 5, role="assistant", content="own answer"),
        ],
    )
    assert [event.summary for event in told.of(EventKind.USER_MSG)] == ["own prompt"]


def test_copied_history_that_ends_on_a_prompt_gives_the_fork_none() -> None:
    old = {"timestamp": "2025-12-31T00:00:00Z", "type": "event_msg"}
    told = feed_all(
        CODEX,
        [
            line("session_meta", id="own", forked_from_id="source", timestamp="2026-01-01T00:00:00Z"),
            old | {"payload": {"type": "user_message", "message": "old prompt"}},
            line("turn_context", 0.1, model="gpt-5"),
            line("event_msg/user_message", 9, message="own prompt"),
        ],
    )
    assert [event.summary for event in told.of(EventKind.USER_MSG)] == ["own prompt"]


def test_fork_without_copied_history_counts_from_its_first_turn() -> None:
    told = feed_all(
        CODEX,
        [
            line("session_meta", id="own", forked_from_id="source", timestamp="2026-01-01T00:00:00Z"),
            line("event_msg/task_started", 0.2, turn_id="019b76da-a8c8-7000-8000-000000000000"),
            count((10, 0, 1), (10, 0, 1), 0.3),
        ],
    )
    assert told.digest().tokens.input == 10


def test_session_meta_in_mid_file_copies_nothing() -> None:
    told = feed_all(
        CODEX,
        [
            line("session_meta", id="own", timestamp="2026-01-01T00:00:00Z"),
            line("event_msg/task_started", 1),
            line("session_meta", 2, id="another", timestamp="2026-01-01T00:00:00Z"),
            count((10, 0, 1), (10, 0, 1), 3),
        ],
    )
    assert told.digest().tokens.input == 10
    assert told.facts.parent_native_id is None


# -- tokens ------------------------------------------------------------------------------------------------------------


def test_equal_requests_both_count_when_the_total_grew() -> None:
    told = feed_all(CODEX, [count((10, 0, 1), (10, 0, 1)), count((20, 0, 2), (10, 0, 1))])
    assert told.digest().tokens.input == 20


def test_unchanged_total_says_nothing_new_whatever_last_says() -> None:
    told = feed_all(CODEX, [count((30, 0, 3), (10, 0, 1)), count((30, 0, 3), (0, 0, 0)), count((30, 0, 3), (7, 0, 1))])
    assert told.digest().tokens.input == 10


def test_total_that_restarts_at_the_same_figure_counts() -> None:
    told = feed_all(CODEX, [count((30, 0, 3), (10, 0, 1)), count((30, 0, 3), (30, 0, 3))])
    assert told.digest().tokens.input == 40


def test_growth_of_the_total_counts_where_last_is_missing() -> None:
    told = feed_all(CODEX, [count((10, 0, 1), None), count((25, 5, 2), None), count((4, 0, 1), None)])
    assert (told.digest().tokens.input, told.digest().tokens.cache_read) == (24, 5)


def test_cached_input_is_never_more_than_input() -> None:
    told = feed_all(CODEX, [count((10, 50, 1), (10, 50, 1))])
    assert (told.digest().tokens.input, told.digest().tokens.cache_read) == (0, 10)


def test_token_count_counts_again_where_usage_records_stop() -> None:
    record = line("token_usage_record", thread_id="t", response_id="r", usage={"input_tokens": 5, "output_tokens": 1})
    told = feed_all(CODEX, [record, count((5, 0, 1), (5, 0, 1)), count((8, 0, 1), (3, 0, 0))])
    assert told.digest().tokens.input == 8


# -- conversation and tools --------------------------------------------------------------------------------------------


def test_prompt_told_by_an_item_and_an_event_counts_once_without_a_version() -> None:
    item = line("response_item/message", role="user", content=[{"type": "input_text", "text": "hello"}])
    event = line("event_msg/user_message", message="hello")
    assert len(feed_all(CODEX, [item, event]).of(EventKind.USER_MSG)) == 1


def test_item_that_no_event_confirms_is_no_prompt_in_a_versioned_rollout() -> None:
    meta = line("session_meta", id="own", cli_version="0.153.0")
    item = line("response_item/message", role="user", content="<brand_new_context>x</brand_new_context>")
    event = line("event_msg/user_message", message="hello")
    told = feed_all(CODEX, [meta, item, event, item])
    assert [prompt.summary for prompt in told.of(EventKind.USER_MSG)] == ["hello"]


def test_items_are_the_prompts_of_a_versioned_rollout_without_any_event() -> None:
    meta = line("session_meta", id="own", cli_version="0.98.0")
    items = [line("response_item/message", role="user", content=text) for text in ("first", "second")]
    told = feed_all(CODEX, [meta, *items])
    assert [prompt.summary for prompt in told.of(EventKind.USER_MSG)] == ["first", "second"]


def test_command_that_goes_on_gets_its_result_when_a_later_poll_sees_its_end() -> None:
    results = read_one(CODEX, "unified-exec-0.142").of(EventKind.TOOL_RESULT)
    ended = {event.call_id: (event.status, event.exit_code) for event in results}
    assert ended["e1"] == ("error", 1)
    assert ended["w2"] == ("ok", None)


def test_finished_item_overrules_what_the_output_text_says() -> None:
    told = read_one(CODEX, "paginated-0.152")
    ends = [event for event in told.of(EventKind.LIFECYCLE) if event.call_id == "call_a"]
    assert [(end.status, end.exit_code, end.duration_ms) for end in ends] == [("error", 1, 1900)]


def test_patch_in_a_shell_command_is_an_edit() -> None:
    edits = read_one(CODEX, "shell-0.40").rows_of(EventKind.EDIT)
    assert [(row.file_path, row.lines_added, row.lines_removed) for row in edits] == [("src/a.py", 2, 1)]


def test_patch_of_several_files_names_them_all() -> None:
    (call,) = [event for event in read_one(CODEX, "paginated-0.152").of(EventKind.TOOL_CALL) if event.lines_added]
    assert (call.lines_added, call.lines_removed) == (2, 0)
    assert json.loads(call.detail or "{}")["files"] == ["new.py", "old.py"]


def test_call_id_used_again_before_an_answer_is_another_call() -> None:
    calls = [line("response_item/function_call", name=name, call_id="x") for name in ("shell", "apply_patch")]
    assert feed_all(CODEX, calls).digest().tool_histogram == {"apply_patch": 1, "shell": 1}


@pytest.mark.parametrize(
    ("output", "status", "exit_code"),
    [
        ("Exit code: 0\nWall time: 0 seconds\nOutput:\nProcess exited with code 9", "ok", 0),
        ("Chunk ID: a\nWall time: 0.1 seconds\nProcess exited with code -1\nOutput:\n", "error", -1),
        ('{"output":"x","metadata":{"exit_code":3,"duration_seconds":0.1}}', "error", 3),
        ({"output": "x", "metadata": {"exit_code": 0}}, "ok", 0),
        ("apply_patch verification failed: no such line", "error", None),
        ("execution error: No such file or directory (os error 2)", "error", None),
        ("patch rejected by user", "denied", None),
        ("aborted by user after 0.2s", "cancelled", None),
        ("Plan updated", "ok", None),
        ({"type": "input_text", "text": "a.txt"}, "ok", None),
        (None, "ok", None),
    ],
)
def test_output_tells_how_the_call_ended(output: object, status: str, exit_code: int | None) -> None:
    (result,) = feed_all(CODEX, [line("response_item/function_call_output", call_id="x", output=output)]).events
    assert (result.status, result.exit_code) == (status, exit_code)


def test_failed_turn_is_an_error_and_an_end() -> None:
    told = read_one(CODEX, "unified-exec-0.142")
    assert [event.summary for event in told.of(EventKind.ERROR)] == ["stream disconnected before completion"]
    assert len(told.of(EventKind.COMPLETION)) == 1


def test_first_cli_wrote_one_object_per_session() -> None:
    told = read_one(CODEX, "document-2025")
    assert (told.digest().user_prompts, told.digest().tool_calls) == (1, 1)


# -- files -------------------------------------------------------------------------------------------------------------


def test_discovery_yields_rollouts_and_nothing_else(tmp_path: Path) -> None:
    wanted = [
        f"sessions/2026/01/02/rollout-2026-01-02T03-04-05-{THREAD}.jsonl",
        f"sessions/rollout-2025-06-01T00-00-00-{THREAD}.jsonl",
        f"archived_sessions/rollout-2026-01-03T00-00-00-{THREAD}.jsonl.zst",
    ]
    others = [
        "auth.json",
        "config.toml",
        "history.jsonl",
        "sessions/auth.json",
        "sessions/2026/01/02/notes.jsonl",
        f"sessions/2026/01/02/rollout-2026-01-02T03-04-05-{THREAD}.jsonl.zst",  # the plain one is still there
        f"sessions/2026/01/02/rollout-2026-01-02T03-04-05-{THREAD}.jsonl.tmp",
    ]
    for name in wanted + others:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    problems: list[Problem] = []
    found = {file.path for file in CODEX.discover(str(tmp_path), problems)}
    assert found == {str(tmp_path / name) for name in wanted}
    assert problems == []


def test_link_that_looks_like_a_rollout_is_a_problem_not_a_file(tmp_path: Path) -> None:
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions/rollout-x.jsonl").symlink_to(tmp_path / "auth.json")
    problems: list[Problem] = []
    assert list(CODEX.discover(str(tmp_path), problems)) == []
    assert [problem.reason for problem in problems] == ["skipped: it is a link"]


@pytest.mark.parametrize(
    ("name", "head", "native_id"),
    [
        (f"rollout-2026-01-02T03-04-05-{THREAD}.jsonl", b"", THREAD),
        (f"rollout-2026-01-02T03-04-05-{THREAD}_019f0000-0000-7000-8000-000000000001.jsonl", b"", THREAD),
        ("rollout-odd.jsonl.zst", b"", "odd"),
        ("rollout-x.jsonl", b'{"type":"session_meta","payload":{"session_id":"root","id":"own"}}\n', "own"),
        ("rollout-x.jsonl", b'{"type":"session_meta","payload":{"session_id":"root","id":"own","base_inst', "own"),
        ("rollout-x.jsonl", b'{"id":"c27a914d","timestamp":"2025-08-20T13:20:47Z"}\n', "c27a914d"),
        ("rollout-x.jsonl", b'not json\n{"type":"session_meta","payload":{"id":"own"}}\n', "own"),
        ("rollout-x.jsonl", b'{"type":"response_item","payload":{"id":"item"}}\n', "x"),
    ],
)
def test_thread_is_named_by_its_first_meta_else_by_its_file(name: str, head: bytes, native_id: str) -> None:
    assert CODEX.native_id_from_head(f"/home/.codex/sessions/{name}", head) == native_id


def test_working_folder_is_read_from_the_head() -> None:
    head = b'{"type":"session_meta","payload":{"id":"x","cwd":"C:\\\\work \\"a\\"","cli'
    assert CODEX.cwd_from_head("rollout-x.jsonl", head) == 'C:\\work "a"'
