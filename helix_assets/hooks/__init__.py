"""Agents' own hooks: what they run, the notes they leave, and putting them into agents' settings.

A note only says that a session changed; the next sweep reads its log.
Not here: reading logs (`sweep`).
"""
