"""Whatever a line holds, an adapter neither raises nor leaves a state that JSON cannot hold."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helix_assets.agents.codex import CodexAdapter
from helix_assets.agents.grok import GrokAdapter
from helix_assets.agents.spec import Adapter, SessionFacts
from helix_assets.model.event import Record
from helix_assets_tests.agents.reading import hash64, record_of

_WORDS = """
    session_meta response_item event_msg turn_context compacted token_usage_record message function_call
    function_call_output custom_tool_call custom_tool_call_output local_shell_call web_search_call tool_search_output
    user_message token_count item_completed task_started task_complete turn_aborted patch_apply_end exec_command_end
    UserMessage CommandExecution user assistant developer tool system user_message_chunk agent_message_chunk
    agent_thought_chunk tool_call tool_call_update turn_completed retry_state auto_compact_completed tool_completed
    turn_started turn_ended tool_result reasoning backend_tool_call completed failed cancelled error write_stdin
    apply_patch 2026-01-01T00:00:00Z 019b76da-a800-7000-8000-000000000000 x
"""

_KEYS = """
    type payload timestamp role content text id call_id name arguments input action output metadata exit_code info
    total_token_usage last_token_usage usage input_tokens output_tokens cached_input_tokens message kind item command
    cwd model git branch source subagent thread_spawn parent_thread_id forked_from_id subagent_history_start_ordinal
    history_base end_ordinal_exclusive ordinal turn_id started_at duration secs nanos session_id reason error items
    session params update sessionUpdate _meta eventId agentTimestampMs promptIndex streamStartMs toolCallId title
    rawInput rawOutput status locations path prompt_id stop_reason modelUsage costUsdTicks inputTokens
    cachedReadTokens totalTokens x.ai/tool ts outcome tool_call_id session_relationship model_id tool_calls function
    synthetic_reason prior_turn_interrupt created_at session_kind old_string new_string
"""
WORDS, KEYS = st.sampled_from(_WORDS.split()), st.sampled_from(_KEYS.split())
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | st.text(max_size=8)
    | st.sampled_from(['{"cmd":["a",1]}', '{"output":5,"metadata":{"exit_code":"x"}}', "*** Begin Patch\n+x", "\ud800"])
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=25
)
OBJECTS = st.dictionaries(KEYS, VALUES, max_size=6)
FRAMED = st.builds(
    lambda outer, inner, payload: {
        "timestamp": "2026-01-01T00:00:00Z",
        "type": outer,
        "payload": {**payload, "type": inner},
    },
    st.sampled_from(["response_item", "event_msg", "session_meta", "turn_context", "token_usage_record"]),
    WORDS,
    OBJECTS,
)
UPDATES = st.builds(
    lambda kind, update, meta: {"params": {"update": {**update, "sessionUpdate": kind}, "_meta": meta}},
    WORDS,
    OBJECTS,
    VALUES,
)
LINES = st.lists(OBJECTS | FRAMED | UPDATES, max_size=8)


@pytest.mark.parametrize("adapter", [CodexAdapter(), GrokAdapter()], ids=lambda adapter: adapter.flavor)
@pytest.mark.parametrize("role", ["main", "events", "fallback", "document", "about"])
@given(lines=LINES)
def test_any_object_is_survived(adapter: Adapter, role: str, lines: list[dict[str, Any]]) -> None:
    facts = SessionFacts()
    parser = adapter.parser(role, facts, hash64)
    for number, obj in enumerate(lines, 1):
        for event in parser.feed(obj, record_of(adapter, obj, line=number)):
            assert event.summary is None or len(event.summary) <= 200
        state = parser.state()
        if state is not None:
            parser = adapter.parser(role, facts, hash64, json.loads(json.dumps(state)))
    parser.finish()


@pytest.mark.parametrize("adapter", [CodexAdapter(), GrokAdapter()], ids=lambda adapter: adapter.flavor)
@given(head=st.binary(max_size=200))
def test_any_head_names_a_session(adapter: Adapter, head: bytes) -> None:
    assert adapter.native_id_from_head("/h/sessions/%2Fr/abc/rollout-abc.jsonl", head)
    adapter.cwd_from_head("/h/sessions/%2Fr/abc/rollout-abc.jsonl", head)


def nested(levels: int) -> Any:
    content: Any = "x"
    for _ in range(levels):
        content = [{"text": content}]
    return content


@pytest.mark.parametrize(
    ("adapter", "obj"),
    [
        (CodexAdapter(), {"type": "message", "role": "user", "content": nested(500)}),
        (CodexAdapter(), {"type": "function_call", "name": "shell", "arguments": {"command": nested(500)}}),
        (GrokAdapter(), {"type": "user", "content": nested(500)}),
        (GrokAdapter(), {"params": {"update": {"sessionUpdate": "tool_call", "rawInput": {"command": nested(500)}}}}),
    ],
)
def test_deep_nesting_is_survived(adapter: Adapter, obj: dict[str, Any]) -> None:
    parser = adapter.parser("main" if "params" in obj else "fallback", SessionFacts(), hash64)
    native_id, parent_id, ts_us, native_type = adapter.identify(obj)
    assert len(parser.feed(obj, Record(0, 0, 1, 0, 0, native_id, parent_id, ts_us, native_type, b"{}"))) == 1
