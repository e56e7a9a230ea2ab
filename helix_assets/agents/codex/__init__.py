"""Codex CLI, IDE and Desktop, from the bare items of 2025 to paginated history. One rollout file is one thread.

`adapter` finds the files, `parser` turns their lines into events. `replay` finds lines copied from another thread,
`tokens` counts what was spent, `tools` reads calls and outputs. The evidence for every rule: docs/formats/codex.md.
"""
