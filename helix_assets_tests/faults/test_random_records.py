"""Whatever JSON the agents write: a sweep of it fails no session, loses no record and leaves a sound store."""

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from helix_assets.prove.verify import verify
from helix_assets_tests.agents.test_odd_input import KEYS, LEAVES, LINES, VALUES
from helix_assets_tests.conftest import SWEEPING
from helix_assets_tests.home import Memory

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
