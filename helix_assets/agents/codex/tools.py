"""What Codex's tool calls asked for and how they ended, from their items.

Belongs here: reading one call or one output. Not here: which output belongs to which call (`parser`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import orjson

from helix_assets.agents.loose import as_count, as_name, as_object, as_text, input_hash, packed, texts_of
from helix_assets.agents.spec import JsonObject
from helix_assets.derive import commands
from helix_assets.model.event import EventKind, SessionEvent, shorten

_NAMELESS = {
    "local_shell_call": "local_shell",
    "web_search_call": "web_search",
    "tool_search_call": "tool_search",
    "image_generation_call": "image_generation",
}
_PATCH_FILE = re.compile(r"^\*\*\* (?:Add|Update|Delete) File: (.+)$", re.M)
_EXITED = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,10})", re.M)
_RUNNING = re.compile(r"^Process running with session ID (\d{1,18})", re.M)
_WALL_TIME = re.compile(r"^Wall time: (\d{1,9}(?:\.\d{1,9})?) seconds", re.M)
_SANDBOXED = re.compile(r"\A(?:failed in sandbox|sandbox )[^\n]*?exit code: (-?\d{1,10})")
_DENIED = re.compile(r"\A(?:exec command|patch|[\w ]{1,40}) rejected by (?:the )?user|\Auser rejected ", re.I)
_ABORTED = re.compile(r"\A(?:aborted\b|[\w ]{0,40}\baborted by (?:the )?user)", re.I)
_FAILED = (
    "execution error:",
    "error:",
    "Error:",
    "err:",
    "failed in sandbox",
    "failed to parse function arguments",
    "apply_patch verification failed",
    "unsupported call:",
    "unsupported custom tool call:",
    "tool call error:",
    "write_stdin failed:",
    "exec_command failed",
)
_HEAD_CHARS = 600


class Outcome(NamedTuple):
    """How a call ended. `running` is the session of a command that continues; a later write_stdin shows its end."""

    status: str
    text: str
    exit_code: int | None = None
    duration_ms: int | None = None
    running: str | None = None


def read_call(item: JsonObject, hash64: Callable[[bytes], int]) -> SessionEvent:
    """The tool_call of a function call, a custom tool call or a call with its own type."""
    tool = _tool(item)
    raw = item.get("arguments")
    if raw is None:
        raw = item.get("input") if item.get("input") is not None else item.get("action")
    given = _arguments(raw)
    command = _command(given)
    patch = command if command is not None else raw if type(raw) is str else as_text(given.get("input"))
    files, added, removed = read_patch(patch)
    what = command or (files[0] if files else None) or _subject(given)
    detail: JsonObject = {"namespace": as_name(item.get("namespace")), "files": files[:20] if len(files) > 1 else None}
    if command is not None and not files:
        detail["program"] = commands.program(command)
        detail["test"] = commands.test_framework(command)
        detail["does"] = commands.purposes(command) or None
    return SessionEvent(
        EventKind.TOOL_CALL,
        "assistant",
        tool=tool,
        summary=shorten(f"{tool or 'tool'} {what}" if what else tool or "tool"),
        call_id=as_name(item.get("call_id")),
        file_path=files[0] if files else as_text(given.get("path")) or None,
        lines_added=added,
        lines_removed=removed,
        input_hash=input_hash(hash64, tool, raw),
        detail=packed(detail),
    )


def polled_session(item: JsonObject) -> str | None:
    """The session of the running command that a write_stdin call polls."""
    session = _arguments(item.get("arguments")).get("session_id")
    return str(session) if type(session) in (int, str) else None


def read_patch(text: str) -> tuple[list[str], int | None, int | None]:
    """Files, lines added and lines removed of an apply_patch patch; no files and None if the text contains none."""
    start = text.find("*** Begin Patch")
    if start < 0:
        return [], None, None
    end = text.find("*** End Patch", start)
    body = text[start : end if end > 0 else len(text)]
    lines = body.split("\n")
    added = sum(line.startswith("+") for line in lines)
    removed = sum(line.startswith("-") for line in lines)
    return [path.strip() for path in _PATCH_FILE.findall(body)], added, removed


def read_output(output: Any) -> Outcome:
    """The outcome from the text for the model: its exit code, a refusal, an abort, or a known failure."""
    if type(output) is dict and as_count(as_object(output.get("metadata")).get("exit_code")) is not None:
        return _from_metadata(output)
    text = texts_of(output)
    if text.startswith("{") and '"metadata"' in text:
        decoded = _decoded(text)
        if type(decoded.get("metadata")) is dict:
            return _from_metadata(decoded)
    head = text[:_HEAD_CHARS].partition("\nOutput:")[0]
    seconds = _WALL_TIME.search(head)
    duration = int(float(seconds.group(1)) * 1000) if seconds else None
    running = _RUNNING.search(head)
    if running:
        return Outcome("ok", text, None, duration, running.group(1))
    code = _EXITED.search(head) or _SANDBOXED.match(head)
    if code:
        exit_code = int(code.group(1))
        return Outcome("error" if exit_code else "ok", text, exit_code, duration)
    return Outcome(_status_of(head), text, None, duration)


def read_end(item: JsonObject) -> tuple[str | None, int | None]:
    """Status and exit code of a finished item or an *_end event; status None if it has none."""
    code = as_count(item.get("exit_code"))
    if code is not None:
        return ("error" if code else "ok"), code
    if type(item.get("success")) is bool:
        return ("ok" if item["success"] else "error"), None
    result = as_object(item.get("result"))
    if "Err" in result or as_object(result.get("Ok")).get("isError") is True or result.get("isError") is True:
        return "error", None
    return {"completed": "ok", "failed": "error", "declined": "denied"}.get(as_text(item.get("status"))), None


def milliseconds(value: Any) -> int | None:
    """A duration written as {"secs", "nanos"}."""
    seconds, nanos = as_count(as_object(value).get("secs")), as_count(as_object(value).get("nanos"))
    return None if seconds is None else seconds * 1000 + (nanos or 0) // 1_000_000


def _tool(item: JsonObject) -> str | None:
    kind = as_text(item.get("type"))
    return _NAMELESS.get(kind) or as_name(item.get("name")) or as_name(as_object(item.get("function")).get("name"))


def _arguments(raw: Any) -> JsonObject:
    if type(raw) is str:
        return _decoded(raw) if raw.startswith("{") else {}
    return as_object(raw)


def _decoded(text: str) -> JsonObject:
    try:
        return as_object(orjson.loads(text))
    except orjson.JSONDecodeError:
        return {}


def _command(given: JsonObject) -> str | None:
    command = given.get("command") if given.get("command") is not None else given.get("cmd")
    if type(command) is list:
        words = [word for word in command if type(word) is str]
        return words[-1] if len(words) > 2 and words[1] in ("-lc", "-c", "-Command") else " ".join(words)
    return command if type(command) is str else None


def _subject(given: JsonObject) -> str | None:
    for key in ("path", "query", "pattern", "url", "message", "explanation"):
        if type(given.get(key)) is str:
            return str(given[key])
    return None


def _from_metadata(output: JsonObject) -> Outcome:
    metadata = as_object(output.get("metadata"))
    exit_code, seconds = as_count(metadata.get("exit_code")), metadata.get("duration_seconds")
    duration = int(seconds * 1000) if isinstance(seconds, int | float) and 0 <= seconds < 1e9 else None
    text = as_text(output.get("output"))
    if exit_code is None:
        return Outcome(_status_of(text[:_HEAD_CHARS]), text, None, duration)
    return Outcome("error" if exit_code else "ok", text, exit_code, duration)


def _status_of(head: str) -> str:
    if _DENIED.match(head):
        return "denied"
    if _ABORTED.match(head):
        return "cancelled"
    return "error" if head.startswith(_FAILED) else "ok"
