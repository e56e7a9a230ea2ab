"""Where things are kept: the catalog, part files, fact files, the search index, the key and the lock.

All SQL of tables, all paths and all Parquet belong here. It knows no agent and derives nothing.
Not here: when something is written (`sweep`) or removed (`keep`).
"""
