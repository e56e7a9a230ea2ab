"""Grok Build. One folder is one session; `updates.jsonl` is its main log.

`adapter` finds the files. `updates`, `events` and `chat` each turn the lines of one file into session events, `tools`
reads calls and results. The evidence for every rule is in docs/formats/grok.md.
"""
