"""Writes a story down as Codex does, in the shapes of three of its releases.

Belongs here: rollouts, the twins of response items and events, token counts, child threads.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from helix_assets.demo.codex_tools import Call, codex_calls
from helix_assets.demo.scenery import Repo
from helix_assets.demo.scribe import Desk, Record, Scribe, uuid7
from helix_assets.demo.story import Reply, Step, Turn, skewed
from helix_assets.demo.truth import iso

Payload = Record
_MODELS = ("gpt-5-codex", "gpt-5.2-codex", "gpt-5.5")
_WINDOW = 272_000
# The sample person lives an hour east of UTC: rollouts are named and filed by local time, their lines have UTC.
_LOCAL_OFFSET_MS = 3_600_000


@dataclass(frozen=True)
class Release:
    """What distinguishes the rollouts of one release."""

    version: str
    originator: str
    repeats: float  # share of token counts that are written twice
    has_tasks: bool = True
    unified_exec: bool = True
    has_children: bool = False
    has_patch_events: bool = False


RELEASES = (
    Release("0.40.0", "codex_vscode", 0.02, has_tasks=False, unified_exec=False),
    Release("0.104.0", "codex_cli_rs", 0.45, has_children=True),
    Release("0.142.0", "Codex Desktop", 0.03, has_patch_events=True),
)


class CodexScribe(Scribe):
    """Writes one Codex thread."""

    flavor = "codex"

    def __init__(
        self, desk: Desk, repo: Repo, start_ms: int, sid: str = "", *, parent: CodexScribe | None = None
    ) -> None:
        super().__init__(desk, repo, sid or uuid7(desk.rng, start_ms), start_ms, counts_reasoning=True)
        self.parent = parent
        self.release: Release = parent.release if parent else self.rng.choice(RELEASES)
        self.story.delegates = self.release.has_children and parent is None
        self.model = self.rng.choice(_MODELS)
        local = datetime.fromtimestamp((start_ms + _LOCAL_OFFSET_MS) // 1000, UTC)
        name = f"rollout-{local:%Y-%m-%dT%H-%M-%S}-{self.sid}.jsonl"
        self.file = self.start_file(desk.out / "codex" / "sessions" / f"{local:%Y/%m/%d}" / name)
        self._turn_id = ""
        self._context = 0
        self._total: Counter[str] = Counter()
        if not sid:
            self._write_meta()

    def pick_up(self, records: Sequence[Record]) -> None:
        payloads = [record["payload"] for record in records]
        self.release = next(r for r in RELEASES if r.version == payloads[0]["cli_version"])
        self.story.delegates = self.release.has_children
        self._turn_id = self.sid
        for payload in payloads:
            self.model = payload.get("model", self.model)
            if info := payload.get("info"):
                self._total = Counter(info["total_token_usage"])
                self._context = info["last_token_usage"]["input_tokens"]

    def play(self, turn: Turn) -> None:
        self._open_turn(turn.prompt)
        for reply in turn.replies:
            self._reply(reply)
        if turn.ending == "interrupted":
            self._abort()
        elif turn.ending == "gave_up" and self.rng.random() < 0.5:
            return  # an API failure leaves no line in a rollout: the turn just stops
        else:
            if turn.queued:
                self._prompt(turn.queued)
                self._reply(Reply(text=self.story.pen.prose(200)))
            self._close_turn(turn)
        if turn.compacts:
            self._compact(turn)
        self.tick(5_000, 90_000)

    def work(self, task: str, replies: tuple[Reply, ...]) -> None:
        """Do the whole work of a child thread."""
        self.play(Turn(task, replies))
        self.finish()

    def _add(self, kind: str, payload: Payload) -> None:
        self.file.add({"timestamp": iso(self.tick(5, 2_500)), "type": kind, "payload": payload}, self.now)

    def _item(self, kind: str, **fields: Any) -> None:
        self._add("response_item", {"type": kind, **fields})

    def _event(self, kind: str, **fields: Any) -> None:
        self._add("event_msg", {"type": kind, **fields})

    def _message(self, role: str, text: str) -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        self._item("message", role=role, content=[{"type": kind, "text": text}])

    def _write_meta(self) -> None:
        source: Any = "vscode" if self.release.originator == "codex_vscode" else "cli"
        if self.parent:
            self.truth.parent_uid = self.parent.truth.uid
            source = {"subagent": {"thread_spawn": {"parent_thread_id": self.parent.sid, "depth": 1}}}
        git = {"commit_hash": f"{self.rng.getrandbits(160):040x}", "branch": self.branch}
        git["repository_url"] = f"git@git.example:sam/{self.repo.name}.git"
        payload: Payload = {"id": self.sid, "timestamp": iso(self.now), "cwd": self.repo.cwd}
        payload |= {"originator": self.release.originator, "cli_version": self.release.version, "source": source}
        if self.release.has_tasks:
            payload |= {"model_provider": "openai", "base_instructions": {"text": self.story.pen.prose(900)}}
        self._add("session_meta", {**payload, "git": git})

    def _write_context(self) -> None:
        payload: Payload = {"cwd": self.repo.cwd, "approval_policy": "on-request", "model": self.model}
        sandbox = "type" if self.release.unified_exec else "mode"
        payload |= {"sandbox_policy": {sandbox: "workspace-write"}, "effort": "high", "summary": "auto"}
        if self.release.has_tasks:
            payload["turn_id"] = self._turn_id
        self._add("turn_context", payload)
        self.truth.models.add(self.model)

    def _open_turn(self, prompt: str) -> None:
        is_first = not self._turn_id
        self._turn_id = uuid7(self.rng, self.now)
        if self.release.has_tasks:
            started = self.now // 1000
            self._event("task_started", turn_id=self._turn_id, started_at=started, model_context_window=_WINDOW)
        if is_first:
            if self.release.has_tasks:
                self._message("developer", "<permissions instructions>\nThe workspace may be written.")
            self._message("user", f"<environment_context>\n  <cwd>{self.repo.cwd}</cwd>\n</environment_context>")
        self._write_context()
        self._prompt(prompt)
        if is_first:
            self._event("token_count", info=None, rate_limits=self._limits())

    def _prompt(self, text: str) -> None:
        self._message("user", text)
        self._event("user_message", message=text, images=[])
        # A child thread's first message is its parent's, not a person's.
        self.truth.tally["user_prompts"] += self.parent is None

    def _close_turn(self, turn: Turn) -> None:
        if self.release.has_tasks:
            last = turn.replies[-1].text or None
            times = {"completed_at": self.now // 1000, "duration_ms": self.rng.randrange(900, 400_000)}
            self._event("task_complete", turn_id=self._turn_id, last_agent_message=last, **times)

    def _abort(self) -> None:
        if self.release.has_tasks:
            self._message("user", "<turn_aborted>\nThe user interrupted the previous turn on purpose.\n</turn_aborted>")
            self._event("turn_aborted", turn_id=self._turn_id, reason="interrupted")
        else:
            self._event("turn_aborted", reason="interrupted")
        self.truth.tally["interrupts"] += 1

    def _compact(self, turn: Turn) -> None:
        kept = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": turn.prompt}]}
        self._add("compacted", {"message": self.story.pen.prose(1_500), "replacement_history": [kept]})
        if self.release.has_tasks:
            self._event("context_compacted")
        self._context = 6_000
        self.truth.tally["compactions"] += 1

    def _reply(self, reply: Reply) -> None:
        """Write one model request: its thoughts, text and calls with their results, and its tokens."""
        if reply.thought:
            self._event("agent_reasoning", text=reply.thought)
            sealed = base64.b64encode(self.rng.randbytes(skewed(self.rng, 600))).decode()
            self._item("reasoning", summary=[{"type": "summary_text", "text": reply.thought}], encrypted_content=sealed)
        if reply.text:
            self._event("agent_message", message=reply.text)
            self._message("assistant", reply.text)
            self.truth.tally["assistant_messages"] += 1
        chars = len(reply.thought) + len(reply.text)
        for step in reply.steps:
            chars += self._step(step)
        self._count_tokens(chars, thinking=len(reply.thought) // 4)

    def _step(self, step: Step) -> int:
        """Write a step's calls. Returns how many characters their arguments have."""
        self.count_step(step.kind, step.fate, step.exit_code)
        child_id = self._spawn(step) if step.kind == "delegate" else ""
        size = 0
        for call in codex_calls(self.rng, self.repo, step, unified=self.release.unified_exec, child_id=child_id):
            size += self._call(call)
            if step.fate == "ok" and call.tool == "apply_patch" and self.release.has_patch_events:
                change = {"type": "update", "unified_diff": f"@@ -1 +1 @@\n-{step.old[:200]}\n+{step.new[:200]}"}
                self._event("patch_apply_end", success=True, changes={step.path: change}, stdout="", stderr="")
        self.truth.tally["tool_denied"] += step.fate == "denied"
        self.truth.tally["tool_cancelled"] += step.fate == "cut"
        return size

    def _call(self, call: Call) -> int:
        call_id = "call_" + base64.b32encode(self.rng.randbytes(15)).decode()
        if call.tool == "apply_patch":
            self._item("custom_tool_call", status="completed", call_id=call_id, name=call.tool, input=call.arguments)
            self._item("custom_tool_call_output", call_id=call_id, output=call.output)
        else:
            self._item("function_call", name=call.tool, arguments=call.arguments, call_id=call_id)
            self._item("function_call_output", call_id=call_id, output=self.worn(call.output))
        self.truth.call(call.tool)
        self.truth.tally["tool_errors"] += call.is_error
        return len(call.arguments)

    def _spawn(self, step: Step) -> str:
        child = CodexScribe(self.desk, self.repo, self.now, parent=self)
        child.work(step.command, step.helper)
        self.now = child.now
        return child.sid

    def _count_tokens(self, chars: int, *, thinking: int) -> None:
        cached, new = self._context // 128 * 128, self.rng.randrange(300, 4_000)
        self._context += new
        spent = {"input_tokens": self._context, "cached_input_tokens": cached, "output_tokens": chars // 4 + 9}
        spent["reasoning_output_tokens"] = min(thinking, spent["output_tokens"])
        spent["total_tokens"] = spent["input_tokens"] + spent["output_tokens"]
        if not self.release.has_tasks and self.rng.random() < 0.01:
            self._total.clear()  # the old release sometimes reset its sum
        self._total.update(spent)
        info = {"total_token_usage": dict(self._total), "last_token_usage": spent, "model_context_window": _WINDOW}
        for _ in range(2 if self.rng.random() < self.release.repeats else 1):
            self._event("token_count", info=info, rate_limits=self._limits())
        own = {"input": self._context - cached, "cache_read": cached, "output": spent["output_tokens"]}
        self.truth.spend({**own, "reasoning": spent["reasoning_output_tokens"]})
        if not self.release.has_tasks or self.release.has_children:
            self._write_context()

    def _limits(self) -> Payload:
        used = self.rng.randrange(0, 90)
        if not self.release.has_tasks:
            return {"primary_used_percent": used / 1, "primary_window_minutes": 299}
        return {"primary": {"used_percent": used / 1, "window_minutes": 300, "resets_at": self.now // 1000 + 9_000}}
