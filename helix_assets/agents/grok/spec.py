"""Grok Build as data. Not here: how its lines are read (`adapter` and the modules that it names)."""

from helix_assets.model.agent import AgentSpec, HookRecipe, Tools, Worktrees

SPEC = AgentSpec(
    flavor="grok",
    title="Grok",
    adapter="helix_assets.agents.grok.adapter:GrokAdapter",
    pieces="helix_assets.agents.grok.pieces:PIECES",
    roots=("~/.grok",),
    variable="GROK_HOME",
    file_kinds=(
        ("summary.json", "about"),
        ("signals.json", "about"),
        ("events.jsonl", "events"),
        ("updates.jsonl", "main"),
        ("chat_history.jsonl", "fallback"),
    ),
    tools=Tools(
        edit=("search_replace", "edit_file", "str_replace"),
        write=("write", "write_file"),
        read=("read_file",),
        list=("list_dir",),
        search=("grep",),
        shell=("run_terminal_cmd", "run_terminal_command"),
        web=("web_fetch", "web_search"),
        plan=("todo_write",),
        ask=("ask_user_question",),
        approve=("exit_plan_mode",),
        plumbing=("todo_write", "update_goal", "get_command_output", "kill_command", "ask_user_question"),
    ),
    hook=HookRecipe(file="hooks/helix-assets.json", style="events", is_ours=True),
    price_family="turn",
    worktrees=Worktrees(suffix=("grok",)),
)
