"""Claude Code: how its logs are found and read."""
