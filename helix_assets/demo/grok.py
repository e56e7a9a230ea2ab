"""Writes a story down as the Grok Build CLI does: updates (the log of record), events, chat history, summary.

Belongs here: the three streams of one session and how they agree and differ.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from helix_assets.demo.private import write_private
from helix_assets.demo.scenery import Repo
from helix_assets.demo.scribe import Desk, Record, Scribe, uuid4, uuid7
from helix_assets.demo.story import Reply, Step, Turn
from helix_assets.demo.truth import iso

Fields = Record
_MODELS = ("grok-4.5", "grok-4.6-build")
_TOOLS = {
    "read": ("read_file", "read"),
    "search": ("grep", "search"),
    "list": ("list_dir", "read"),
    "edit": ("search_replace", "edit"),
    "write": ("write_file", "edit"),
    "plan": ("todo_write", "think"),
}
_TICKS_PER_TOKEN = 20_000


class GrokScribe(Scribe):
    """Writes one Grok session."""

    flavor = "grok"

    def __init__(self, desk: Desk, repo: Repo, start_ms: int, sid: str = "") -> None:
        super().__init__(desk, repo, sid or uuid7(desk.rng, start_ms), start_ms, counts_reasoning=True)
        self.story.delegates = False
        self.model = self.rng.choice(_MODELS)
        self.started_ms = start_ms
        self.folder = desk.out / "grok" / "sessions" / quote(repo.cwd, safe="") / self.sid
        self.updates = self.start_file(self.folder / "updates.jsonl")
        self.events = self.start_file(self.folder / "events.jsonl")
        self.chat = self.start_file(self.folder / "chat_history.jsonl")
        self._event_id = self._turn = self._context = self._messages = 0
        self._prompt_id = ""
        self._turn_ms = start_ms
        self._was_cancelled = False
        if not sid:
            self.chat.add({"type": "system", "content": self.story.pen.prose(900)})
            info = f"<user_info>\nWorkspace: {repo.cwd}\n</user_info>"
            self.chat.add({"type": "user", "content": [{"type": "text", "text": info}]})

    def pick_up(self, records: Sequence[Record]) -> None:
        self._event_id = max(int(record["params"]["_meta"]["eventId"].rpartition("-")[2]) for record in records)
        updates = [record["params"]["update"] for record in records]
        last = [update for update in updates if update["sessionUpdate"] == "user_message_chunk"][-1]["_meta"]
        self._turn, self.model = last["promptIndex"] + 1, last["modelId"]
        self._messages = 2 * self._turn

    def play(self, turn: Turn) -> None:
        self._open_turn(turn.prompt)
        usage: dict[str, int] = dict.fromkeys(("inputTokens", "cachedReadTokens", "outputTokens", "reasoningTokens"), 0)
        for reply in turn.replies:
            for name, tokens in self._reply(reply).items():
                usage[name] += tokens
        if turn.ending == "gave_up":
            self._fail()
        else:
            self._close_turn(usage, len(turn.replies), cancelled=turn.ending == "interrupted")
        self._turn += 1
        self.tick(5_000, 90_000)

    def finish(self) -> None:
        super().finish()
        summary: Fields = {"info": {"id": self.sid, "cwd": self.repo.cwd}, "session_summary": self.story.pen.prose(60)}
        summary |= {"created_at": iso(self.started_ms), "updated_at": iso(self.now), "last_active_at": iso(self.now)}
        summary |= {"num_messages": self._messages, "current_model_id": self.model, "chat_format_version": 1}
        summary |= {"git_root_dir": self.repo.cwd, "head_branch": self.branch, "agent_name": "grok-build"}
        path = self.folder / "summary.json"
        write_private(path, json.dumps(summary, indent=2), self.now)
        self.truth.files.append(path.relative_to(self.desk.out).as_posix())

    def _update(self, kind: str, fields: Fields, *, own: bool = False, meta: Fields | None = None) -> None:
        """Append to the log of record; `own` marks the vendor's own kinds."""
        self._event_id += self.rng.randrange(1, 4)
        about: Fields = {"eventId": f"{self.sid}-{self._event_id}", "agentTimestampMs": self.tick(3, 900)}
        about |= {
            "promptId": self._prompt_id,
            "totalTokens": self._context,
            "turnStartMs": self._turn_ms,
            **(meta or {}),
        }
        params = {"sessionId": self.sid, "update": {"sessionUpdate": kind, **fields}, "_meta": about}
        method = "_x.ai/session/update" if own else "session/update"
        self.updates.add({"timestamp": self.now // 1000, "method": method, "params": params}, self.now)

    def _event(self, kind: str, **fields: Any) -> None:
        self.events.add({"ts": iso(self.tick(1, 60)), "type": kind, **fields}, self.now)

    def _open_turn(self, prompt: str) -> None:
        self._prompt_id, self._turn_ms = uuid4(self.rng), self.now
        start: Fields = {"session_id": self.sid, "turn_number": self._turn, "model_id": self.model, "yolo_mode": False}
        start |= {"conversation_message_count": self._messages, "session_relationship": "primary"}
        self._event("turn_started", **start, schema_version="1.0")
        content = {"type": "text", "text": prompt}
        about = {"modelId": self.model, "promptIndex": self._turn}
        self._update("user_message_chunk", {"content": content, "_meta": about})
        row: Fields = {"type": "user", "content": [{"type": "text", "text": f"<user_query>\n{prompt}\n</user_query>"}]}
        if self._was_cancelled:
            row["prior_turn_interrupt"] = "mid_turn_abort"
        self.chat.add({**row, "prompt_index": self._turn})
        self._messages += 1
        self._was_cancelled = False
        self.truth.tally["user_prompts"] += 1
        self.truth.models.add(self.model)

    def _chunks(self, kind: str, text: str) -> None:
        size = max(60, len(text) // 8)
        for number, start in enumerate(range(0, len(text), size)):
            content = {"type": "text", "text": text[start : start + size]}
            self._update(kind, {"content": content}, meta={"chunkId": number})

    def _reply(self, reply: Reply) -> dict[str, int]:
        """Write one model request; returns its tokens."""
        self._event("phase_changed", phase="streaming_text")
        self._chunks("agent_thought_chunk", reply.thought)
        self._chunks("agent_message_chunk", reply.text)
        calls = [
            (f"call-{self._prompt_id[:8]}-{self._event_id}-{number}", step) for number, step in enumerate(reply.steps)
        ]
        if reply.thought:
            self.chat.add({"type": "reasoning", "summary": [{"type": "summary_text", "text": reply.thought}]})
        asked = [{"id": id_, "name": _name(step), "arguments": json.dumps(_arguments(step))} for id_, step in calls]
        self.chat.add({"type": "assistant", "content": reply.text, "tool_calls": asked, "model_id": self.model})
        self._messages += 1
        self.truth.tally["assistant_messages"] += bool(reply.text)
        for call_id, step in calls:
            self._step(call_id, step)
        cached, self._context = self._context, self._context + self.rng.randrange(400, 5_000)
        thinking = len(reply.thought) // 4
        spent = thinking + (len(reply.text) + sum(len(call["arguments"]) for call in asked)) // 4 + 5
        tokens = {"inputTokens": self._context, "cachedReadTokens": cached}
        return {**tokens, "outputTokens": spent, "reasoningTokens": thinking}

    def _step(self, call_id: str, step: Step) -> None:
        name, kind = _name(step), _TOOLS.get(step.kind, ("", "execute"))[1]
        arguments = _arguments(step)
        self.count_step(step.kind, step.fate, step.exit_code)
        self.truth.call(name)
        tool = {"x.ai/tool": {"version": 1, "name": name, "kind": kind, "namespace": "grok_build"}}
        self._update("tool_call", {"toolCallId": call_id, "title": name, "rawInput": arguments, "_meta": tool})
        called = {"toolCallId": call_id, "title": f"{name} {step.path}", "kind": kind}
        self._update("tool_call_update", {**called, "rawInput": {"variant": name, **arguments}})
        self._event("tool_started", tool_name=name)
        outcome, answer = self._outcome(call_id, step)
        took = self.rng.randrange(1, 30_000)
        self._event("tool_completed", tool_name=name, duration_ms=took, outcome=outcome, tool_call_id=call_id)
        self.chat.add({"type": "tool_result", "tool_call_id": call_id, "content": answer})
        self.truth.tally["tool_errors"] += outcome in ("error", "permission_rejected")
        self.truth.tally["tool_denied"] += outcome == "permission_rejected"
        self.truth.tally["tool_cancelled"] += outcome == "cancelled"

    def _outcome(self, call_id: str, step: Step) -> tuple[str, str]:
        """Write how a tool call ended, if the updates say it. Returns the outcome in the events and the answer."""
        if step.fate == "cut":
            # In the updates a cancelled call stays in progress for ever.
            self._update("tool_call_update", {"toolCallId": call_id, "status": "in_progress"})
            return "cancelled", "The tool call was cancelled."
        text = step.output or ("done" if step.fate == "ok" else f"{_name(step)} failed: not found")
        if step.fate == "denied":
            self._event("permission_resolved", tool_name=_name(step), decision="reject", wait_ms=4_000)
            text = "The user rejected this tool call."
        # Sometimes the updates call an error completed; the events are right.
        failed = step.fate != "ok" and self.rng.random() < 0.9
        fields: Fields = {"toolCallId": call_id, "status": "failed" if failed else "completed"}
        fields["content"] = [{"type": "content", "content": {"type": "text", "text": text}}]
        if step.kind in ("run", "test", "commit"):
            raw = list(text[:400].encode())
            shell: Fields = {"type": "Bash", "output": raw, "output_for_prompt": text, "exit_code": step.exit_code}
            shell |= {"command": step.command, "truncated": len(text) > 400, "signal": None, "timed_out": False}
            fields["rawOutput"] = {**shell, "current_dir": self.repo.cwd, "total_bytes": len(text.encode())}
        self._update("tool_call_update", fields)
        return {"ok": "success", "failed": "error", "denied": "permission_rejected"}[step.fate], text

    def _close_turn(self, usage: dict[str, int], calls: int, *, cancelled: bool) -> None:
        total = usage["inputTokens"] + usage["outputTokens"]
        spent: Fields = {**usage, "totalTokens": total, "modelCalls": calls, "numTurns": calls}
        spent["costUsdTicks"] = total * _TICKS_PER_TOKEN
        done: Fields = {"prompt_id": self._prompt_id, "stop_reason": "cancelled" if cancelled else "end_turn"}
        done["usage"] = {**spent, "modelUsage": {self.model: spent}}
        # A reconnect writes the end of a turn again: one prompt id, one cost.
        for _ in range(2 if self.rng.random() < 0.05 else 1):
            self._update("turn_completed", done, own=True, meta={"cancelTrigger": "esc"} if cancelled else None)
        if cancelled:
            self._event("turn_ended", outcome="cancelled", cancellation_category="mid_turn_abort")
        else:
            self._event("turn_ended", outcome="completed")
        self._was_cancelled = cancelled
        self.truth.tally["interrupts"] += cancelled
        own = {"input": usage["inputTokens"] - usage["cachedReadTokens"], "cache_read": usage["cachedReadTokens"]}
        self.truth.spend({**own, "output": usage["outputTokens"], "reasoning": usage["reasoningTokens"]})

    def _fail(self) -> None:
        text = "API error (status 529): the model is overloaded"
        self._update("retry_state", {"type": "failed", "error_type": "api", "message": text}, own=True)
        end = {"prompt_id": self._prompt_id, "stop_reason": "error", "agent_result": text}
        self._update("turn_completed", end, own=True)
        self._event("turn_ended", outcome="error")


def _name(step: Step) -> str:
    return _TOOLS.get(step.kind, ("run_terminal_command",))[0]


def _arguments(step: Step) -> Fields:
    match step.kind:
        case "read":
            return {"target_file": step.path}
        case "search":
            return {"pattern": step.command, "path": step.path}
        case "list":
            return {"target_directory": step.path}
        case "edit":
            return {"file_path": step.path, "old_string": step.old, "new_string": step.new}
        case "write":
            return {"file_path": step.path, "contents": step.new}
        case "plan":
            return {"todos": step.new.split(". ")}
    return {"command": step.command, "description": "Run a command"}
