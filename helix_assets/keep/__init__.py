"""Keeping the promise: the budget, eviction, forgetting, copies, and the lock that every writer takes.

Evicted files are removed in `carry_out` and `lighten`; the only code that removes a digest is in `erase`.
Not here: reading logs (`sweep`) or proving the store (`prove`).
"""
