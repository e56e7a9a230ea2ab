"""Whatever JSON the agents write: a sweep of it fails no session, loses no record and leaves a sound store."""

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from helix_assets.prove.verify import verify
from helix_assets_tests.conftest import SWEEPING
from helix_assets_tests.home import Memory

_COMMON_WORDS = """
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
WORDS, KEYS = st.sampled_from(_COMMON_WORDS.split()), st.sampled_from(_KEYS.split())
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

_WORDS = """
    type uuid parentUuid sessionId timestamp cwd gitBranch version isSidechain agentId message content role id usage
    input_tokens output_tokens cache_read_input_tokens cache_creation_input_tokens model stop_reason toolUseResult
    tool_use_id name input command file_path is_error structuredPatch lines exitCode durationMs subtype
    compactMetadata attachment prompt operation summary data isMeta origin kind requestId leafUuid customTitle text
"""
_TYPES = "user assistant system attachment queue-operation progress summary custom-title ai-title x"
_CLAUDE_KEYS, _CLAUDE_TYPES = st.sampled_from(_WORDS.split()), st.sampled_from(_TYPES.split())
_BLOCK_TYPES = st.sampled_from(["text", "thinking", "tool_use", "tool_result", "image"])
_BLOCKS = st.builds(
    lambda block, kind: block | {"type": kind}, st.dictionaries(_CLAUDE_KEYS, VALUES, max_size=6), _BLOCK_TYPES
)
_MESSAGES = st.builds(
    lambda kind, record, message, blocks: {
        **record,
        "type": kind,
        "message": {**message, "content": blocks},
    },
    _CLAUDE_TYPES,
    st.dictionaries(_CLAUDE_KEYS, VALUES, max_size=6),
    st.dictionaries(_CLAUDE_KEYS, VALUES, max_size=4),
    st.lists(_BLOCKS, max_size=3) | LEAVES,
)
_RECORDS = st.lists(_MESSAGES | st.dictionaries(KEYS | _CLAUDE_KEYS, VALUES, max_size=6), max_size=6)


def lines_of(objects: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(obj).encode() + b"\n" for obj in objects)


@given(claude=_RECORDS, codex=LINES, grok=LINES, more=_RECORDS)
@SWEEPING
def test_any_records_are_taken_in(
    claude: list[dict[str, Any]], codex: list[dict[str, Any]], grok: list[dict[str, Any]], more: list[dict[str, Any]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        memory = Memory(Path(folder))
        home = Path(folder) / "home"
        rollout = home / "codex" / "sessions" / "2026" / "06" / "05" / "rollout-2026-06-05T10-00-00-x.jsonl"
        updates = home / "grok" / "sessions" / "%2Fhome%2Fu" / "y" / "updates.jsonl"
        for path, objects in ((rollout, codex), (updates, grok)):
            path.parent.mkdir(parents=True)
            path.write_bytes(lines_of(objects))
        memory.write("a", lines_of(claude))
        reports = [memory.sweep()]
        memory.write("a", lines_of(more), append=True)
        reports.append(memory.sweep())
        assert [(r.sessions_failed, r.digests_failed, r.records_unparsed) for r in reports] == [(0, 0, 0)] * 2
        assert verify(memory.store) == []
        memory.exported()
        memory.close()
