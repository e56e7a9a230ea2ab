"""How Claude Code names its tools, what it passes to them and what it logs of their results."""

from __future__ import annotations

from typing import Any

from helix_assets.demo.story import Step

_NAMES = {"read": "Read", "search": "Grep", "list": "Glob", "edit": "Edit", "write": "Write", "plan": "TodoWrite"}
_DENIED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, "
    "the new_string was NOT written to the file). STOP what you are doing and wait for the user to tell you how to "
    "proceed."
)


def tool_name(step: Step, *, modern: bool) -> str:
    """Return the tool that does a step."""
    if step.kind == "delegate":
        return "Agent" if modern else "Task"
    return _NAMES.get(step.kind, "Bash")


def tool_input(step: Step) -> dict[str, Any]:
    """Return the tool call's input."""
    match step.kind:
        case "read":
            return {"file_path": step.path}
        case "search":
            return {"pattern": step.command, "path": step.path, "output_mode": "content", "-n": True}
        case "list":
            return {"pattern": "**/*"}
        case "edit":
            return {"file_path": step.path, "old_string": step.old, "new_string": step.new}
        case "write":
            return {"file_path": step.path, "content": step.new}
        case "plan":
            return {"todos": _todos(step.new)}
        case "delegate":
            return {"description": "Look into it", "prompt": step.command, "subagent_type": "general-purpose"}
    return {"command": step.command, "description": f"Run {step.command.split()[0]}"}


def outcome(step: Step) -> tuple[Any, Any, bool]:
    """Return a step's tool_result content, its toolUseResult and whether it is an error."""
    if step.fate == "denied":
        return _DENIED, "User rejected tool use", True
    if step.fate == "failed":
        return _failure(step)
    match step.kind:
        case "read":
            lines = step.output.count("\n") + 1
            file = {"filePath": step.path, "content": step.output, "numLines": lines, "startLine": 1}
            return step.output, {"type": "text", "file": {**file, "totalLines": lines}}, False
        case "search":
            found = {"mode": "content", "numFiles": 0, "filenames": [], "content": step.output}
            return step.output, {**found, "numLines": step.output.count("\n") + 1}, False
        case "list":
            names = step.output.split("\n")
            return step.output, {"filenames": names, "durationMs": 9, "numFiles": len(names), "truncated": False}, False
        case "edit":
            return f"The file {step.path} has been updated.", _edited(step), False
        case "write":
            created = {"type": "create", "filePath": step.path, "content": step.new, "structuredPatch": []}
            return f"File created successfully at: {step.path}", created, False
        case "plan":
            return "Todos have been modified successfully.", {"oldTodos": [], "newTodos": _todos(step.new)}, False
    shell = {"stdout": step.output, "stderr": "", "interrupted": step.fate == "cut", "isImage": False}
    return step.output, shell, False


def _failure(step: Step) -> tuple[str, str, bool]:
    if step.kind == "read":
        text = "File does not exist."
    elif step.kind in ("edit", "write"):
        text = "File has been modified since read, either by the user or by a linter. Read it again."
    elif step.kind == "search":
        text = "ripgrep: regex parse error: unclosed group"
    else:
        text = f"Exit code {step.exit_code}\n{step.output}"
        return text, f"Error: {text}", True
    return f"<tool_use_error>{text}</tool_use_error>", f"Error: {text}", True


def _edited(step: Step) -> dict[str, Any]:
    old, new = step.old.split("\n"), step.new.split("\n")
    hunk = {"oldStart": 12, "oldLines": len(old), "newStart": 12, "newLines": len(new)}
    lines = [f"-{line}" for line in old] + [f"+{line}" for line in new]
    edited = {"filePath": step.path, "oldString": step.old, "newString": step.new, "userModified": False}
    return {**edited, "replaceAll": False, "structuredPatch": [{**hunk, "lines": lines}]}


def _todos(text: str) -> list[dict[str, str]]:
    wishes = text.split(". ")
    return [{"content": wish, "status": "pending", "activeForm": f"Doing: {wish}"} for wish in wishes]
