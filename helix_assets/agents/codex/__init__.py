"""Codex CLI, IDE and Desktop, from the bare items of 2025 to paginated history. One rollout file is one thread.

`adapter` finds the files, `parser` turns their lines into events; `replay` knows which lines are another thread's,
`tokens` what was spent, `tools` what calls and outputs say. The evidence for every rule is in docs/formats/codex.md.
"""
