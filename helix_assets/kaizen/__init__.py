"""What downstream projects read: their own executions joined with sessions, a scorecard.

All of it can be derived again at any time. Not here: the Dagster assets that make it (`defs.kaizen`), or the feed of
digests, which is part of the catalog (`store.catalog.feed`).
"""
