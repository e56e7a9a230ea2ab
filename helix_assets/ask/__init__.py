"""Reading the memory: sessions, digests, search, SQL, reports, export.

The command line, Dagster and other programs only show what this returns. Nothing here writes to the store.
Not here: how answers are formatted (`cli`, `defs`).
"""
