"""What downstream projects get beside the digests: a feed of them, their own executions joined in, a scorecard.

Derived and made anew at any time, but for the feed, which has to say the same to whoever read it before.
"""
