"""Reports: usage, tools, files, tests, edits, recurring trouble and weeks, computed in DuckDB.

One module per report, listed in `all_reports`.
Not here: the files that reports are published in (`keep.report_files`).
"""
