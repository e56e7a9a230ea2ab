"""Which Codex tools do a step, what is passed to them and what their results look like."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from helix_assets.demo.scenery import Repo
from helix_assets.demo.story import Step


@dataclass(frozen=True)
class Call:
    """One tool call with its output. For a patch, `arguments` is its raw input."""

    tool: str
    arguments: str
    output: str
    is_error: bool = False


def codex_calls(rng: Random, repo: Repo, step: Step, *, unified: bool, child_id: str) -> Iterator[Call]:
    """Yield the calls that do a step."""
    if step.kind == "plan":
        plan = [{"step": wish, "status": "pending"} for wish in step.new.split(". ")]
        yield Call("update_plan", json.dumps({"plan": plan}), "Plan updated")
    elif step.kind == "delegate":
        yield Call("spawn_agent", json.dumps({"message": step.command}), json.dumps({"agent_id": child_id}))
        done = {"status": {child_id: {"completed": step.output}}, "timed_out": False}
        yield Call("wait", json.dumps({"ids": [child_id]}), json.dumps(done))
    elif step.kind in ("edit", "write"):
        yield _patch(step, unified=unified)
    else:
        yield from _shell(rng, repo, step, unified=unified)


def _shell(rng: Random, repo: Repo, step: Step, *, unified: bool) -> Iterator[Call]:
    command, output, code = _command(repo, step)
    if unified:
        arguments: dict[str, Any] = {"cmd": command, "workdir": repo.cwd, "yield_time_ms": 10_000}
        tool = "exec_command"
    else:
        arguments, tool = {"command": ["bash", "-lc", command], "workdir": repo.cwd}, "shell"
    if step.fate == "denied":
        yield Call(tool, json.dumps(arguments), "exec command rejected by user", is_error=True)
    elif step.fate == "cut":
        yield Call(tool, json.dumps(arguments), f"aborted by user after {rng.randrange(1, 90)}.{rng.randrange(10)}s")
    elif not unified:
        result = {"output": output, "metadata": {"exit_code": code, "duration_seconds": rng.randrange(90) / 10}}
        yield Call(tool, json.dumps(arguments), json.dumps(result), is_error=code != 0)
    else:
        if step.kind == "test" and rng.random() < 0.25:
            session = rng.randrange(1_000, 99_999)
            yield Call(tool, json.dumps(arguments), _chunk(rng, f"Process running with session ID {session}", ""))
            tool, arguments = "write_stdin", {"session_id": session, "chars": "", "yield_time_ms": 30_000}
        text = _chunk(rng, f"Process exited with code {code}", output)
        yield Call(tool, json.dumps(arguments), text, is_error=code != 0)


def _chunk(rng: Random, state: str, output: str) -> str:
    wall = f"{rng.randrange(30)}.{rng.randrange(10_000):04}"
    head = f"Chunk ID: {rng.getrandbits(24):06x}\nWall time: {wall} seconds\n{state}"
    return f"{head}\nOriginal token count: {len(output) // 4}\nOutput:\n{output}"


def _command(repo: Repo, step: Step) -> tuple[str, str, int]:
    path = step.path.removeprefix(f"{repo.cwd}/")
    failed = step.fate == "failed"
    if step.kind == "read":
        missing = f"sed: can't read {path}: No such file or directory\n"
        return f"sed -n '1,240p' {path}", missing if failed else step.output, 2 if failed else 0
    if step.kind == "search":
        return f"rg -n '{step.command}'", "regex parse error\n" if failed else step.output, 2 if failed else 0
    if step.kind == "list":
        return "rg --files", step.output, 0
    return step.command, step.output, step.exit_code


def _patch(step: Step, *, unified: bool) -> Call:
    if step.kind == "write":
        body = "\n".join(f"+{line}" for line in step.new.split("\n"))
        patch = f"*** Begin Patch\n*** Add File: {step.path}\n{body}\n*** End Patch"
    else:
        lines = [f"-{line}" for line in step.old.split("\n")] + [f"+{line}" for line in step.new.split("\n")]
        patch = f"*** Begin Patch\n*** Update File: {step.path}\n@@\n" + "\n".join(lines) + "\n*** End Patch"
    if step.fate == "denied":
        return Call("apply_patch", patch, "patch rejected by user", is_error=True)
    if step.fate == "cut":
        return Call("apply_patch", patch, "aborted by user after 2.1s")
    if step.fate == "failed":
        text = f"apply_patch verification failed: Failed to find expected lines in {step.path}:\n{step.old[:200]}"
        return Call("apply_patch", patch, text, is_error=True)
    done = f"Success. Updated the following files:\n{'A' if step.kind == 'write' else 'M'} {step.path}\n"
    if unified:
        return Call("apply_patch", patch, f"Exit code: 0\nWall time: 0 seconds\nOutput:\n{done}")
    result = {"output": done, "metadata": {"exit_code": 0, "duration_seconds": 0.0}}
    return Call("apply_patch", patch, json.dumps(result))
