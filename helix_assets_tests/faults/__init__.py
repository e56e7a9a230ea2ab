"""Fault gates. Those that take long are modules with a command (`python -m helix_assets_tests.faults.<gate>`).

A gate tries to break a promise of docs/RELIABILITY.md and counts how often it succeeds. Tests run each in short.
"""
