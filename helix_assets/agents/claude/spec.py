"""Claude Code as data. Not here: how its lines are read (`adapter`)."""

from helix_assets.model.agent import AgentSpec, HookRecipe, Tools, Worktrees

SPEC = AgentSpec(
    flavor="claude",
    title="Claude Code",
    adapter="helix_assets.agents.claude.adapter:ClaudeAdapter",
    # The desktop app keeps many homes below this one folder.
    roots=(
        "~/.claude",
        "$XDG_CONFIG_HOME/claude",
        "~/Library/Application Support/Claude/local-agent-mode-sessions",
    ),
    variable="CLAUDE_CONFIG_DIR",
    variable_is_list=True,
    file_kinds=(("agent-*.jsonl", "subagent"), ("journal.jsonl", "journal"), ("*.jsonl", "main")),
    tools=Tools(
        edit=("Edit", "MultiEdit", "NotebookEdit"),
        write=("Write",),
        read=("Read",),
        list=("Glob", "LS"),
        search=("Grep",),
        shell=("Bash",),
        web=("WebFetch", "WebSearch"),
        subagent=("Agent", "Task"),
        plan=("TodoWrite",),
        ask=("AskUserQuestion",),
        approve=("ExitPlanMode",),
        other=("BashOutput", "EnterPlanMode", "KillBash", "KillShell", "Skill", "SlashCommand", "TaskOutput"),
        plumbing=(
            "ListMcpResources*", "ReadMcpResource*", "ToolSearch",
            # book-keeping: plans, to-do lists, modes, schedules
            "TodoWrite", "TodoRead", "TaskCreate", "TaskUpdate", "TaskList", "TaskGet",
            "EnterPlanMode", "ExitPlanMode", "EnterWorktree", "ExitWorktree", "Cron*",
            # what runs in the background
            "BashOutput", "KillShell", "KillBash", "TaskOutput", "TaskStop", "Monitor", "SendMessage",
            # loading instructions, asking the person
            "Skill", "SlashCommand", "AskUserQuestion", "StructuredOutput",
        ),
    ),
    hook=HookRecipe(file="settings.json", style="events"),
    cleanup_days=30,  # its setting `cleanupPeriodDays`
    windows=(("claude", 200_000),),
    refusals=("Claude requested permissions",),
    worktrees=Worktrees(inside=(".claude/worktrees",)),
)  # fmt: skip
