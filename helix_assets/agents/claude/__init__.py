"""Claude Code: how its logs are found and read."""

from helix_assets.agents.claude.adapter import ClaudeAdapter

__all__ = ["ClaudeAdapter"]
