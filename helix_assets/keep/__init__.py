"""Keeping the promise: the budget, eviction, forgetting, copies, and the lock that every writer takes.

The one line that deletes raw bytes is in `carry_out`; the only code that removes a digest is in `erase`.
Not here: reading logs (`sweep`) or proving the store (`prove`).
"""
