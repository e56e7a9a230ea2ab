"""Writes hand-made sessions as the agents log them: the same steps, three formats (docs/formats.md)."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

from helix_assets_tests.outcomes import steps as s

START = datetime(2026, 6, 5, 10, 0, tzinfo=UTC)
PAUSE = timedelta(seconds=20)
CWD = "/home/u/shop"
Json = dict[str, Any]


def native_id(session: s.HandMade) -> str:
    """An id made of the session's agent and name."""
    return str(uuid5(NAMESPACE_OID, f"{session.flavor} {session.name}"))


def uid(session: s.HandMade) -> str:
    """The session's id in the product."""
    return f"{session.flavor}:{native_id(session)}"


def write(session: s.HandMade, home: Path) -> None:
    """Put the session where its agent would, below `home`/claude, /codex or /grok."""
    {"claude": _Claude, "codex": _Codex, "grok": _Grok}[session.flavor](session).write(home)


class _Writer:
    """What the formats share: a clock and ids that count up."""

    def __init__(self, session: s.HandMade) -> None:
        self.id = native_id(session)
        self.steps = session.steps
        self.lines: list[Json] = []
        self.moment = START
        self.number = 0

    def write(self, home: Path) -> None:
        """Put the session below `home`."""
        raise NotImplementedError

    def tick(self) -> datetime:
        self.moment += PAUSE
        return self.moment

    def now(self) -> str:
        return self.moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")

    def next(self, prefix: str) -> str:
        self.number += 1
        return f"{prefix}{self.id.replace('-', '')[:16]}{self.number:04d}"

    def play(self) -> None:
        for step in self.steps:
            self.tick()
            getattr(self, f"on_{type(step).__name__.lower()}")(*step)

    def save(self, path: Path, lines: list[Json]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")


class _Claude(_Writer):
    def write(self, home: Path) -> None:
        self.play()
        self.save(home / "claude" / "projects" / "-home-u-shop" / f"{self.id}.jsonl", self.lines)

    def record(self, kind: str, **more: Any) -> None:
        record = {"type": kind, "uuid": str(uuid5(NAMESPACE_OID, self.next(""))), "timestamp": self.now(), "cwd": CWD}
        self.lines.append({**record, "sessionId": self.id, "version": "2.1.30", "isSidechain": False, **more})

    def user(self, content: Any, **more: Any) -> None:
        self.record("user", message={"role": "user", "content": content}, **more)

    def agent(self, block: Json, model: str = "claude-opus-4-5", **more: Any) -> None:
        usage = {"input_tokens": 3, "output_tokens": 20}
        message = {"id": self.next("msg_"), "model": model, "role": "assistant", "content": [block], "usage": usage}
        self.record("assistant", message=message, **more)

    def call(self, tool: str, **arguments: Any) -> str:
        call_id = self.next("toolu_")
        self.agent({"type": "tool_use", "id": call_id, "name": tool, "input": arguments})
        self.tick()
        return call_id

    def result(self, call_id: str, text: str, outcome: Any, failed: bool = False) -> None:
        block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": failed}
        self.user([block], toolUseResult=outcome)

    def refuse(self, call_id: str) -> None:
        self.result(
            call_id,
            "The user doesn't want to proceed with this tool use. The tool use was rejected.",
            "User rejected tool use",
            True,
        )

    def on_prompt(self, text: str) -> None:
        self.user(text)

    def on_say(self, text: str) -> None:
        self.agent({"type": "text", "text": text})

    on_answer = on_say

    def on_run(self, command: str, output: str, code: int) -> None:
        call_id = self.call("Bash", command=command)
        if code:
            self.result(call_id, f"Exit code {code}\n{output}", f"Error: Exit code {code}\n{output}", True)
        else:
            self.result(call_id, output, {"stdout": output, "stderr": "", "interrupted": False, "isImage": False})

    def on_read(self, path: str) -> None:
        self.result(self.call("Read", file_path=f"{CWD}/{path}"), "1→x", {"type": "text"})

    def on_edit(self, path: str, failed: bool) -> None:
        call_id = self.call("Edit", file_path=f"{CWD}/{path}", old_string="a", new_string=f"b{self.number}")
        if failed:
            text = "<tool_use_error>String to replace not found in file.</tool_use_error>"
            self.result(call_id, text, "Error: String to replace not found in file.", True)
        else:
            patch = [{"lines": ["-a", "+b"]}]
            self.result(call_id, "The file has been updated.", {"filePath": f"{CWD}/{path}", "structuredPatch": patch})

    def on_denied(self, command: str, by_person: bool) -> None:
        call_id = self.call("Bash", command=command)
        if by_person:
            self.refuse(call_id)
        else:
            text = "Permission to use Bash has been denied."
            self.result(call_id, text, f"Error: {text}", True)

    def on_deniededit(self, path: str) -> None:
        call_id = self.call("Write", file_path=f"{CWD}/{path}", content="x")
        text = f"Claude requested permissions to write to {CWD}/{path}, but you haven't granted it yet."
        self.result(call_id, text, f"Error: {text}", True)

    def on_cut(self, command: str) -> None:
        self.call("Bash", command=command)

    def on_interrupt(self, in_tool: bool) -> None:
        text = "[Request interrupted by user for tool use]" if in_tool else "[Request interrupted by user]"
        self.user([{"type": "text", "text": text}])

    def on_apierror(self, text: str) -> None:
        self.agent({"type": "text", "text": text}, model="<synthetic>", isApiErrorMessage=True)

    def on_ask(self, question: str) -> None:
        self.call("AskUserQuestion", questions=[{"question": question, "options": []}])

    def on_plan(self, text: str, state: str) -> None:
        call_id = self.call("ExitPlanMode", plan=text)
        if state == "rejected":
            self.refuse(call_id)
        elif state == "accepted":
            self.result(call_id, "User has approved your plan. You can now start coding.", {"plan": text})

    def on_typed(self, command: str) -> None:
        self.user(f"<command-name>{command}</command-name>\n<command-message>{command[1:]}</command-message>")
        self.user("<local-command-stdout>Bye!</local-command-stdout>")

    def on_queued(self, text: str) -> None:
        self.lines.append(
            {"type": "queue-operation", "operation": "enqueue", "timestamp": self.now(), "sessionId": self.id}
            | {"content": text}
        )

    def on_compacted(self) -> None:
        self.record("system", subtype="compact_boundary", content="Conversation compacted",
                    compactMetadata={"trigger": "auto", "preTokens": 160_000})  # fmt: skip
        self.user("This session is being continued from a previous conversation.", isCompactSummary=True)

    def on_injected(self, text: str) -> None:
        self.user(text)


class _Codex(_Writer):
    def write(self, home: Path) -> None:
        meta = {"id": self.id, "timestamp": self.now(), "cwd": CWD, "source": "cli"}
        self.put("session_meta", {**meta, "originator": "codex_cli_rs", "cli_version": "0.118.0"})
        self.play()
        day = START.strftime("%Y/%m/%d")
        name = f"rollout-{START.strftime('%Y-%m-%dT%H-%M-%S')}-{self.id}.jsonl"
        self.save(home / "codex" / "sessions" / day / name, self.lines)

    def put(self, kind: str, payload: Json) -> None:
        self.lines.append({"timestamp": self.now(), "type": kind, "payload": payload})

    def item(self, kind: str, **payload: Any) -> None:
        self.put("response_item", {"type": kind, **payload})

    def event(self, kind: str, **payload: Any) -> None:
        self.put("event_msg", {"type": kind, **payload})

    def said(self, role: str, text: str) -> None:
        part = "output_text" if role == "assistant" else "input_text"
        self.item("message", role=role, content=[{"type": part, "text": text}])

    def call(self, command: str) -> str:
        call_id = self.next("call_")
        arguments = json.dumps({"cmd": command, "workdir": CWD})
        self.item("function_call", name="exec_command", arguments=arguments, call_id=call_id)
        self.tick()
        return call_id

    def on_prompt(self, text: str) -> None:
        self.event("task_started", turn_id=self.next("turn"), model_context_window=272_000)
        self.said("user", text)
        self.event("user_message", message=text, images=[])
        self.put("turn_context", {"cwd": CWD, "model": "gpt-5.2-codex", "approval_policy": "on-request"})

    def on_say(self, text: str) -> None:
        self.event("agent_message", message=text)
        self.said("assistant", text)

    def on_answer(self, text: str) -> None:
        self.on_say(text)
        self.event("task_complete", last_agent_message=text)

    def on_run(self, command: str, output: str, code: int) -> None:
        head = f"Chunk ID: a1b2c3\nWall time: 1.2000 seconds\nProcess exited with code {code}\nOutput:\n"
        self.item("function_call_output", call_id=self.call(command), output=head + output)

    def patch(self, path: str) -> str:
        call_id = self.next("call_")
        text = f"*** Begin Patch\n*** Update File: {path}\n@@\n-a\n+b{self.number}\n*** End Patch"
        self.item("custom_tool_call", status="completed", call_id=call_id, name="apply_patch", input=text)
        self.tick()
        return call_id

    def on_edit(self, path: str, failed: bool) -> None:
        call_id = self.patch(path)
        if failed:
            output = f"apply_patch verification failed: Failed to find expected lines in {path}"
        else:
            output = f"Exit code: 0\nWall time: 0.1 seconds\nOutput:\nSuccess. Updated the following files:\nM {path}\n"
        self.item("custom_tool_call_output", call_id=call_id, output=output)

    def on_denied(self, command: str, by_person: bool) -> None:
        text = "exec command rejected by user" if by_person else "error: command is forbidden by policy"
        self.item("function_call_output", call_id=self.call(command), output=text)

    def on_deniededit(self, path: str) -> None:
        self.item("custom_tool_call_output", call_id=self.patch(path), output="patch rejected by user")

    def on_cut(self, command: str) -> None:
        self.call(command)

    def on_interrupt(self, in_tool: bool) -> None:
        self.said("user", "<turn_aborted>\nThe user interrupted the previous turn on purpose.\n</turn_aborted>")
        self.event("turn_aborted", reason="interrupted")

    def on_apierror(self, text: str) -> None:
        self.event("task_complete", last_agent_message=None, error={"message": text})

    def on_ask(self, question: str) -> None:
        arguments = json.dumps({"questions": [{"question": question}]})
        self.item("function_call", name="request_user_input", arguments=arguments, call_id=self.next("call_"))

    def on_compacted(self) -> None:
        self.put("compacted", {"message": "", "replacement_history": []})

    def on_injected(self, text: str) -> None:
        self.said("user", text)


class _Grok(_Writer):
    def __init__(self, session: s.HandMade) -> None:
        super().__init__(session)
        self.events: list[Json] = []
        self.turn = 0

    def write(self, home: Path) -> None:
        self.play()
        folder = home / "grok" / "sessions" / "%2Fhome%2Fu%2Fshop" / self.id
        told = {"info": {"id": self.id, "cwd": CWD}, "created_at": START.isoformat(), "updated_at": self.now()}
        self.save(folder / "summary.json", [{**told, "current_model_id": "grok-4.6", "chat_format_version": 1}])
        self.save(folder / "updates.jsonl", self.lines)
        self.save(folder / "events.jsonl", self.events)

    def update(self, kind: str, own: bool = False, **update: Any) -> None:
        meta = {"eventId": f"{self.id}-{len(self.lines) + 1}", "agentTimestampMs": int(self.moment.timestamp() * 1000)}
        params = {"sessionId": self.id, "update": {"sessionUpdate": kind, **update}, "_meta": meta}
        method = "_x.ai/session/update" if own else "session/update"
        self.lines.append({"timestamp": int(self.moment.timestamp()), "method": method, "params": params})

    def event(self, kind: str, **more: Any) -> None:
        self.events.append({"ts": self.now(), "type": kind, **more})

    def chunk(self, kind: str, text: str) -> None:
        self.update(kind, content={"type": "text", "text": text})

    def end(self, reason: str, outcome: str, **more: Any) -> None:
        self.update("turn_completed", own=True, prompt_id=self.next("prompt"), stop_reason=reason, **more)
        self.event("turn_ended", outcome=outcome)

    def call(self, tool: str, **given: Any) -> str:
        call_id = self.next("call_")
        self.event("tool_started", tool_name=tool)
        self.update("tool_call", toolCallId=call_id, title=tool, status="pending", rawInput=given)
        self.tick()
        return call_id

    def result(self, call_id: str, tool: str, status: str, outcome: str, output: Json) -> None:
        text = {"type": "text", "text": output.get("output_for_prompt", "")}
        content = [{"type": "content", "content": text}]
        self.update("tool_call_update", toolCallId=call_id, status=status, rawOutput=output, content=content)
        self.event("tool_completed", tool_name=tool, duration_ms=20, outcome=outcome, tool_call_id=call_id)

    def on_prompt(self, text: str) -> None:
        self.event("turn_started", session_id=self.id, turn_number=self.turn, model_id="grok-4.6",
                   session_relationship="primary")  # fmt: skip
        self.update("user_message_chunk", content={"type": "text", "text": text},
                    _meta={"modelId": "grok-4.6", "promptIndex": self.turn})  # fmt: skip
        self.turn += 1

    def on_say(self, text: str) -> None:
        for word in text.split(" "):
            self.chunk("agent_message_chunk", word + " ")

    def on_answer(self, text: str) -> None:
        self.on_say(text)
        self.end("end_turn", "completed", usage={"inputTokens": 900, "outputTokens": 60, "totalTokens": 960})

    def on_run(self, command: str, output: str, code: int) -> None:
        call_id = self.call("run_terminal_command", command=command)
        told = {"type": "Bash", "exit_code": code, "output_for_prompt": output, "timed_out": False}
        self.result(call_id, "run_terminal_command", "completed", "success", told)

    def on_read(self, path: str) -> None:
        self.result(self.call("read_file", target_file=path), "read_file", "completed", "success", {"ok": True})

    def on_edit(self, path: str, failed: bool) -> None:
        call_id = self.call("search_replace", file_path=path, old_string="a", new_string=f"b{self.number}")
        output: Json = {"type": "SearchReplace", "FileNotFound": path} if failed else {"type": "SearchReplace"}
        status, outcome = ("failed", "error") if failed else ("completed", "success")
        self.result(call_id, "search_replace", status, outcome, output)

    def on_denied(self, command: str, by_person: bool) -> None:
        call_id = self.call("run_terminal_command", command=command)
        outcome = "permission_rejected" if by_person else "hook_denied"
        self.result(call_id, "run_terminal_command", "failed", outcome, {})

    def on_deniededit(self, path: str) -> None:
        call_id = self.call("search_replace", file_path=path, old_string="a", new_string="b")
        self.result(call_id, "search_replace", "failed", "permission_rejected", {})

    def on_cut(self, command: str) -> None:
        call_id = self.call("run_terminal_command", command=command)
        given = {"variant": "Bash", "command": command}
        self.update("tool_call_update", toolCallId=call_id, status="in_progress", rawInput=given)

    def on_interrupt(self, in_tool: bool) -> None:
        self.end("cancelled", "cancelled")

    def on_apierror(self, text: str) -> None:
        self.update("retry_state", own=True, type="failed", error_type="api", message=text)
        self.end("error", "error", agent_result=text)

    def on_compacted(self) -> None:
        self.update("auto_compact_completed", own=True, tokens_before=200_000, tokens_after=30_000)
