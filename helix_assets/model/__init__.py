"""What everything is made of: records, events, rows, digests, facts, times and errors.

Pure shapes: nothing here reads a disk or a clock, and nothing else defines a field of an event, a digest or a fact.
Not here: how they are built (`derive`) or kept (`store`).
"""
