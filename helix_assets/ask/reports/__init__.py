"""Reports: what the memory says of usage, tools, files, tests, edits, patterns and weeks, computed in DuckDB.

Which there are, and how one is made, stands in `kinds`; nothing is imported here, because sweeps need `files` alone.
"""
