"""Claude Code. One file is one session or one of its subagents.

`spec` describes the agent, `adapter` finds the files and turns their lines into events. The evidence for every rule is
in docs/formats/claude.md.
"""
