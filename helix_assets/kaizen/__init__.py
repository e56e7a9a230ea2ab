"""What downstream projects read: a feed of digests, their own executions joined with sessions, a scorecard.

All of it can be derived again at any time, except the feed, whose positions stay the same for those who read it before.
Not here: the Dagster assets that make it (`defs.kaizen`).
"""
