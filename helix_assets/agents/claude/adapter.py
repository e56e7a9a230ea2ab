"""Claude Code: `projects/<dashed cwd>/<session>.jsonl`, its subagent files and its record types.

The evidence for every rule is in docs/formats.md. Not here: ordering, merging, copies, derived events.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from helix_assets.agents.claude import edits
from helix_assets.agents.claude.spec import SPEC
from helix_assets.agents.jsonl import count_or_zero, decode, timestamp_us
from helix_assets.agents.loose import as_count, line_count
from helix_assets.agents.spec import FoundFile, Identity, JsonObject, SessionFacts
from helix_assets.agents.walk import entries
from helix_assets.derive import commands
from helix_assets.model.errors import Problem
from helix_assets.model.event import PROMPT_CHARS, EventKind, Record, SessionEvent, Usage, shorten, whole_text

_DESKTOP_HOMES = "local-agent-mode-sessions"
_INJECTED = (
    "<command-message>",
    "<command-name>",
    "<local-command-",
    "Caveat:",
    "<bash-input>",
    "<bash-stdout>",
    "<bash-stderr>",
    "<task-notification>",
    "<system-reminder>",
    "This session is being continued",
)
# Values of `origin.kind` that are not a person.
_MACHINES = {"task-notification"}
_INTERRUPT = "[Request interrupted by user"
_DENIED = ("The user doesn't want to", "User rejected tool use", "Permission to use")
_CANCELLED = (
    "Cancelled: parallel tool call",
    "Sibling tool call errored",
    "<tool_use_error>Sibling",
    "<tool_use_error>Cancelled",
)
_NEW_FILE = "File created"
_OPEN_WRITES = 100
_EXIT_CODE = re.compile(r"\A(?:Error: )?Exit code (\d{1,10})")
_QUIET_TYPES = {
    "file-history-snapshot", "last-prompt", "agent-name", "agent-color", "tag", "mode", "permission-mode", "pr-link",
    "frame-link", "worktree-state", "relocated", "bridge-session", "atis-latch", "started", "result",
}  # fmt: skip
# Known types inside records that yield no events, listed so that new types can be recognized.
_QUIET_SYSTEM = frozenset(
    {
        "compact_boundary", "microcompact_boundary", "api_error", "stop_hook_summary", "turn_duration",
        "local_command", "informational", "api_refusal", "model_refusal_fallback", "error", "session_start",
    }
)  # fmt: skip
_QUIET_ATTACHMENTS = frozenset(
    {
        "agent_listing_delta", "auto_mode", "batching_reminder_sent", "budget_usd", "command_permissions",
        "compact_file_reference", "critical_system_reminder", "date_change", "deferred_tools_delta", "dynamic_skill",
        "edited_text_file", "file", "hook_additional_context", "hook_success", "hook_system_message",
        "invoked_skills", "mcp_instructions_delta", "nested_memory", "plan_mode", "plan_mode_exit",
        "read_truncation_notice", "silent_turn_reminder", "skill_listing", "task_reminder", "task_status",
        "todo_reminder", "total_tokens_reminder", "ultra_effort_enter", "ultra_effort_exit",
    }
)  # fmt: skip
_QUIET_PROGRESS = frozenset(
    {
        "bash_progress", "hook_progress", "mcp_progress", "query_update", "search_results_received",
        "waiting_for_task",
    }
)  # fmt: skip
_QUIET_BLOCKS = frozenset({"image", "document", "fallback"})
# Tools that read the output of a command in the background.
_LOOKS = ("BashOutput", "TaskOutput")
_TITLE_RANK = {"summary": 1, "ai-title": 2, "custom-title": 3}
_TITLE_FIELD = {"summary": "summary", "ai-title": "aiTitle", "custom-title": "customTitle"}


class ClaudeAdapter:
    """Transcripts of Claude Code, all three subagent layouts."""

    spec = SPEC
    flavor = SPEC.flavor
    version = 4
    shares_history = True

    def discover(self, root: str, problems: list[Problem]) -> Iterator[FoundFile]:
        if os.path.basename(root) == _DESKTOP_HOMES:
            yield from self._desktop(root, problems)
        for project in entries(os.path.join(root, "projects"), problems):
            if project.is_folder():
                yield from self._project(project.path, problems)

    def _desktop(self, folder: str, problems: list[Problem], depth: int = 3) -> Iterator[FoundFile]:
        """The desktop app keeps a home per task, some folders down: `**/local_*/.claude`."""
        for entry in entries(folder, problems):
            if not entry.is_folder():
                continue
            if entry.name.startswith("local_"):
                yield from self.discover(os.path.join(entry.path, ".claude"), problems)
            elif depth:
                yield from self._desktop(entry.path, problems, depth - 1)

    def _project(self, folder: str, problems: list[Problem]) -> Iterator[FoundFile]:
        for entry in entries(folder, problems):
            if role := SPEC.role_of(entry.name):
                if file := entry.file(role, None if role == "subagent" else entry.name.removesuffix(".jsonl")):
                    yield file
            elif entry.is_folder():
                yield from self._subagents(f"{entry.path}/subagents", entry.name, problems)

    def _subagents(self, folder: str, session: str, problems: list[Problem]) -> Iterator[FoundFile]:
        for entry in entries(folder, problems):
            if SPEC.role_of(entry.name) == "subagent":
                if file := entry.file("subagent", session):
                    yield file
            elif entry.name == "workflows" and entry.is_folder():
                yield from self._workflows(entry.path, session, problems)

    def _workflows(self, folder: str, session: str, problems: list[Problem]) -> Iterator[FoundFile]:
        for run in entries(folder, problems):
            if not run.is_folder():
                continue
            for entry in entries(run.path, problems):
                role = SPEC.role_of(entry.name)
                if role in ("subagent", "journal") and (file := entry.file(role, session)):
                    yield file

    def native_id_from_head(self, path: str, head: bytes) -> str:
        """The session in the file's first records; in a subagent's file it is the parent's."""
        for line in head.split(b"\n"):
            obj = decode(line) if line.strip() else ""
            if isinstance(obj, dict) and isinstance(sid := obj.get("sessionId") or obj.get("session_id"), str):
                return sid
        return os.path.basename(path)[: -len(".jsonl")]

    def cwd_from_head(self, path: str, head: bytes) -> str | None:
        for line in head.split(b"\n"):
            if b'"cwd"' in line:
                obj = decode(line)
                if isinstance(obj, dict) and isinstance(obj.get("cwd"), str):
                    return str(obj["cwd"])
        return None

    def identify(self, obj: JsonObject) -> Identity:
        uuid, parent = obj.get("uuid"), obj.get("parentUuid") or obj.get("logicalParentUuid")
        kind = obj.get("type")
        return Identity(
            _id_or_none(uuid),
            parent if type(parent) is str else None,
            timestamp_us(obj.get("timestamp")),
            kind if type(kind) is str else "",
        )

    def parser(
        self, role: str, facts: SessionFacts, hash64: Callable[[bytes], int], state: JsonObject | None = None
    ) -> ClaudeParser:
        return ClaudeParser(role, facts, hash64, state or {})


class ClaudeParser:
    """Events of one Claude file. Its state are the files that subagents write, until their result says how it went."""

    def __init__(self, role: str, facts: SessionFacts, hash64: Callable[[bytes], int], state: JsonObject) -> None:
        self._main = role == "main"
        self._facts = facts
        self._hash64 = hash64
        self._written: dict[str, int] = dict(state.get("written", {}))

    def state(self) -> JsonObject:
        return {"written": self._written} if self._written else {}

    def finish(self) -> list[SessionEvent]:
        return []

    def feed(self, obj: JsonObject, record: Record) -> list[SessionEvent]:
        self._note_session(obj)
        kind = record.native_type
        handler = _HANDLERS.get(kind)
        if handler is not None:
            return handler(self, obj)
        if kind in _TITLE_FIELD:
            # A summary line in a session's file may name another session: it is a title of last resort.
            self._facts.offer_title(shorten(_text(obj.get(_TITLE_FIELD[kind]))), _TITLE_RANK[kind])
        elif kind not in _QUIET_TYPES:
            self._facts.saw_unknown(kind or "(no type)")
        return []

    def _note_session(self, obj: JsonObject) -> None:
        facts = self._facts
        if facts.cwd is None and type(obj.get("cwd")) is str and obj["cwd"]:
            facts.cwd = obj["cwd"]
        if facts.git_branch is None and type(obj.get("gitBranch")) is str and obj["gitBranch"]:
            facts.git_branch = obj["gitBranch"]
        if facts.agent_version is None and type(obj.get("version")) is str:
            facts.agent_version = obj["version"]

    def _place(self, obj: JsonObject) -> dict[str, Any]:
        agent = obj.get("agentId")
        return {
            "is_sidechain": obj.get("isSidechain") is True or not self._main,
            "agent_id": agent if type(agent) is str else None,
        }

    # -- conversation ------------------------------------------------------------------------------------------------

    def _assistant(self, obj: JsonObject) -> list[SessionEvent]:
        message = _dict(obj.get("message"))
        place = self._place(obj)
        model = message.get("model")
        model = model if type(model) is str else None
        if model and model != "<synthetic>" and not place["is_sidechain"]:
            self._facts.model = model
        place |= {"message_id": _id_or_none(message.get("id")), "model": model, "usage": _usage(message.get("usage"))}
        events: list[SessionEvent] = []
        for block in _blocks(message.get("content")):
            kind = _text(block.get("type"))
            if kind == "text":
                said = _text(block.get("text"))
                text = shorten(said)
                whole = whole_text(said)
                events.append(
                    SessionEvent(
                        EventKind.ASSISTANT_MSG, "assistant", summary=text, detail=whole, size=len(said), **place
                    )
                )
            elif kind in ("thinking", "redacted_thinking"):
                text = shorten(_text(block.get("thinking")))
                events.append(SessionEvent(EventKind.THINKING, "assistant", summary=text, **place))
            elif kind in ("tool_use", "server_tool_use"):
                events.append(self._call(block, place))
            elif kind not in _QUIET_BLOCKS:
                self._unknown("block", kind)
            if events:
                place["usage"] = None  # only the first event has it
        if obj.get("isApiErrorMessage") is True:
            shown = events[0].summary if events else None
            detail = '{"error":"api"}'
            events.append(
                SessionEvent(EventKind.ERROR, "assistant", summary=shown, status="error", detail=detail, **place)
            )
        return events or [SessionEvent(None, "assistant", **place)]

    def _call(self, block: JsonObject, place: dict[str, Any]) -> SessionEvent:
        arguments = _dict(block.get("input"))
        name = _id_or_none(block.get("name")) or ""
        command = arguments.get("command")
        detail: JsonObject = {}
        if isinstance(command, str):
            detail["program"] = commands.program(command)
            if framework := commands.test_framework(command):
                detail["test"] = framework
            if does := commands.purposes(command):
                detail["does"] = does
        if name in _LOOKS:
            detail["polls"] = _str_or_none(arguments.get("bash_id")) or _str_or_none(arguments.get("task_id"))
        path = arguments.get("file_path") or arguments.get("notebook_path") or arguments.get("path")
        what = (
            command
            or path
            or arguments.get("pattern")
            or arguments.get("description")
            or arguments.get("query")
            or arguments.get("url")
        )
        return SessionEvent(
            EventKind.TOOL_CALL,
            "assistant",
            tool=name or None,
            summary=shorten(f"{name} {what}" if isinstance(what, str) else name),
            call_id=_str_or_none(block.get("id")),
            file_path=path if isinstance(path, str) else None,
            input_hash=self._hash64(_dumps([name, arguments])),
            detail=_detail(detail),
            **place,
        )

    def _user(self, obj: JsonObject) -> list[SessionEvent]:
        content = _dict(obj.get("message")).get("content")
        place = self._place(obj)
        if results := [block for block in _blocks(content) if block.get("type") == "tool_result"]:
            outcome = obj.get("toolUseResult")
            return [_result(block, outcome, place) for block in results]
        text = (
            content
            if isinstance(content, str)
            else "\n".join(_text(b.get("text")) for b in _blocks(content) if b.get("type") == "text")
        )
        return [self._prompt(obj, text, place)]

    def _prompt(self, obj: JsonObject, text: str, place: dict[str, Any]) -> SessionEvent:
        start = text.lstrip()
        if start.startswith(_INTERRUPT):
            return SessionEvent(
                EventKind.HUMAN_INTERVENTION, "user", summary=shorten(text), status="interrupt", **place
            )
        is_meta = obj.get("isCompactSummary") is True or obj.get("isMeta") is True
        if is_meta or _text(_dict(obj.get("origin")).get("kind")) in _MACHINES or start.startswith(_INJECTED):
            return SessionEvent(EventKind.LIFECYCLE, "system", summary=shorten(text), status="injected", **place)
        whole = whole_text(text, PROMPT_CHARS)
        return SessionEvent(EventKind.USER_MSG, "user", summary=shorten(text), detail=whole, size=len(text), **place)

    # -- the agent's own life ----------------------------------------------------------------------------------------

    def _system(self, obj: JsonObject) -> list[SessionEvent]:
        subtype = _text(obj.get("subtype"))
        place = self._place(obj)
        if subtype == "compact_boundary":
            detail = _detail({"trigger": _str_or_none(_dict(obj.get("compactMetadata")).get("trigger"))})
            return [
                SessionEvent(
                    EventKind.LIFECYCLE, "system", summary="compaction", status="compaction", detail=detail, **place
                )
            ]
        if subtype == "api_error":
            detail = _detail({"attempt": as_count(obj.get("retryAttempt")), "of": as_count(obj.get("maxRetries"))})
            return [
                SessionEvent(
                    EventKind.RETRY, "system", summary="API error, tried again", status="api", detail=detail, **place
                )
            ]
        if subtype == "turn_duration":
            duration = count_or_zero(obj.get("durationMs"))
            return [SessionEvent(EventKind.COMPLETION, "system", summary="turn ended", duration_ms=duration, **place)]
        if subtype in ("error", "api_refusal"):
            return [
                SessionEvent(
                    EventKind.ERROR,
                    "system",
                    summary=shorten(subtype),
                    status="error",
                    detail='{"error":"api"}',
                    **place,
                )
            ]
        if subtype == "stop_hook_summary" and obj.get("hookErrors"):
            return [
                SessionEvent(
                    EventKind.ERROR,
                    "system",
                    summary="stop hook failed",
                    status="error",
                    detail='{"error":"hook"}',
                    **place,
                )
            ]
        if subtype not in _QUIET_SYSTEM:
            self._unknown("system", subtype)
        return [SessionEvent(EventKind.LIFECYCLE, "system", summary=subtype or "system", **place)]

    def _attachment(self, obj: JsonObject) -> list[SessionEvent]:
        body = _dict(obj.get("attachment"))
        kind = _text(body.get("type"))
        place = self._place(obj)
        if kind == "queued_command":
            prompt = body.get("prompt")
            text = prompt if isinstance(prompt, str) else "\n".join(_text(b.get("text")) for b in _blocks(prompt))
            if body.get("commandMode", "prompt") == "prompt" and not text.lstrip().startswith(_INJECTED):
                said = SessionEvent(EventKind.USER_MSG, "user", summary=shorten(text), size=len(text), **place)
                return [said._replace(status="queued", detail=whole_text(text, PROMPT_CHARS))]
            return [SessionEvent(EventKind.LIFECYCLE, "system", summary=shorten(text), status="injected", **place)]
        if kind in ("hook_blocking_error", "hook_non_blocking_error"):
            exit_code = as_count(body.get("exitCode"))
            return [
                SessionEvent(
                    EventKind.ERROR,
                    "system",
                    summary=f"hook failed: {shorten(_text(body.get('hookName')))}",
                    status="error",
                    exit_code=exit_code,
                    detail='{"error":"hook"}',
                    **place,
                )
            ]
        if kind not in _QUIET_ATTACHMENTS:
            self._unknown("attachment", kind)
        return []

    def _unknown(self, where: str, kind: Any) -> None:
        self._facts.saw_unknown(f"{where}/{shorten(_text(kind), 60) or '(no type)'}")

    def _queue(self, obj: JsonObject) -> list[SessionEvent]:
        operation = _text(obj.get("operation"))
        text = _text(obj.get("content"))
        return [
            SessionEvent(
                EventKind.LIFECYCLE, "user", summary=shorten(f"{operation} {text}"), status="queue", **self._place(obj)
            )
        ]

    def _progress(self, obj: JsonObject) -> list[SessionEvent]:
        """A subagent's message as its parent saw it. If the subagent's own file exists, the copy is dropped later."""
        data = _dict(obj.get("data"))
        inner = _dict(data.get("message"))
        handler = {"assistant": ClaudeParser._assistant, "user": ClaudeParser._user}.get(_text(inner.get("type")))
        kind = _text(data.get("type"))
        if kind != "agent_progress" or handler is None:
            if kind not in _QUIET_PROGRESS and kind != "agent_progress":
                self._unknown("progress", kind)
            return []
        events = handler(self, {**inner, "isSidechain": True, "agentId": data.get("agentId")})
        blocks = {_text(b.get("id")): b for b in _blocks(_dict(inner.get("message")).get("content"))}
        return [self._with_lines(event, blocks) for event in events]

    def _with_lines(self, event: SessionEvent, blocks: Mapping[str, JsonObject]) -> SessionEvent:
        """The event with the lines of an edit: such a copy of a subagent's result has no patch, only its text."""
        call_id = event.call_id or ""
        if event.kind is EventKind.TOOL_CALL:
            given = _dict(blocks.get(call_id, {}).get("input"))
            if event.tool == "Write" and len(self._written) < _OPEN_WRITES:
                self._written[call_id] = line_count(_text(given.get("content")))
            added, removed = edits.lines_of(event.tool or "", given)
            return event._replace(lines_added=added, lines_removed=removed)
        if event.kind is EventKind.TOOL_RESULT and (lines := self._written.pop(call_id, None)) is not None:
            is_new = event.status == "ok" and event.lines_added is None and _text(event.summary).startswith(_NEW_FILE)
            return event._replace(lines_added=lines, lines_removed=0) if is_new else event
        return event


_HANDLERS: dict[str, Callable[[ClaudeParser, JsonObject], list[SessionEvent]]] = {
    "user": ClaudeParser._user,
    "assistant": ClaudeParser._assistant,
    "system": ClaudeParser._system,
    "attachment": ClaudeParser._attachment,
    "queue-operation": ClaudeParser._queue,
    "progress": ClaudeParser._progress,
}


def _result(block: JsonObject, outcome: Any, place: dict[str, Any]) -> SessionEvent:
    content = block.get("content")
    text = content if isinstance(content, str) else "\n".join(_text(b.get("text")) for b in _blocks(content))
    said = outcome if isinstance(outcome, str) else text
    failed = block.get("is_error") is True
    status = _status(said, text) if failed else "ok"
    more = _dict(outcome)
    code = _EXIT_CODE.match(said) if failed else None
    exit_code = int(code.group(1)) if code else as_count(more.get("exitCode"))
    if (
        exit_code is None
        and not failed
        and "stdout" in more
        and not more.get("interrupted")
        and not more.get("backgroundTaskId")
    ):
        exit_code = 0
    added, removed = _patch_lines(more)
    path = more.get("filePath")
    duration = as_count(more.get("durationMs")) or as_count(more.get("totalDurationMs"))
    agent = more.get("agentId")
    return SessionEvent(
        EventKind.TOOL_RESULT,
        "tool",
        summary=shorten(text),
        status=status,
        call_id=_str_or_none(block.get("tool_use_id")),
        exit_code=exit_code,
        duration_ms=duration,
        file_path=path if isinstance(path, str) else None,
        lines_added=added,
        lines_removed=removed,
        detail=_detail(
            {
                "agent": agent if isinstance(agent, str) else None,
                # the file itself is not read: a path in a log may name any file
                "spilled_bytes": as_count(more.get("persistedOutputSize")) if more.get("persistedOutputPath") else None,
                "background": _str_or_none(more.get("backgroundTaskId")),
            }
        ),
        text=_printed(text, more),
        **place,
    )


def _printed(text: str, more: JsonObject) -> str | None:
    """What the command printed, None if it continues in the background. For a long output `text` is only a preview."""
    if more.get("backgroundTaskId"):
        return None
    if text.startswith("<persisted-output>") and isinstance(more.get("stdout"), str):
        return f"{more['stdout']}\n{_text(more.get('stderr'))}"
    return text


def _status(said: str, text: str) -> str:
    body = said.removeprefix("Error: ")
    if body.startswith(_DENIED) or text.startswith(_DENIED):
        return "denied"
    if body.startswith(_CANCELLED) or text.startswith(_CANCELLED):
        return "cancelled"
    return "error"


def _patch_lines(result: JsonObject) -> tuple[int | None, int | None]:
    """Lines added and removed by an edit, from its result."""
    patch = result.get("structuredPatch")
    if not isinstance(patch, list):
        return None, None
    hunks = [hunk for hunk in map(_dict, patch) if isinstance(hunk.get("lines"), list)]
    lines = [line for hunk in hunks for line in hunk["lines"] if isinstance(line, str)]
    if not lines and result.get("type") == "create":
        return line_count(_text(result.get("content"))), 0
    return sum(line.startswith("+") for line in lines), sum(line.startswith("-") for line in lines)


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    written = count_or_zero(value.get("cache_creation_input_tokens"))
    hour = min(count_or_zero(_dict(value.get("cache_creation")).get("ephemeral_1h_input_tokens")), written)
    return Usage(
        count_or_zero(value.get("input_tokens")),
        count_or_zero(value.get("output_tokens")),
        count_or_zero(value.get("cache_read_input_tokens")),
        written - hour,
        hour,
    )


def _blocks(content: Any) -> list[JsonObject]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [b for b in content if isinstance(b, dict)] if isinstance(content, list) else []


def _dict(value: Any) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _str_or_none(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _id_or_none(value: Any) -> str | None:
    """The id, unless it is a blanked value such as "[removed text]", which many records may share."""
    return value if type(value) is str and value and " " not in value else None


def _dumps(value: Any) -> bytes:
    """Compact JSON; for what orjson refuses its repr, with lone surrogates replaced."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return orjson.dumps(repr(value).encode("utf-8", "replace").decode())


def _detail(values: JsonObject) -> str | None:
    kept = {k: v for k, v in values.items() if v is not None}
    return _dumps(kept).decode() if kept else None
