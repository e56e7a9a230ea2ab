"""Claude Code. One file is one session or one of its subagents.

`adapter` finds the files and turns their lines into events. The evidence for every rule is in docs/formats/claude.md.
"""

from helix_assets.agents.claude.adapter import ClaudeAdapter

__all__ = ["ClaudeAdapter"]
