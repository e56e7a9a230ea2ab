"""The infrastructure bucket: which tools are plumbing of the agent rather than work on the task.

Belongs here: the built-in list, and the share of calls that fall into it. A person's own list comes from the settings
and takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

INFRA_TOOLS: tuple[str, ...] = (
    # tools of MCP servers: `mcp__server__tool` (Claude), `server__tool` (Codex, Grok), and those that look for them
    "*__*", "ListMcpResources*", "ReadMcpResource*", "list_mcp_*", "read_mcp_*", "ToolSearch", "tool_search*",
    # the agent's own book-keeping: plans, to-do lists, modes, schedules
    "TodoWrite", "TodoRead", "todo_write", "update_plan", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet",
    "EnterPlanMode", "ExitPlanMode", "EnterWorktree", "ExitWorktree", "Cron*", "update_goal",
    # waiting for, feeding and stopping what runs in the background
    "BashOutput", "KillShell", "KillBash", "TaskOutput", "TaskStop", "Monitor", "write_stdin", "get_command_output",
    "kill_command", "wait", "wait_agent", "close_agent", "send_input", "SendMessage",
    # loading instructions, asking the person
    "Skill", "SlashCommand", "AskUserQuestion", "ask_user_question", "request_user_input", "StructuredOutput",
)  # fmt: skip
"""Globs over tool names; upper and lower case differ."""


def infra_overhead_share(tool_histogram: Mapping[str, int], infra_tools: Sequence[str] = INFRA_TOOLS) -> float:
    """The share of tool calls in the infrastructure bucket, 0 to 1 in three digits; 0 without calls."""
    calls = sum(tool_histogram.values())
    infra = sum(count for tool, count in tool_histogram.items() if is_infra(tool, infra_tools))
    return round(infra / calls, 3) if calls else 0.0


def is_infra(tool: str, infra_tools: Sequence[str] = INFRA_TOOLS) -> bool:
    """Whether a tool is in the bucket."""
    return any(fnmatchcase(tool, pattern) for pattern in infra_tools)
