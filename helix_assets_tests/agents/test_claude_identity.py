"""What identifies a Claude record and message, and who wrote a prompt."""

from helix_assets.agents.claude.adapter import ClaudeAdapter
from helix_assets.agents.spec import JsonObject, SessionFacts
from helix_assets.model.event import EventKind, Record, SessionEvent

UUID = "6f0e2a7c-6a51-4c57-9a6f-3f2f6a3f9d10"


def feed(obj: JsonObject) -> list[SessionEvent]:
    adapter = ClaudeAdapter()
    native_id, parent_id, ts_us, native_type = adapter.identify(obj)
    record = Record(0, 0, 1, 0, 1, native_id, parent_id, ts_us, native_type, b"")
    return adapter.parser("main", SessionFacts(), hash).feed(obj, record)


def test_a_uuid_identifies_a_record() -> None:
    assert ClaudeAdapter().identify({"type": "user", "uuid": UUID}).native_id == UUID


def test_a_blanked_uuid_identifies_no_record() -> None:
    assert ClaudeAdapter().identify({"type": "user", "uuid": "[removed text]"}).native_id is None


def test_a_blanked_message_id_joins_no_messages() -> None:
    message = {"id": "[trimmed away]", "content": [{"type": "text", "text": "hello"}], "usage": {"output_tokens": 1}}
    (event,) = feed({"type": "assistant", "uuid": UUID, "message": message})
    assert event.message_id is None
    assert event.usage is not None


def test_what_a_task_reports_back_is_no_prompt() -> None:
    record = {"type": "user", "uuid": UUID, "message": {"role": "user", "content": "List files"}}
    assert feed(record)[0].kind is EventKind.USER_MSG
    assert feed(record | {"origin": {"kind": "human"}})[0].kind is EventKind.USER_MSG
    assert feed(record | {"origin": {"kind": "task-notification"}})[0].kind is EventKind.LIFECYCLE
