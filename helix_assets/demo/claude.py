"""Writes a story down as Claude Code does, in the shapes of four of its releases.

Belongs here: Claude's records, its three subagent layouts, streamed messages, resumed sessions.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from helix_assets.demo.claude_tools import outcome, tool_input, tool_name
from helix_assets.demo.private import write_private
from helix_assets.demo.scenery import Repo
from helix_assets.demo.scribe import Desk, LineFile, Record, Scribe, dashed, uuid4
from helix_assets.demo.story import Reply, Step, Turn, skewed
from helix_assets.demo.truth import iso

_INTERRUPTED = "[Request interrupted by user]"
_INTERRUPTED_TOOL = "[Request interrupted by user for tool use]"
_MODELS = ("claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929", "claude-sonnet-4-20250514")
_HELPER_MODEL = "claude-haiku-4-5-20251001"
_HOOK = "bash ${CLAUDE_PROJECT_DIR}/.claude/hooks/check.sh"


@dataclass(frozen=True)
class Release:
    """What distinguishes the logs of one release."""

    version: str
    sidechains: str  # inline | sibling | folder
    has_progress: bool = False
    has_attachments: bool = False


RELEASES = (
    Release("1.0.98", "inline"),
    Release("2.0.31", "sibling"),
    Release("2.1.17", "folder", has_progress=True),
    Release("2.1.120", "folder", has_attachments=True),
)


@dataclass
class Thread:
    """One chain of records: the conversation itself or a subagent's."""

    file: LineFile
    model: str
    last: str | None = None
    agent_id: str | None = None
    context: int = 0
    echo_to: str = ""

    @property
    def sidechain(self) -> bool:
        """Whether this is a subagent's thread."""
        return self.agent_id is not None


class ClaudeScribe(Scribe):
    """Writes one Claude session."""

    flavor = "claude"

    def __init__(self, desk: Desk, repo: Repo, start_ms: int, sid: str = "") -> None:
        super().__init__(desk, repo, sid or uuid4(desk.rng), start_ms, counts_reasoning=False)
        self.release = self.rng.choice(RELEASES)
        self.folder = desk.out / "claude" / "projects" / dashed(repo.cwd)
        self.main = Thread(self.start_file(self.folder / f"{self.sid}.jsonl"), self.rng.choice(_MODELS))
        self.slug = "-".join(self.rng.choices(repo.terms, k=3))
        self._prompt_id = ""
        self._history: list[bytes] | None = []
        if not sid and self.release.sidechains != "inline" and self.rng.random() < 0.3:
            summary = {"type": "summary", "summary": self.story.pen.prose(60), "leafUuid": uuid4(self.rng)}
            self.main.file.add(summary)

    def continue_from(self, other: ClaudeScribe) -> None:
        """Begin as a resumed session: the other's history under this session's id, dated as it was."""
        self.release, self.branch, self.slug = other.release, other.branch, other.slug
        self.truth.git_branch, self.main.model, self.main.last = other.branch, other.main.model, other.main.last
        self.truth.models |= other.truth.models & {other.main.model}
        self.main.context = other.main.context
        old, new = (f'"sessionId":"{sid}"'.encode() for sid in (other.sid, self.sid))
        self._history = None
        for line in other._history or ():
            self.main.file.add_copy(line.replace(old, new))

    def pick_up(self, records: Sequence[Record]) -> None:
        last = [record for record in records if "uuid" in record and not record["isSidechain"]][-1]
        self.release = next(release for release in RELEASES if release.version == last["version"])
        self.branch, self.main.last, self.main.context = last["gitBranch"], last["uuid"], 20_000
        self._history = None

    @property
    def is_resumable(self) -> bool:
        """Whether another session may start from a copy of this one."""
        return bool(self._history) and self.release.sidechains != "inline"

    def play(self, turn: Turn) -> None:
        self._open_turn(turn)
        for attempt in range(turn.api_retries):
            self._retry(attempt + 1)
        for reply in turn.replies:
            self._reply(self.main, reply, finished=turn.ending != "interrupted" or reply is not turn.replies[-1])
        if turn.ending == "interrupted":
            self._interrupt(for_tool=bool(turn.replies[-1].steps))
        elif turn.ending == "gave_up":
            self._give_up()
        if turn.queued:
            self._queued(turn.queued)
        self._close_turn()
        if turn.compacts:
            self._compact()
        self.tick(5_000, 90_000)

    def finish(self) -> None:
        if self.release.has_attachments:
            self._bare("last-prompt", lastPrompt="continue")
            self._bare("ai-title", aiTitle=self.story.pen.prose(40))
        super().finish()

    def _add(self, thread: Thread, kind: str, **fields: Any) -> str:
        """Append a record to a chain; returns its uuid."""
        uuid = uuid4(self.rng)
        record: Record = {
            "parentUuid": thread.last,
            "isSidechain": thread.sidechain,
            "userType": "external",
            "cwd": self.repo.cwd,
            "sessionId": self.sid,
            "version": self.release.version,
            "gitBranch": self.branch,
        }
        if thread.agent_id and thread.file is not self.main.file:
            record["agentId"] = thread.agent_id
        if self.release.sidechains == "folder":
            record["slug"] = self.slug
        if self.release.has_attachments:
            record |= {"entrypoint": "cli", "promptId": self._prompt_id}
        record |= {"type": kind, **fields, "uuid": uuid, "timestamp": iso(self.tick())}
        line = thread.file.add(record, self.now)
        if thread.file is self.main.file and self._history is not None:
            self._history.append(line)
            if self.size > 400_000:
                self._history = None
        thread.last = uuid
        if thread.echo_to:
            self._echo(thread, record)
        return uuid

    def _bare(self, kind: str, **fields: Any) -> None:
        """Append one of the small records that have no place in the chain."""
        self.main.file.add({"type": kind, **fields, "sessionId": self.sid})

    def _echo(self, thread: Thread, record: Record) -> None:
        """Log a subagent's record a second time, inside the caller's chain."""
        copy = {key: record[key] for key in ("type", "message", "uuid", "timestamp")}
        data: Record = {"type": "agent_progress", "message": copy, "normalizedMessages": [], "agentId": thread.agent_id}
        self._progress(data, f"agent_{thread.echo_to}", thread.echo_to)

    def _user(self, thread: Thread, content: Any, **fields: Any) -> str:
        return self._add(thread, "user", message={"role": "user", "content": content}, **fields)

    def _progress(self, data: Record, tool_id: str, parent_tool_id: str) -> None:
        self._add(self.main, "progress", data=data, toolUseID=tool_id, parentToolUseID=parent_tool_id)

    def _open_turn(self, turn: Turn) -> None:
        self._prompt_id = uuid4(self.rng)
        if self.release.sidechains != "inline":
            message_id, snapshot_at = uuid4(self.rng), iso(self.now)
            snapshot = {"messageId": message_id, "trackedFileBackups": {}, "timestamp": snapshot_at}
            record = {"type": "file-history-snapshot", "messageId": message_id, "snapshot": snapshot}
            self.main.file.add({**record, "isSnapshotUpdate": False})
        if self.main.last is None:
            self._greet()
        if self.rng.random() < 0.04:
            self._user(self.main, "<command-name>/clear</command-name>\n<command-args></command-args>")
        content: Any = turn.prompt
        if turn.picture:
            data = base64.b64encode(turn.picture).decode()
            source = {"type": "base64", "media_type": "image/png", "data": data}
            content = [{"type": "text", "text": turn.prompt}, {"type": "image", "source": source}]
        self._user(self.main, content)
        self.truth.tally["user_prompts"] += 1

    def _greet(self) -> None:
        if self.release.has_progress:
            data: Record = {"type": "hook_progress", "hookEvent": "SessionStart", "hookName": "SessionStart:startup"}
            self._progress({**data, "command": _HOOK}, self._prompt_id, self._prompt_id)
        if self.release.has_attachments:
            self._bare("permission-mode", permissionMode="default")
            hook = {"type": "hook_success", "hookName": "SessionStart:startup", "hookEvent": "SessionStart"}
            self._add(self.main, "attachment", attachment={**hook, "stdout": "ready", "exitCode": 0, "command": _HOOK})
            names = [f"{term}-notes" for term in self.repo.terms]
            listing = {"type": "skill_listing", "content": self.story.pen.prose(700), "names": names}
            self._add(self.main, "attachment", attachment=listing)

    def _close_turn(self) -> None:
        if self.release.has_progress:
            summary: Record = {"hookCount": 1, "hookInfos": [{"command": _HOOK}], "hookErrors": []}
            self._add(self.main, "system", subtype="stop_hook_summary", **summary, level="suggestion")
            self._add(self.main, "system", subtype="turn_duration", durationMs=self.rng.randrange(900, 400_000))

    def _interrupt(self, *, for_tool: bool) -> None:
        text = _INTERRUPTED_TOOL if for_tool else _INTERRUPTED
        self._user(self.main, [{"type": "text", "text": text}])
        self.truth.tally["interrupts"] += 1

    def _retry(self, attempt: int) -> None:
        error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        fields: Record = {"error": {"status": 529, "error": error}, "retryInMs": 500.5 * attempt}
        self._add(
            self.main, "system", subtype="api_error", level="error", **fields, retryAttempt=attempt, maxRetries=10
        )

    def _give_up(self) -> None:
        usage = dict.fromkeys(("input_tokens", "output_tokens"), 0)
        usage |= dict.fromkeys(("cache_creation_input_tokens", "cache_read_input_tokens"), 0)
        text = 'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}'
        message: Record = {"id": uuid4(self.rng), "model": "<synthetic>", "role": "assistant", "type": "message"}
        message |= {"stop_reason": "stop_sequence", "usage": usage, "content": [{"type": "text", "text": text}]}
        self._add(self.main, "assistant", message=message, error="unknown", isApiErrorMessage=True)
        self.truth.tally["assistant_messages"] += 1

    def _queued(self, prompt: str) -> None:
        """Log a prompt that was typed while the agent worked, and its short answer."""
        queue = self.main.file
        for operation, extra in (("enqueue", {"content": prompt}), ("dequeue", {})):
            record = {"type": "queue-operation", "operation": operation, "timestamp": iso(self.tick())}
            queue.add({**record, "sessionId": self.sid, **extra}, self.now)
        if self.release.has_attachments:
            queued = {"type": "queued_command", "commandMode": "prompt", "prompt": prompt}
            self._add(self.main, "attachment", attachment=queued)
        else:
            self._user(self.main, prompt)
        self.truth.tally["user_prompts"] += 1
        self._reply(self.main, Reply(text=self.story.pen.prose(200)))

    def _compact(self) -> None:
        last, self.main.last = self.main.last, None
        about = {"trigger": "auto", "preTokens": self.main.context}
        extra: Record = {"logicalParentUuid": last, "compactMetadata": about, "isMeta": False, "level": "info"}
        self._add(self.main, "system", subtype="compact_boundary", content="Conversation compacted", **extra)
        text = "This session is being continued from a previous conversation that ran out of context. "
        flags = {"isVisibleInTranscriptOnly": True, "isCompactSummary": True}
        self._user(self.main, text + self.story.pen.prose(3_000), **flags)
        self.main.context = 9_000
        self.truth.tally["compactions"] += 1

    def _reply(self, thread: Thread, reply: Reply, *, finished: bool = True) -> None:
        """Write one API message, a line per content block, with its tool results."""
        calls = [(f"toolu_01{self._id(22)}", step) for step in reply.steps]
        blocks = list(self._blocks(reply, calls))
        usage = self._usage(thread, sum(len(str(block)) for block in blocks), finished=finished)
        message: Record = {"model": thread.model, "id": f"msg_01{self._id(22)}", "type": "message"}
        message |= {"role": "assistant", "stop_reason": None, "stop_sequence": None}
        request = f"req_011{self._id(21)}"
        pending: list[tuple[str, str, Step]] = []
        for number, block in enumerate(blocks, 1):
            final = finished and number == len(blocks)
            # Early lines of a streamed message have the output counted so far; only the last one is right.
            seen = usage if final else {**usage, "output_tokens": min(usage["output_tokens"], 1 + 2 * number)}
            body = {**message, "content": [block], "usage": seen}
            line = self._add(thread, "assistant", message=body, requestId=request)
            if block["type"] == "tool_use":
                pending.append((line, *calls[len(pending)]))
                if number < len(blocks) and self.rng.random() < 0.3:
                    self._result(thread, *pending[-1])
                    pending[-1] = ("", *pending[-1][1:])
        for line, tool_id, step in pending:
            if line:
                self._result(thread, line, tool_id, step)
        self._account(thread, seen)

    def _blocks(self, reply: Reply, calls: list[tuple[str, Step]]) -> Iterator[Record]:
        if reply.thought:
            signature = base64.b64encode(self.rng.randbytes(skewed(self.rng, 320))).decode()
            yield {"type": "thinking", "thinking": reply.thought, "signature": signature}
        if reply.text:
            yield {"type": "text", "text": reply.text}
        for tool_id, step in calls:
            name = tool_name(step, modern=self.release.has_attachments)
            yield {"type": "tool_use", "id": tool_id, "name": name, "input": tool_input(step)}

    def _usage(self, thread: Thread, chars: int, *, finished: bool) -> Record:
        new = chars // 4 + self.rng.randrange(200, 3_000)
        read, thread.context = thread.context, thread.context + new
        usage: Record = {"input_tokens": self.rng.randrange(1, 12), "cache_creation_input_tokens": new}
        usage |= {"cache_read_input_tokens": read, "output_tokens": chars // 4 + 9 if finished else 3}
        usage["cache_creation"] = {"ephemeral_5m_input_tokens": new, "ephemeral_1h_input_tokens": 0}
        return {**usage, "service_tier": "standard"}

    def _account(self, thread: Thread, usage: Record) -> None:
        tokens = {"input": usage["input_tokens"], "output": usage["output_tokens"]}
        tokens |= {"cache_read": usage["cache_read_input_tokens"], "cache_write": usage["cache_creation_input_tokens"]}
        self.truth.spend(tokens, sidechain=thread.sidechain)
        self.truth.models.add(thread.model)
        self.truth.tally["assistant_messages"] += 1
        self.truth.tally["assistant_messages_subagent"] += thread.sidechain

    def _result(self, thread: Thread, line: str, tool_id: str, step: Step) -> None:
        self.truth.call(tool_name(step, modern=self.release.has_attachments), sidechain=thread.sidechain)
        self.count_step(step.kind, step.fate, step.exit_code)
        thread.last = line
        content, result, is_error = outcome(step)
        if step.kind == "delegate":
            content, result = self._delegate(thread, tool_id, step)
        elif step.kind == "test" and self.release.has_progress and not thread.sidechain:
            self._watch(tool_id, step.output)
        block: Record = {"tool_use_id": tool_id, "type": "tool_result", "content": content}
        if isinstance(content, str):
            block["content"] = self.worn(content)
        if is_error:
            block["is_error"] = True
            self.truth.tally["tool_errors"] += 1
        self.truth.tally["tool_denied"] += step.fate == "denied"
        self.truth.tally["tool_cancelled"] += step.fate == "cut"
        self._user(thread, [block], toolUseResult=result)

    def _watch(self, tool_id: str, output: str) -> None:
        """Log the growing output of a running command, all of it each time."""
        for second, share in ((2, 3), (5, 2)):
            so_far = output[: len(output) // share]
            data: Record = {"type": "bash_progress", "output": so_far[-300:], "fullOutput": so_far}
            data |= {"elapsedTimeSeconds": second, "totalLines": so_far.count("\n")}
            self._progress(data, f"bash-progress-{second}", tool_id)

    def _delegate(self, thread: Thread, tool_id: str, step: Step) -> tuple[list[Record], Record]:
        """Let a subagent work, and log it where this release does. Returns what its caller gets back."""
        agent_id = f"{self.rng.getrandbits(28):07x}"
        helper = Thread(self._agent_file(agent_id), _HELPER_MODEL, agent_id=agent_id)
        helper.echo_to = tool_id if self.release.has_progress else ""
        self._user(helper, step.command)
        *work, report = step.helper
        for reply in work:
            self._reply(helper, reply)
        # The echoes stop before the last message: it is only in the subagent's own file.
        helper.echo_to = ""
        self._reply(helper, report)
        content = [{"type": "text", "text": step.output}]
        result: Record = {"status": "completed", "prompt": step.command, "agentId": agent_id, "content": content}
        calls = sum(len(reply.steps) for reply in step.helper)
        return content, {**result, "totalTokens": helper.context, "totalToolUseCount": calls}

    def _agent_file(self, agent_id: str) -> LineFile:
        if self.release.sidechains == "inline":
            return self.main.file
        if self.release.sidechains == "sibling":
            return self.start_file(self.folder / f"agent-{agent_id}.jsonl")
        folder = self.folder / self.sid / "subagents"
        if self.release.has_attachments:
            meta = '{"agentType":"general-purpose","spawnDepth":1,"description":"Look into it"}\n'
            write_private(folder / f"agent-{agent_id}.meta.json", meta, self.now)
        return self.start_file(folder / f"agent-{agent_id}.jsonl")

    def _id(self, length: int) -> str:
        return base64.b32encode(self.rng.randbytes(length)).decode()[:length]
