"""Codex as data. Not here: how its lines are read (`adapter`, `parser`)."""

from helix_assets.model.agent import AgentSpec, HookRecipe, Tools, Worktrees

SPEC = AgentSpec(
    flavor="codex",
    title="Codex",
    adapter="helix_assets.agents.codex.adapter:CodexAdapter",
    roots=("~/.codex",),
    variable="CODEX_HOME",
    file_kinds=(("rollout-*.jsonl", "main"), ("rollout-*.jsonl.zst", "main"), ("rollout-*.json", "document")),
    tools=Tools(
        edit=("apply_patch",),
        read=("view_image",),
        shell=("container.exec", "exec_command", "local_shell", "local_shell_call", "shell", "shell_command"),
        web=("web_search",),
        plan=("update_plan",),
        ask=("request_user_input",),
        other=("write_stdin",),
        plumbing=(
            "list_mcp_*", "read_mcp_*", "tool_search*", "update_plan",
            # what runs in the background
            "write_stdin", "wait", "wait_agent", "close_agent", "send_input",
            "request_user_input",
        ),
    ),
    hook=HookRecipe(file="config.toml", style="notify"),
    windows=(("gpt-", 272_000), ("codex", 272_000), ("o3", 200_000), ("o4", 200_000)),
    own_prompts=(r"\A\s*the following is the (?:codex )?agent history",),
    worktrees=Worktrees(behind=(r"/\.codex/worktrees/[^/]+/([^/]+)",)),
)  # fmt: skip
