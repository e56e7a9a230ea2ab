"""What Grok's tool calls asked for and how they ended.

Belongs here: reading one call or one result, from updates or from the chat history. Not here: joining them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from helix_assets.agents.loose import as_count, as_name, as_object, as_text, input_hash, line_count, packed, texts_of
from helix_assets.agents.spec import JsonObject
from helix_assets.derive import commands
from helix_assets.model.event import EventKind, SessionEvent, shorten

_PATHS = ("file_path", "target_file", "path", "target_directory")
_SUBJECTS = ("pattern", "query", "url", "description", "prompt")
_STATUSES = {"completed": "ok", "failed": "error", "cancelled": "cancelled", "rejected": "denied"}


def model_name(value: Any) -> str | None:
    """The value if it can be a model's name, else None, such as for a blanked value."""
    name = as_name(value)
    return name if name and (name.startswith("grok") or any(c.isdigit() for c in name)) else None


def tool_name(update: JsonObject) -> str | None:
    """The tool's own name, else the title, which is a name only at first, and never for tools on the server."""
    own = as_name(as_object(as_object(update.get("_meta")).get("x.ai/tool")).get("name"))
    if own or as_object(update.get("_meta")).get("backend") is True:
        return own
    return as_name(update.get("title"))


def read_call(
    tool: str | None, call_id: str | None, given: JsonObject, shown: JsonObject, hash64: Callable[[bytes], int]
) -> SessionEvent:
    """The tool_call event; `shown` is its update, for a path or a title if the input has none."""
    command = given.get("command") if type(given.get("command")) is str else None
    path = next((given[key] for key in _PATHS if type(given.get(key)) is str), None) or _location(shown)
    what = command or path or next((given[key] for key in _SUBJECTS if type(given.get(key)) is str), None)
    added, removed = _edited_lines(given)
    detail: JsonObject = {}
    if command:
        detail = {"program": commands.program(command), "test": commands.test_framework(command)}
        detail["does"] = commands.purposes(command) or None
    return SessionEvent(
        EventKind.TOOL_CALL,
        "assistant",
        tool=tool,
        summary=shorten(f"{tool or 'tool'} {what or as_text(shown.get('title'))}"),
        call_id=call_id,
        file_path=path,
        lines_added=added,
        lines_removed=removed,
        input_hash=input_hash(hash64, tool, given),
        detail=packed(detail),
    )


def read_result(call_id: str | None, update: JsonObject) -> SessionEvent | None:
    """The tool_result of an update, None while the tool runs and its exit code is only a placeholder."""
    status = _STATUSES.get(as_text(update.get("status")))
    if status is None:
        return None
    output = as_object(update.get("rawOutput"))
    exit_code = as_count(output.get("exit_code"))
    if status == "ok" and (exit_code or output.get("timed_out") is True or _names_failure(output)):
        status = "error"
    text = texts_of([_inner(block) for block in _list(update.get("content"))]) or as_text(
        output.get("output_for_prompt")
    )
    failure = next((f"{key}: {as_text(output[key])}" for key in output if _is_failure(key)), "")
    return SessionEvent(
        EventKind.TOOL_RESULT,
        "tool",
        summary=shorten(text or failure),
        status=status,
        call_id=call_id,
        exit_code=exit_code,
        text=text,
    )


def _inner(block: Any) -> Any:
    inner = as_object(block).get("content")
    return inner if type(inner) is dict else block


def _list(value: Any) -> list[Any]:
    return value if type(value) is list else []


def _location(shown: JsonObject) -> str | None:
    for place in _list(shown.get("locations")):
        if type(as_object(place).get("path")) is str:
            return str(place["path"])
    return None


def _names_failure(output: JsonObject) -> bool:
    """Whether a key of an output names a failure, as in {"type": "SearchReplace", "FileNotFound": ...}."""
    return any(_is_failure(key) for key in output)


def _is_failure(key: str) -> bool:
    return key[:1].isupper() and key.endswith(("NotFound", "Error", "Failed", "Denied"))


def _edited_lines(given: JsonObject) -> tuple[int | None, int | None]:
    """Lines that an edit adds and removes, by its input, as a diff of the lines that it touches would count them.

    An empty `old_string` adds whole lines if the new text ends its last line; else it changes the line at its place.
    """
    old, new = given.get("old_string"), given.get("new_string")
    if type(old) is str and type(new) is str:
        before, after = old.split("\n"), new.split("\n")
        common = before[-1] == after[-1] == "" and max(len(before), len(after)) > 1  # what follows a last line end
        return len(after) - common, len(before) - common
    whole = given.get("contents") if type(given.get("contents")) is str else given.get("content")
    if type(whole) is str and any(key in given for key in _PATHS):
        return line_count(whole), 0
    return None, None
