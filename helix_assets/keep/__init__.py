"""Keeping the promise: the budget, eviction, forgetting, copies, and the writer's door.

The one line that deletes raw bytes is in `carry_out`; the only code that removes a digest is in `erase`.
Not here: taking in (`sweep`), or proving (`prove`).
"""
