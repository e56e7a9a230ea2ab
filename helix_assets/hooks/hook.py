"""What an agent's hook runs: it writes one small file to the inbox, which notes that a session changed, and ends.

Runs as a file under `python -I -S`, so it may import only light parts of the standard library and nothing of ours. It
never prints, never waits, and always ends with 0, so that a failure here never disturbs the agent. It writes only our
own words, numbers and ids of known shape: no text of the event gets through, so there is nothing to redact. Not here:
reading the inbox (`hooks.inbox`), or putting the hook into an agent's settings (`hooks.install`).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType

EVENTS = frozenset({"SessionStart", "SessionEnd", "Stop", "SubagentStop", "UserPromptSubmit", "PreToolUse"})
TURN_COMPLETE = "agent-turn-complete"
PATIENCE_S = 1.0
"""How long we wait for the agent to send its event."""
MOST_WAITING = 10_000
"""The most notes in the inbox while nobody reads it; a sweep finds the sessions by their logs anyway."""
_MOST_BYTES = 16 << 20
_HEX = frozenset("0123456789abcdef")
_ID = frozenset("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_-")
_LONGEST_ID = 64


def main(arguments: Sequence[str]) -> int:
    """`AGENT INBOX [EVENT as JSON]`: note the event, by default from stdin. Always returns 0."""
    before = None
    try:
        before = signal.signal(signal.SIGALRM, _leave)
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
        agent, inbox = arguments[0], arguments[1]
        given = arguments[2].encode("utf-8", "replace") if len(arguments) > 2 else _read_all()
        write_note(inbox, note_of(agent, given))
    except BaseException:  # noqa: BLE001 - a hook that fails must not show
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if before is not None:
            signal.signal(signal.SIGALRM, before)
    return 0


def note_of(agent: str, given: bytes) -> dict[str, object]:
    """What is kept of an event. Without a session's id, or of garbage, the note says only that something changed."""
    try:
        event = json.loads(given)
    except (ValueError, RecursionError):
        event = None
    note: dict[str, object] = {"agent": agent, "at": time.time_ns(), "is_event": isinstance(event, dict)}
    if isinstance(event, dict):
        name = event.get("hook_event_name") or event.get("hookEventName") or event.get("type")
        session = event.get("session_id") or event.get("sessionId") or event.get("thread-id") or event.get("thread_id")
        call = event.get("tool_use_id") or event.get("toolUseId")
        note["event"] = "Stop" if name == TURN_COMPLETE else name if name in EVENTS else None
        note["session"] = session.lower() if isinstance(session, str) and _is_uuid(session.lower()) else None
        note["call"] = call if isinstance(call, str) and _is_call(call) else None
    return note


def write_note(inbox: str, note: dict[str, object]) -> None:
    """Put a note into the inbox, whole or not at all. Fails if there is no data folder."""
    if not os.path.isdir(inbox):
        os.mkdir(inbox, 0o700)
    if len(os.listdir(inbox)) >= MOST_WAITING:
        return
    name = f"{note['at']:020d}-{os.getpid()}.json"
    fresh = os.path.join(inbox, "." + name)
    try:
        fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, json.dumps(note).encode())
        finally:
            os.close(fd)
        os.rename(fresh, os.path.join(inbox, name))
    except OSError:
        os.unlink(fresh)
        raise


def _read_all() -> bytes:
    """All of stdin, so that the agent can finish writing; too long an event is read but dropped."""
    parts, size = [], 0
    while block := os.read(0, 1 << 20):
        size += len(block)
        if size <= _MOST_BYTES:
            parts.append(block)
    return b"".join(parts) if size <= _MOST_BYTES else b""


def _is_uuid(text: str) -> bool:
    parts = text.split("-")
    return [len(part) for part in parts] == [8, 4, 4, 4, 12] and _HEX.issuperset("".join(parts))


def _is_call(text: str) -> bool:
    return text.startswith(("toolu_", "call_", "call-")) and len(text) <= _LONGEST_ID and _ID.issuperset(text)


def _leave(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


if __name__ == "__main__":
    # Skips the interpreter's own clean-up, which takes longer than all of the above.
    os._exit(main(sys.argv[1:]))
