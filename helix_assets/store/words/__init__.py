"""The search index: words as hashes, in segments, kept in step with what is stored.

`hashing` turns text into words, `segment` is a file of the index, `keep` brings it up to date.
Not here: searching it (`ask.search`).
"""
