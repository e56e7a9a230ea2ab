"""What downstream projects get in addition to the digests: a feed of them, their own executions, a scorecard.

All of it is derived and can be rebuilt at any time, except the feed, which must stay the same for its readers.
"""
