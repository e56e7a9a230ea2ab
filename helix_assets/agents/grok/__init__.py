"""Grok Build. One folder is one session; `updates.jsonl` is its log of record.

`adapter` finds the files, `updates`, `events` and `chat` turn the lines of one file each into session events, `tools`
knows what calls and results say. The evidence for every rule is in docs/formats/grok.md.
"""
