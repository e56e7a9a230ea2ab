"""Sessions that live while they are swept: the export does not depend on how their growth was cut, nor on kills."""

from __future__ import annotations

import contextlib
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from helix_assets.prove.verify import verify
from helix_assets_tests.agents.reading import FIXTURES
from helix_assets_tests.conftest import SWEEPING
from helix_assets_tests.home import Memory, cut

CASES = sorted(
    (agent, case.name)
    for agent in ("claude", "codex", "grok")
    for case in (FIXTURES / agent).iterdir()
    if case.is_dir()
)
# No shrinking: each example sweeps several times.
BRIEFLY = settings(
    SWEEPING, max_examples=SWEEPING.max_examples // 2, derandomize=True, phases=(Phase.explicit, Phase.generate)
)


def files_of(agent: str, case: str) -> dict[str, bytes]:
    """The files of a fixture home by their place under the home."""
    root = FIXTURES / agent / case
    return {
        f"{agent}/{path.relative_to(root)}": path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()
    }


def in_one_go(folder: Path, files: dict[str, bytes]) -> bytes:
    memory = Memory(folder)
    for place, data in files.items():
        memory.put(place, data)
    memory.sweep()
    exported = memory.exported()
    memory.close()
    return exported


def killed(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sweep that dies between its files and its commit."""
    with monkeypatch.context() as patch:
        patch.setattr("helix_assets.store.catalog.sessions.put", lambda *_: 1 / 0)
        with contextlib.suppress(ZeroDivisionError):
            memory.sweep()


@pytest.mark.parametrize(("agent", "case"), CASES)
@BRIEFLY
@given(data=st.data())
def test_any_splitting_order_kill_and_repeat_gives_the_same_export(
    agent: str, case: str, data: st.DataObject, monkeypatch: pytest.MonkeyPatch
):
    files = files_of(agent, case)
    steps: list[tuple[int, str, bytes]] = []
    for place, text in files.items():
        whole = place.endswith(".json")
        places = [] if whole else data.draw(st.lists(st.integers(0, 5000), max_size=3), label=place)
        start = data.draw(st.integers(0, 2), label=f"start of {place}")
        steps += [(start + n, place, piece) for n, piece in enumerate(cut(text, places))]
    with tempfile.TemporaryDirectory() as folder:
        memory = Memory(Path(folder) / "split")
        for now in sorted({step for step, _, _ in steps}):
            for step, place, piece in steps:
                if step == now:
                    memory.put(place, piece, append=True)
            if data.draw(st.booleans(), label=f"kill at {now}"):
                killed(memory, monkeypatch)
            for _ in range(data.draw(st.integers(0, 1), label=f"sweeps at {now}")):
                memory.sweep()
        memory.sweep()
        assert memory.exported() == in_one_go(Path(folder) / "once", files)
        assert not verify(memory.store)
        memory.close()


HERE = "grok/sessions/%2Frepo/01a04a00-0000-7000-8000-0000000000aa"


def updated(at: int, **update: object) -> bytes:
    params = {"sessionId": "s", "update": update, "_meta": {"agentTimestampMs": 1_787_950_800_000 + at * 1000}}
    return json.dumps({"method": "session/update", "params": params}).encode() + b"\n"


def turn(number: int) -> dict[str, list[bytes]]:
    """What one turn adds to the files of a session; the lines of the chat history bear no times."""
    at, call = number * 10, f"call_{number}"
    text = {"type": "text", "text": f"do step {number}"}
    usage = {"inputTokens": 100, "outputTokens": 10, "cachedReadTokens": 50}
    return {
        "updates.jsonl": [
            updated(at, sessionUpdate="user_message_chunk", content=text),
            updated(at + 2, sessionUpdate="tool_call", toolCallId=call, title="read_file", rawInput={"path": "a.py"}),
            updated(at + 4, sessionUpdate="tool_call_update", toolCallId=call, status="completed"),
            updated(
                at + 6, sessionUpdate="turn_completed", prompt_id=f"p{number}", stop_reason="end_turn", usage=usage
            ),
        ],
        "chat_history.jsonl": [
            json.dumps({"type": kind, "content": f"{kind} {number}", "model_id": "grok-4.6"}).encode() + b"\n"
            for kind in ("user", "assistant", "tool_result")
        ],
    }


def documents(number: int) -> dict[str, bytes]:
    """The files that are written anew with every turn."""
    summary = {
        "info": {"id": "s", "cwd": "/repo"},
        "generated_title": f"Title after turn {number}",
        "created_at": "2026-08-28T21:00:00.000Z",
        "updated_at": f"2026-08-28T21:{number:02d}:00.000Z",
        "current_model_id": "grok-4.6",
    }
    signals = {"contextWindowTokens": 200_000, "contextTokens": number * 1000, "primaryModelId": "grok-4.6"}
    return {"summary.json": json.dumps(summary).encode(), "signals.json": json.dumps(signals).encode()}


def put_turn(memory: Memory, number: int) -> int:
    for name, lines in turn(number).items():
        memory.put(f"{HERE}/{name}", b"".join(lines), append=True)
    for name, text in documents(number).items():
        memory.put(f"{HERE}/{name}", text)
    return sum(len(lines) for lines in turn(number).values()) + len(documents(number))


@pytest.mark.parametrize("turns", [2, 5, 12])
def test_live_grok_session_costs_what_it_grows_by(tmp_path: Path, turns: int):
    memory = Memory(tmp_path / "live")
    for number in range(turns):
        news = put_turn(memory, number)
        assert memory.sweep().lines_read == news
    fresh = Memory(tmp_path / "once")
    for number in range(turns):
        put_turn(fresh, number)
    fresh.sweep()
    assert memory.exported() == fresh.exported()
    assert not verify(memory.store)
    assert memory.digest(f"grok:{HERE[-36:]}")["title"] == f"Title after turn {turns - 1}"
    for each in (memory, fresh):
        each.close()


@pytest.mark.parametrize(
    "change", [{"current_model_id": "grok-5"}, {"session_kind": "subagent"}, {"session_kind": "fork"}]
)
def test_document_that_changes_what_lines_mean_has_them_read_anew(tmp_path: Path, change: dict[str, str]):
    exports = []
    for step in ("live", "once"):
        memory = Memory(tmp_path / step)
        for number in range(2):
            put_turn(memory, number)
            if number:
                memory.put(
                    f"{HERE}/summary.json", json.dumps(json.loads(documents(1)["summary.json"]) | change).encode()
                )
            if number or step == "live":
                memory.sweep()
        exports.append(memory.exported())
        memory.close()
    assert exports[0] == exports[1]


def test_half_written_document_is_a_problem_only_until_it_is_whole(tmp_path: Path):
    memory = Memory(tmp_path)
    put_turn(memory, 0)
    memory.sweep()
    memory.put(f"{HERE}/summary.json", documents(1)["summary.json"][:40])
    assert len(memory.sweep().problems) == 1
    put_turn(memory, 1)
    assert (memory.sweep().problems, memory.digest(f"grok:{HERE[-36:]}")["unparsed_lines"]) == ([], 0)
    memory.close()
