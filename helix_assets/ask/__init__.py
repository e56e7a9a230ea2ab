"""Reading the memory: sessions, digests, search, SQL, reports, export.

Command line, Dagster and other programs are skins over this; nothing here writes to the store.
Not here: how answers are laid out (`cli`, `defs`).
"""
